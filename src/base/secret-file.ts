// Small secrets in files that only their owner may read.
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { flushFolder } from './flush-folder.ts'

/** Reads a small secret from a file that only we may read. When there is no file, writes what `make` returns. @throws when the file is empty */
export function secretFile(file: string, make: () => string): { value: string; made: boolean } {
  try {
    return { value: read(file), made: false }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const value = make()
  // The file is never partly written under its own name, and written once: another service may be starting with the same directory.
  const own = `${file}.${process.pid}`
  writeFileSync(own, `${value}\n`, { mode: 0o600, flush: true })
  try {
    linkSync(own, file)
    // After a power failure the name exists with its content, or not at all.
    flushFolder(dirname(file))
    return { value, made: true }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return { value: read(file), made: false }
  } finally {
    rmSync(own, { force: true })
  }
}

function read(file: string): string {
  const value = readFileSync(file, 'utf8').trim()
  if (value === '') throw new Error(`${file} is empty; put back the file that was there, or remove it to have a new one made`)
  return value
}
