// The files that web/build.ts makes, in memory: pages, and the files that they load. Empty without a build.
import { readdir, readFile } from 'node:fs/promises'
import { extname, join, relative } from 'node:path'
import { PACKAGE_DIR } from '../../../base/paths.ts'

const BUILT = join(PACKAGE_DIR, '.cob/web')
/** A build replaces the whole folder, so a read at the same time may get files of two builds. */
const READ_TIMES = 3

const TYPES: Record<string, string> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
  '.png': 'image/png',
}

/** A file that browsers may cache for ever: its name has a hash of its content. */
export interface WebFile {
  type: string
  plain: Buffer
  gzip: Buffer | undefined
  brotli: Buffer | undefined
}

export interface WebFiles {
  /** HTML by name without its ending, with placeholders that an answer fills in. */
  pages: Map<string, string>
  /** Files that pages load, by name below `/dashboard/`. */
  files: Map<string, WebFile>
}

/** The built files; undefined when nothing is built. */
export type Built = () => Promise<WebFiles | undefined>

/** Caches the result of `read`. If a build comes later, while the service runs, the next request finds it. */
export function keepBuilt(read: Built): Built {
  let found: Promise<WebFiles | undefined> | undefined
  return async () => {
    found ??= read()
    const files = await found.catch((error: unknown) => ((found = undefined), Promise.reject(error)))
    if (!files) found = undefined
    return files
  }
}

/** Reads the built files. Undefined when nothing is built. */
export async function readBuilt(folder = BUILT): Promise<WebFiles | undefined> {
  for (let time = 0; time < READ_TIMES; time++) {
    const before = await tagOf(folder)
    if (before === undefined) return undefined
    const found = await readAll(join(folder, 'files')).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
    })
    if (found && (await tagOf(folder)) === before) return found
  }
  return undefined
}

async function tagOf(folder: string): Promise<string | undefined> {
  try {
    return await readFile(join(folder, '.tag'), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

async function readAll(folder: string): Promise<WebFiles> {
  const names = (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
  const bytes = new Map(await Promise.all(names.map(async (name) => [name, await readFile(join(folder, name))] as const)))
  const files = new Map<string, WebFile>()
  const pages = new Map<string, string>()
  for (const [name, plain] of bytes) {
    if (name.endsWith('.html')) pages.set(name.slice(0, -'.html'.length), plain.toString())
    const type = TYPES[extname(name)]
    if (type !== undefined) files.set(name, { type, plain, gzip: bytes.get(`${name}.gz`), brotli: bytes.get(`${name}.br`) })
  }
  return { pages, files }
}
