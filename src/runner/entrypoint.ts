// Finds the file to import and its language.
import { realpath, stat } from 'node:fs/promises'
import { extname, isAbsolute, join, relative, sep } from 'node:path'
import type { Manifest } from './limits.ts'
import { BuildFailed } from './tools.ts'

const LANGUAGES: Record<string, Manifest['language']> = {
  '.ts': 'node',
  '.tsx': 'node',
  '.mts': 'node',
  '.cts': 'node',
  '.js': 'node',
  '.mjs': 'node',
  '.cjs': 'node',
  '.py': 'python',
}

/** The app's folder below `code`, '' for all of it. */
export async function appFolder(code: string, path = ''): Promise<string> {
  const folder = await below(code, path, `the path "${path}" of the repository`)
  if (!(await stat(join(code, folder))).isDirectory()) throw new BuildFailed(`the path "${path}" of the repository is not a folder`)
  return folder
}

/** The entrypoint's language, and its path below `code`. */
export async function findEntrypoint(code: string, folder: string, entrypoint: string): Promise<{ language: Manifest['language']; file: string }> {
  const language = LANGUAGES[extname(entrypoint).toLowerCase()]
  if (!language)
    throw new BuildFailed(`the entrypoint "${entrypoint}" is in no language that can be run; it ends in one of ${Object.keys(LANGUAGES).join(' ')}`)
  const what = `the entrypoint "${entrypoint}"`
  const root = join(code, folder)
  const file = join(folder, await below(root, entrypoint, what))
  if (!(await stat(join(code, file))).isFile()) throw new BuildFailed(`${what} is not a file`)
  return { language, file }
}

async function below(root: string, path: string, what: string): Promise<string> {
  const place = join(root, path)
  const way = relative(root, place)
  if (isAbsolute(path) || path.includes('\0') || isOutside(way)) throw new BuildFailed(`${what} leads out of the code`)
  const real = await realpath(place).catch(() => {
    throw new BuildFailed(`${what} does not exist in the code`)
  })
  if (isOutside(relative(await realpath(root), real))) throw new BuildFailed(`${what} leads out of the code`)
  return way
}

const isOutside = (way: string): boolean => way === '..' || way.startsWith(`..${sep}`) || isAbsolute(way)
