// Runs Python programs with a release of the published SDK, as a user does.
import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import type { Place } from './cloud.ts'

const PYTHON = join(PACKAGE_DIR, '.cob/python')
const PROGRAM_MS = 100_000

/** The folder of a release's library. */
export const libraryOf = (release: string): string => join(PYTHON, release)

/** The tested releases, oldest first. */
export const RELEASES = readFileSync(join(PACKAGE_DIR, 'test/data/python/releases.txt'), 'utf8').trim().split('\n')

/** Runs a program of test/data/python, or `-c` and its text, and returns its output. @throws with the output when the program fails */
export async function runPython(
  { url, key }: Pick<Place, 'url' | 'key'>,
  release: string,
  [program, ...args]: string[],
  env: Record<string, string> = {},
): Promise<string> {
  const library = libraryOf(release)
  if (!existsSync(library)) throw new Error(`${library} is missing: run COB_SETUP_TEST=1 script/setup`)
  const file = program === '-c' ? program : join(PACKAGE_DIR, 'test/data/python', program!)
  const { stdout } = await promisify(execFile)(join(PYTHON, 'venv/bin/python'), [file, ...args], {
    env: { PATH: process.env.PATH, PYTHONPATH: library, PYTHONDONTWRITEBYTECODE: '1', KERNEL_API_KEY: key, KERNEL_BASE_URL: url, ...env },
    timeout: PROGRAM_MS,
  })
  return stdout
}
