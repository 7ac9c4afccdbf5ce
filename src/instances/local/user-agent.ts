// What pages are told of a lean browser: the user agent of the full browser of its version. It would name itself "HeadlessChrome".
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** A program that only prints its version takes some 30 ms. */
const VERSION_MS = 10_000

const known = new Map<string, Promise<string>>()

/** The user agent of the full browser of the same version as `program`. Asks each program once. @throws when it does not tell its version */
export function userAgentOf(program: string): Promise<string> {
  const found = known.get(program) ?? ask(program)
  known.set(program, found)
  found.catch(() => known.delete(program)) // the next caller asks again
  return found
}

async function ask(program: string): Promise<string> {
  const { stdout } = await promisify(execFile)(program, ['--version'], { timeout: VERSION_MS })
  const major = / (\d+)\.\d+\.\d+\.\d+/.exec(stdout)?.[1]
  if (major === undefined) throw new Error(`${program} does not tell its version: ${stdout.slice(0, 200)}`)
  // Chromium tells pages only the first part of its version, and these parts of the system, whatever they are.
  return `Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/${major}.0.0.0 Safari/537.36`
}
