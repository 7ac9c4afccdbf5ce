// Takes the programs of quick starts out of their pages, and runs them as readers do. The only change: some open another address than the page says.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import type { Cloud } from './cloud.ts'

/** The address that most pages of the documentation open. The first pages open one that works without the internet. */
const EXAMPLE = 'https://example.com'
export const FIRST = 'data:text/html,<title>It works</title>'
/** The limit for an agent that takes several steps, on a busy machine. */
const PROGRAM_MS = 110_000

export interface Quickstart {
  /** The programs by their file names on the page. */
  programs: Map<string, string>
  /** The output that the page shows. */
  output: string
}

const blocksOf = (page: string) =>
  [...readFileSync(join(PACKAGE_DIR, 'docs', `${page}.md`), 'utf8').matchAll(/^```(\w+) (\S+)\n(.*?)^```$/gms)].map(
    ([, , name, content]) => [name!, content!] as const,
  )

/** Reads a page's programs (its code blocks with a file name) and its block `text output`. @throws when there are none */
export function readQuickstart(page: string): Quickstart {
  const blocks = blocksOf(page)
  const programs = new Map(blocks.filter(([name]) => name.includes('.')))
  const output = blocks.find(([name]) => name === 'output')?.[1]
  if (programs.size === 0 || output === undefined) throw new Error(`docs/${page}.md has no program, or no block with what it prints`)
  return { programs, output: output.trimEnd() }
}

export interface Site extends AsyncDisposable {
  /** The address for sessions. */
  url: string
  /** The paths that were requested, without favicons. */
  paths(): string[]
}

/** Serves a page like that of example.com, with a link to another page. */
export async function serveExample(): Promise<Site> {
  let paths: string[] = []
  const page = (title: string, more: string) =>
    `<!doctype html><title>${title}</title><link rel="icon" href="data:,"><style>a{color:#00e;position:fixed;left:100px;top:200px;font-size:60px}</style><h1>${title}</h1>${more}`
  const server = createServer((request, response) => {
    paths.push(request.url!)
    response.setHeader('content-type', 'text/html; charset=utf-8')
    response.end(
      request.url === '/more'
        ? page('Example Domains', '')
        : page('Example Domain', '<p>This domain is for use in examples.</p><a href="/more">Learn more</a>'),
    )
  })
  server.listen(0)
  await once(server, 'listening')
  return {
    url: `http://host.cob.internal:${(server.address() as AddressInfo).port}`,
    paths: () => paths,
    async [Symbol.asyncDispose]() {
      paths = []
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

export interface How {
  cloud: Cloud
  /** The site that the program opens instead of the documented address. */
  site?: Pick<Site, 'url'>
  /** The address in the program that is replaced, if it is not the usual one. */
  opens?: string
  /** The program that runs the file, with its first arguments. */
  command: string[]
  /** The folder with the packages of a Node program. */
  modules?: string
  env?: Record<string, string>
}

/** Runs a page's program, and resolves with its output. @throws with all its output when it fails */
export async function runQuickstart(page: string, name: string, { cloud, site, opens = EXAMPLE, command, modules, env = {} }: How): Promise<string> {
  const program = new Map(blocksOf(page)).get(name)
  if (program === undefined) throw new Error(`docs/${page}.md has no program ${name}`)
  if (!program.includes(opens)) throw new Error(`${name} of docs/${page}.md does not open ${opens}`)
  const dir = mkdtempSync(join(tmpdir(), 'cob-quickstart-'))
  try {
    writeFileSync(join(dir, name), program.replaceAll(opens, site?.url ?? opens))
    if (modules !== undefined) await promisify(execFile)('npm', ['init', '-y'], { cwd: dir, env: { PATH: process.env.PATH, HOME: dir }, timeout: PROGRAM_MS })
    if (modules !== undefined) symlinkSync(modules, join(dir, 'node_modules'))
    const [file, ...args] = command
    const { stdout } = await promisify(execFile)(file!, [...args, name], {
      cwd: dir,
      env: { PATH: process.env.PATH, HOME: dir, KERNEL_BASE_URL: cloud.url, KERNEL_API_KEY: cloud.key, PYTHONDONTWRITEBYTECODE: '1', ...env },
      timeout: PROGRAM_MS,
      maxBuffer: 32 * 1024 * 1024,
    })
    return stdout.trimEnd()
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    throw new Error(`${name} of docs/${page}.md failed: ${(error as Error).message.slice(0, 300)}\n${stdout.slice(-3000)}\n${stderr.slice(-3000)}`, {
      cause: error,
    })
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

/** Runs `node` without warnings about type stripping. */
export const NODE = [process.execPath, '--disable-warning=ExperimentalWarning']
