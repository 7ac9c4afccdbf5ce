// The built files of the dashboard, in memory. web/build.ts makes them; without a build there are none.
import { readdir, readFile } from 'node:fs/promises'
import { extname, join, relative } from 'node:path'
import { PACKAGE_DIR } from '../../../base/paths.ts'

const BUILT = join(PACKAGE_DIR, '.cob/web')
/** A build replaces the whole folder, so files that are read meanwhile may be of two builds. */
const READ_TIMES = 3

const TYPES: Record<string, string> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
  '.png': 'image/png',
}

/** A file that browsers may keep for ever: its name has a hash of its content. */
export interface DashboardFile {
  type: string
  plain: Buffer
  gzip: Buffer | undefined
  brotli: Buffer | undefined
}

export interface DashboardFiles {
  /** The page, with a placeholder for the nonce of each answer. */
  page: string
  /** By name below `/dashboard/`. */
  files: Map<string, DashboardFile>
}

/** Reads the built files. Undefined: nothing is built. */
export async function readDashboard(folder = BUILT): Promise<DashboardFiles | undefined> {
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

async function readAll(folder: string): Promise<DashboardFiles> {
  const names = (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
  const bytes = new Map(await Promise.all(names.map(async (name) => [name, await readFile(join(folder, name))] as const)))
  const files = new Map<string, DashboardFile>()
  for (const [name, plain] of bytes) {
    const type = TYPES[extname(name)]
    if (type !== undefined) files.set(name, { type, plain, gzip: bytes.get(`${name}.gz`), brotli: bytes.get(`${name}.br`) })
  }
  return { page: bytes.get('index.html')!.toString(), files }
}
