// Space on the disk of the data directory: how much is left, whether it is enough, and a reserve for the database.
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdirSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const MIB = 1024 * 1024
/** Inodes that are kept free as well, on file systems that count them. */
const RESERVED_INODES = 10_000

export interface Room {
  freeBytes: number
  /** Undefined where the file system has no such limit. */
  freeInodes: number | undefined
  /** Why there is too little space for new work; undefined when there is enough. */
  problem: string | undefined
  /** Whether a session must be ended because so little is left: less than half of the reserve. */
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

/**
 * The reserve of the database (ballast): files of 1 MiB, a quarter of the reserve, but no more than a database needs to start and to clean up. Each file frees
 * bytes and an inode, because a starting database needs both.
 */
const piecesOf = (reserveMb: number): number => Math.floor(Math.min(MAX_PIECES, reserveMb / 4))
const MAX_PIECES = 64
/** The part of the reserve that only a start of the database gets: its next log segment of 16 MiB, and some files. The running database may use up the rest. */
const START_PIECES = 32
/** The part that a running database gets at a time. */
const GIVEN_PIECES = 4

const ballastOf = (dir: string): string => join(dir, 'ballast')

/** The names of the pieces. */
function ballastIn(dir: string): string[] {
  try {
    return readdirSync(ballastOf(dir))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

/**
 * Makes the reserve of the database, as far as it is missing. On a full disk it makes the part that a start needs, and leaves space for a running database. No
 * other program can use that space.
 */
export async function takeBallast(dir: string, reserveMb: number): Promise<void> {
  const { freeBytes, problem } = roomOn(dir, reserveMb)
  const has = ballastIn(dir).length
  const wanted = problem === undefined ? piecesOf(reserveMb) : Math.min(START_PIECES, piecesOf(reserveMb))
  const kept = problem === undefined ? reserveMb : GIVEN_PIECES
  const taken = Math.min(wanted - has, Math.floor(freeBytes / MIB) - kept)
  if (taken <= 0) return
  mkdirSync(ballastOf(dir), { recursive: true, mode: 0o700 })
  for (let left = taken; left > 0; left--) {
    const file = join(ballastOf(dir), randomUUID())
    try {
      // Random, because a compressing file system would store zeros without using space.
      await writeFile(file, randomBytes(MIB), { mode: 0o600 })
    } catch (error) {
      rmSync(file, { force: true })
      // Another program took the space first.
      if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return
      throw error
    }
  }
}

/** Gives space of the reserve to a running database, except what a start needs. */
export function giveBallast(dir: string): void {
  for (const name of ballastIn(dir).slice(START_PIECES).slice(0, GIVEN_PIECES)) rmSync(join(ballastOf(dir), name), { force: true })
}

/** Removes the reserve, so that a database can start in its space. */
export function releaseBallast(dir: string): void {
  rmSync(ballastOf(dir), { recursive: true, force: true })
}
