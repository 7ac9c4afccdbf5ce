// Makes the names in a folder durable after a power failure.
import { closeSync, fsyncSync, openSync } from 'node:fs'

/** Writes the names of a folder to the disk. Files that were made, linked or renamed before are durable afterwards. */
export function flushFolder(folder: string): void {
  const opened = openSync(folder, 'r')
  try {
    fsyncSync(opened)
  } finally {
    closeSync(opened)
  }
}
