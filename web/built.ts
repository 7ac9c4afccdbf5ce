// Folders that are built when their sources have changed, and replaced whole.
import { createHash, type Hash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { join, relative } from 'node:path'
import { PACKAGE_DIR } from '../src/base/paths.ts'

/** Of files, of all files below folders that `isSource` takes, and of the packages: what a built folder depends on. */
export function hashOf(sources: string[], isSource: (name: string) => boolean = () => true): Hash {
  const hash = createHash('sha256')
  const below = (folder: string): string[] =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && isSource(entry.name))
      .map((entry) => join(entry.parentPath, entry.name))
      .sort()
  const files = [...sources, join(PACKAGE_DIR, 'package-lock.json')].flatMap((path) => (statSync(path).isDirectory() ? below(path) : [path]))
  for (const file of files)
    hash
      .update(`${relative(PACKAGE_DIR, file)}\0`)
      .update(readFileSync(file))
      .update('\0')
  return hash
}

/** Whether `folder` was built from what `tag` stands for. */
export const isBuilt = (folder: string, tag: string): boolean => existsSync(join(folder, '.tag')) && readFileSync(join(folder, '.tag'), 'utf8') === tag

/** Moves `made` to `folder`, so that nobody who reads meanwhile sees half of it. */
export function replace(folder: string, made: string): void {
  const before = `${made}.before`
  try {
    renameSync(folder, before)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  try {
    renameSync(made, folder)
  } catch (error) {
    // Somebody else has just built it from the same sources.
    if (!['ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
  rmSync(before, { recursive: true, force: true })
}
