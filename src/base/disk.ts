// Room on the disk of the data directory: how much is left, whether that is enough, and a reserve for the database.
import { statfsSync } from 'node:fs'

const MIB = 1024 * 1024
/** Kept free as well, on file systems that count them. */
const RESERVED_INODES = 10_000

export interface Room {
  freeBytes: number
  /** Undefined where the file system has no such limit. */
  freeInodes: number | undefined
  /** Why there is too little of it to begin anything new; undefined when there is enough. */
  problem: string | undefined
  /** Whether so little is left that something has to go: half of the reserve. */
  isCritical: boolean
}

/** @throws when the directory is not there */
export function roomOn(dir: string, reserveMb: number): Room {
  const { bavail, bsize, files, ffree } = statfsSync(dir)
  const freeBytes = bavail * bsize
  const freeInodes = files > 0 ? ffree : undefined
  // A small disk has few files in all; a tenth of them is enough there.
  const reservedInodes = reserveMb === 0 ? 0 : Math.min(RESERVED_INODES, files / 10)
  const isBelow = (part: number) => freeBytes < reserveMb * MIB * part || (freeInodes !== undefined && freeInodes < reservedInodes * part)
  const left = `${Math.floor(freeBytes / MIB)} MiB${freeInodes === undefined ? '' : ` and ${freeInodes} files`}`
  const problem = isBelow(1)
    ? `the disk of the data directory is full: ${left} are left, and COB_DISK_RESERVE_MB keeps ${reserveMb} MiB and ${Math.floor(reservedInodes)} files free; delete sessions, deployments or replays, or make room otherwise`
    : undefined
  return { freeBytes, freeInodes, problem, isCritical: isBelow(0.5) }
}
