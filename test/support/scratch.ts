// Folders for the files of fast tests, in memory if there is room. A copy of the database takes 0.05 s of CPU time there, and 1 s on a disk with ext4.
import { mkdtempSync, readdirSync, rmSync, statfsSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const MEMORY = '/dev/shm'
/** Three concurrent test files usually need 100 MB each, and their services require some free space. */
const ROOM_BYTES = 3 * 1024 ** 3
/** Folders that are older belong to no run. */
const OLD_MS = 24 * 3600_000
const PREFIX = 'cob-tests-'
/** The environment variable with the folder of this run, for the test processes. */
const VARIABLE = 'COB_TEST_SCRATCH'

/** vitest calls it before the first test of a run, and calls the returned function after the last test. */
export default function make(): () => void {
  const parent = hasRoom() ? MEMORY : tmpdir()
  removeOld(parent)
  const dir = mkdtempSync(join(parent, PREFIX))
  // Test processes that are ending may still write.
  const remove = () => rmSync(dir, { recursive: true, force: true, maxRetries: 10 })
  // After Ctrl-C vitest does not call the returned function.
  process.once('exit', remove)
  process.env[VARIABLE] = dir
  return remove
}

/** A new folder whose name begins with `prefix`. The test removes it. */
export const scratchDir = (prefix: string): string => mkdtempSync(join(process.env[VARIABLE] ?? tmpdir(), prefix))

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    return bavail * bsize >= ROOM_BYTES
  } catch {
    return false // this machine has no such folder
  }
}

/** Removes the folders of killed runs. */
function removeOld(parent: string): void {
  for (const name of readdirSync(parent)) {
    const dir = join(parent, name)
    const stat = name.startsWith(PREFIX) ? statSync(dir, { throwIfNoEntry: false }) : undefined
    if (stat && stat.mtimeMs < Date.now() - OLD_MS) rmSync(dir, { recursive: true, force: true })
  }
}
