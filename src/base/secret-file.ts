// Small secrets in files that only their owner may read.
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'

/** Reads a small secret from a file that only we may read. When there is no file, writes what `make` returns. */
export function secretFile(file: string, make: () => string): { value: string; made: boolean } {
  try {
    return { value: readFileSync(file, 'utf8').trim(), made: false }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const value = make()
  // Never half-written under its own name, and only once: another service may be starting with the same directory.
  const own = `${file}.${process.pid}`
  writeFileSync(own, `${value}\n`, { mode: 0o600 })
  try {
    linkSync(own, file)
    return { value, made: true }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return { value: readFileSync(file, 'utf8').trim(), made: false }
  } finally {
    rmSync(own, { force: true })
  }
}
