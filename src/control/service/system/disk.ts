// Watches the disk of the data directory. Refuses new work when there is too little space, ends the instance that uses most when the disk is nearly full, and
// keeps a reserve for the database.
import type { Log } from '../../../base/log.ts'
import { giveBallast, releaseBallast, roomOn, takeBallast, type Room } from '../../../base/disk.ts'
import { sleep } from '../../../base/wait.ts'
import { fault } from '../../../http/fault.ts'

/** The longest and the shortest time between two checks. A check is one system call. */
const LOOK_MS = 1_000
const LOOK_OFTEN_MS = 50
/** The assumed rate at which a disk fills, in bytes per millisecond: the free space must last until the next check. */
const FILL_RATE = 2 * 1024 * 1024
/** The most that a starting Postgres writes: some files, and a part of its log. */
const START_BYTES = 48 * 1024 * 1024
const START_FILES = 100
/** Most sessions that are ended for one start. */
const MAX_ENDED = 1_000
/** Shortest time between two releases of reserve for a full database: whatever fills the disk will take that space as well. */
const GIVE_MS = 1_000

interface DiskSettings {
  dir: string
  reserveMb: number
  log: Log
  /** Ends the instance that uses most of the disk, at once; undefined when none uses much. */
  relieve: () => Promise<string | undefined>
}

export interface Disk extends AsyncDisposable {
  readonly room: Room
  /** @throws fault.diskFull when there is too little space for new work */
  assertRoom(): void
  /** Frees space for the start of the database, until disposed. Only for a service that has its data directory alone. */
  makeRoomToStart(): Promise<Disposable>
  /** Starts to watch the disk. `isStoreFull`: whether the database has no space. */
  watch(isStoreFull?: () => boolean): void
}

export function makeDisk({ dir, reserveMb, log, relieve }: DiskSettings): Disk {
  const stop = new AbortController()
  let room = roomOn(dir, reserveMb)
  let logged: string | undefined
  let running: Promise<void> | undefined
  let isStoreFull: () => boolean = () => false
  /** Number of database starts that are under way. */
  let starts = 0
  let givenAt = -Infinity

  async function endLargest(): Promise<boolean> {
    const id = await relieve()
    if (id !== undefined)
      log.error({ ended: id, ...figures(roomOn(dir, reserveMb)) }, 'the disk was nearly full; the session or app sandbox that used most of it has been ended')
    return id !== undefined
  }

  async function look(): Promise<void> {
    room = roomOn(dir, reserveMb)
    if (room.problem !== undefined && logged === undefined) log.error(figures(room), room.problem)
    if (room.problem === undefined && logged !== undefined) log.info(figures(room), 'there is room on the disk again')
    logged = room.problem
    if (room.isCritical) await endLargest()
    if (starts > 0) return
    // Not earlier: whatever fills the disk would take it, and nothing would be left for a start.
    if (isStoreFull() && performance.now() - givenAt > GIVE_MS) {
      giveBallast(dir)
      givenAt = performance.now()
    }
    await takeBallast(dir, reserveMb)
  }

  async function run(): Promise<void> {
    while (!stop.signal.aborted) {
      await look().catch((err: unknown) => stop.signal.aborted || log.error({ err }, 'the disk cannot be checked'))
      const lasts = (room.freeBytes - (reserveMb * 1024 * 1024) / 2) / FILL_RATE
      await sleep(Math.max(LOOK_OFTEN_MS, Math.min(LOOK_MS, lasts)), stop.signal).catch(() => {})
    }
  }

  function isFull(): boolean {
    const { freeBytes, freeInodes = Infinity } = roomOn(dir, reserveMb)
    return freeBytes < START_BYTES || freeInodes < START_FILES
  }

  return {
    get room() {
      return room
    },
    assertRoom() {
      // Measure again: space that was just freed may be used at once.
      if (room.problem !== undefined) room = roomOn(dir, reserveMb)
      if (room.problem !== undefined) throw fault.diskFull(room.problem)
    },
    async makeRoomToStart() {
      starts++
      using failed = new DisposableStack()
      failed.defer(() => void starts--)
      if (isFull()) {
        log.error(figures(roomOn(dir, reserveMb)), 'the disk is full; making room for the database to start')
        for (let ended = 0; ended < MAX_ENDED && isFull(); ended++) if (!(await endLargest())) break
        releaseBallast(dir)
      }
      return failed.move()
    },
    watch(found = isStoreFull) {
      isStoreFull = found
      running ??= run()
    },
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      await running
    },
  }
}

const figures = ({ freeBytes, freeInodes }: Room) => ({ freeBytes, freeInodes })
