// Room on the disk of the data directory: how much is left, whether that is enough, and a reserve for the database.
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { renameSync, rmSync, statfsSync, statSync } from 'node:fs'
import { appendFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const MIB = 1024 * 1024
/** Inodes that are kept free as well, on file systems that count them. */
const RESERVED_INODES = 10_000

export interface Room {
  freeBytes: number
  /** Undefined where the file system has no such limit. */
  freeInodes: number | undefined
  /** Why there is too little room for new work; undefined when there is enough. */
  problem: string | undefined
  /** Whether so little is left that something must be ended: less than half of the reserve. */
  isCritical: boolean
}

/** @throws when the directory is not there */
export function roomOn(dir: string, reserveMb: number): Room {
  const { bavail, bsize, files, ffree } = statfsSync(dir)
  const freeBytes = bavail * bsize
  const freeInodes = files > 0 ? ffree : undefined
  // A small disk has few inodes in total; a tenth of them is enough there.
  const reservedInodes = reserveMb === 0 ? 0 : Math.min(RESERVED_INODES, files / 10)
  const isBelow = (part: number) => freeBytes < reserveMb * MIB * part || (freeInodes !== undefined && freeInodes < reservedInodes * part)
  const left = `${Math.floor(freeBytes / MIB)} MiB${freeInodes === undefined ? '' : ` and ${freeInodes} files`}`
  const problem = isBelow(1)
    ? `the disk of the data directory is full: ${left} are left, and COB_DISK_RESERVE_MB keeps ${reserveMb} MiB and ${Math.floor(reservedInodes)} files free; delete sessions, deployments or replays, or make room otherwise`
    : undefined
  return { freeBytes, freeInodes, problem, isCritical: isBelow(0.5) }
}

/** The size of the reserve file (ballast), in bytes: a quarter of the reserve, but no more than a database needs to start and to clean up. */
const ballastBytes = (reserveMb: number): number => Math.min(MAX_BALLAST, (reserveMb * MIB) / 4)
const MAX_BALLAST = 64 * MIB
const TAKE_MS = 60_000

const ballastOf = (dir: string): string => join(dir, 'ballast')

/** Makes the reserve file, unless it exists. No other program can use its room. */
export async function takeBallast(dir: string, reserveMb: number, signal: AbortSignal): Promise<void> {
  const bytes = ballastBytes(reserveMb)
  const size = statSync(ballastOf(dir), { throwIfNoEntry: false })?.size ?? 0
  if (size === bytes || roomOn(dir, reserveMb).freeBytes < reserveMb * MIB + bytes) return
  const fresh = `${ballastOf(dir)}.new`
  rmSync(fresh, { force: true })
  try {
    await promisify(execFile)('fallocate', ['--length', String(bytes), fresh], { timeout: TAKE_MS, signal })
  } catch {
    signal.throwIfAborted()
    // On file systems without fallocate, bytes are written. They are random, because a compressing file system would store zeros in no room.
    rmSync(fresh, { force: true })
    for (let at = 0; at < bytes; at += MIB) await appendFile(fresh, randomBytes(Math.min(MIB, bytes - at)), { mode: 0o600 })
  }
  renameSync(fresh, ballastOf(dir))
}

/** Removes the reserve file, so that the database can use its room. */
export function releaseBallast(dir: string): void {
  rmSync(ballastOf(dir), { force: true })
  rmSync(`${ballastOf(dir)}.new`, { force: true })
}
