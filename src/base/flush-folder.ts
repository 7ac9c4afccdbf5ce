// What makes the names in a folder outlast a power failure.
import { closeSync, fsyncSync, openSync } from 'node:fs'

/** Writes the names of a folder to the disk. A file that was made, linked or renamed before is there afterwards. */
export function flushFolder(folder: string): void {
  const opened = openSync(folder, 'r')
  try {
    fsyncSync(opened)
  } finally {
    closeSync(opened)
  }
}
