// Small secrets in files that only their owner may read.
import { readFileSync, writeFileSync } from 'node:fs'

/** Reads a small secret from a file that only we may read. When there is no file, writes what `make` returns. */
export function secretFile(file: string, make: () => string): { value: string; made: boolean } {
  try {
    return { value: readFileSync(file, 'utf8').trim(), made: false }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const value = make()
  writeFileSync(file, `${value}\n`, { mode: 0o600, flag: 'wx' })
  return { value, made: true }
}
