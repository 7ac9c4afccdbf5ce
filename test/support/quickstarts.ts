// Quick starts of the documentation: their programs, taken out of the pages, and run as readers run them. Some open another address than the page says, and that is the only change.
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

/** What pages of the documentation open, except the first ones, which work without the internet. */
const EXAMPLE = 'https://example.com'
export const FIRST = 'data:text/html,<title>It works</title>'
/** An agent that takes some steps, on a busy machine. */
const PROGRAM_MS = 110_000

export interface Quickstart {
  /** By the name that the page gives to each. */
  programs: Map<string, string>
  /** What they print. */
  output: string
}

const blocksOf = (page: string) =>
  [...readFileSync(join(PACKAGE_DIR, 'docs', `${page}.md`), 'utf8').matchAll(/^```(\w+) (\S+)\n(.*?)^```$/gms)].map(
    ([, , name, content]) => [name!, content!] as const,
  )

/** The programs of a page, which are its code blocks with a file name, and its block `text output`. @throws when there are none */
export function readQuickstart(page: string): Quickstart {
  const blocks = blocksOf(page)
  const programs = new Map(blocks.filter(([name]) => name.includes('.')))
  const output = blocks.find(([name]) => name === 'output')?.[1]
  if (programs.size === 0 || output === undefined) throw new Error(`docs/${page}.md has no program, or no block with what it prints`)
  return { programs, output: output.trimEnd() }
}

export interface Site extends AsyncDisposable {
  /** For sessions. */
  url: string
  /** The paths that were requested, favicons left out. */
  paths(): string[]
}

/** A page like that of example.com, with a link to another one. */
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
  /** What it opens instead of the page of the documentation. */
  site?: Pick<Site, 'url'>
  /** The address that it opens, if not the usual one. */
  opens?: string
  /** The program that runs it, and its first arguments; then comes the file. */
  command: string[]
  /** The folder with the packages of a program for Node. */
  modules?: string
  env?: Record<string, string>
}

/** Runs a program of a page. Resolves with what it printed. @throws with all its output when it fails */
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

/** Runs `node` without its warnings about types. */
export const NODE = [process.execPath, '--disable-warning=ExperimentalWarning']
