// Removing what an instance leaves: files of a stranger, who may have closed folders or nested them without end.
import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { promisify } from 'node:util'

const REMOVE_MS = 60_000
const run = promisify(execFile)

/** Removes a directory and all below it, following no link. Gone already is fine. */
export async function removeTree(dir: string): Promise<void> {
  try {
    await rm(dir, { recursive: true, force: true })
  } catch {
    // Folders without permissions, paths longer than the system takes: coreutils walk by open folders and can.
    await run('chmod', ['-R', 'u+rwX', '--', dir], { timeout: REMOVE_MS }).catch(() => {})
    await run('rm', ['-rf', '--', dir], { timeout: REMOVE_MS })
  }
}
