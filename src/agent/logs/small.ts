// Limits the size of a log to which another program appends: it is in memory.
import { statSync, truncateSync, watch } from 'node:fs'
import type { Log } from '../../base/log.ts'

const MAX_BYTES = 1024 * 1024

/** Truncates the file when it grows above 1 MiB. The writer must use O_APPEND; otherwise it would continue at its old offset and leave a hole. */
export function keepSmall(path: string, log: Log): void {
  const look = () => {
    try {
      if (statSync(path).size > MAX_BYTES) truncateSync(path)
    } catch (err) {
      // A program of the session may have deleted it; then there is nothing to limit.
      log.debug({ err, path }, 'a log was deleted')
    }
  }
  try {
    watch(path, { persistent: false }, look).on('error', (err) => log.debug({ err, path }, 'a log is no longer watched'))
    look()
  } catch (err) {
    log.warn({ err, path }, 'a log could not be truncated')
  }
}
