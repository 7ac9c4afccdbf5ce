// Fetches an app's code from a git repository: one commit, without history.
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Source } from './contract.ts'
import { BuildFailed, type Tools } from './tools.ts'

const GIT_MS = 5 * 60_000

const FULL_SHA = /^([0-9a-f]{40}|[0-9a-f]{64})$/

/** Fetches `ref` (branch, tag or full commit) of the repository into `code`. */
export async function fetchRepository(source: Source & { type: 'git' }, code: string, tools: Tools): Promise<void> {
  const { ref } = source
  if (!/^https?:\/\//.test(source.url) || !URL.canParse(source.url)) throw new BuildFailed('the url of a repository must begin with https:// or http://')
  const { url, login } = apart(source)
  // git would read it as an option.
  if (ref === '' || ref.startsWith('-') || /[\0\s]/.test(ref)) throw new BuildFailed(`"${ref}" is not a branch, tag or commit`)
  await mkdir(code, { recursive: true })
  const env = environment(url, login, tools)
  const git = (what: string, ...args: string[]) => tools.must('git', args, { what, cwd: code, ms: GIT_MS, env })
  await git('git init', 'init', '--quiet', '.')
  // Branches and tags by their short name, commits by their hash: all are fetched the same way.
  await git(`git fetch ${url} ${ref}`, 'fetch', '--quiet', '--depth', '1', '--no-tags', '--no-recurse-submodules', '--', url, ref)
  await git('git checkout', '-c', 'advice.detachedHead=false', 'checkout', '--quiet', FULL_SHA.test(ref) ? ref : 'FETCH_HEAD')
  await git('git submodule update', 'submodule', '--quiet', 'update', '--init', '--recursive', '--depth', '1')
  await rm(join(code, '.git'), { recursive: true, force: true })
}

/** Passes settings by environment variables, so that secrets are in no argument list or file. */
function environment(url: string, login: string | undefined, tools: Tools): Record<string, string> {
  const settings: [string, string][] = [
    ['protocol.allow', 'never'],
    ['protocol.https.allow', 'always'],
    ['protocol.http.allow', 'always'],
    ['credential.helper', ''],
    ['core.hooksPath', '/dev/null'],
  ]
  if (login) {
    const header = Buffer.from(login).toString('base64')
    for (const secret of [login.slice(login.indexOf(':') + 1), header]) tools.keepSecret(secret)
    // Only for that host: do not send the login to hosts of submodules.
    settings.push([`http.${new URL(url).origin}/.extraHeader`, `Authorization: Basic ${header}`])
  }
  return {
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_COUNT: String(settings.length),
    ...Object.fromEntries(
      settings.flatMap(([key, value], at) => [
        [`GIT_CONFIG_KEY_${at}`, key],
        [`GIT_CONFIG_VALUE_${at}`, value],
      ]),
    ),
  }
}

/** Splits the URL into the address without a login, and the login. */
function apart({ url, token }: Source & { type: 'git' }): { url: string; login: string | undefined } {
  const { origin, pathname, search, username, password } = new URL(url)
  const written = password === '' ? undefined : `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return { url: origin + pathname + search, login: token ? `x-access-token:${token}` : written }
}
