// A log that another program appends to, kept from filling the memory that it lies in.
import { statSync, truncateSync, watch } from 'node:fs'
import type { Log } from '../../base/log.ts'

const MAX_BYTES = 1024 * 1024

/** Empties the file whenever it has grown over 1 MiB. Its writer must append, or it would go on behind a hole. */
export function keepSmall(path: string, log: Log): void {
  const look = () => {
    try {
      if (statSync(path).size > MAX_BYTES) truncateSync(path)
    } catch (err) {
      // A program of the session may have removed it; then there is nothing to keep small.
      log.debug({ err, path }, 'a log is gone')
    }
  }
  try {
    watch(path, { persistent: false }, look).on('error', (err) => log.debug({ err, path }, 'a log is no longer watched'))
    look()
  } catch (err) {
    log.warn({ err, path }, 'a log is not kept small')
  }
}
