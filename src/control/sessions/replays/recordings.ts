// The recordings that this process begins, fetches and drops: one entry for each, with its state. The rows are the truth: after a kill, the next start finds everything in them.
import { setInterval } from 'node:timers/promises'
import { recording } from '../../../agent/recording/contract.ts'
import type { Log } from '../../../base/log.ts'
import { Slots } from '../../../base/slots.ts'
import { within } from '../../../base/wait.ts'
import { call } from '../../../http/client.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import { fault } from '../../../http/fault.ts'
import type { Db } from '../../../store/db.ts'
import type { Leases } from '../../../store/leases.ts'
import type { Objects } from '../../../store/objects.ts'
import type { Spool } from '../../../store/spool.ts'
import type { EndStep } from '../browsers/end-step.ts'
import { Pace } from './pace.ts'
import { readyReplays, removeReplay, takeOverReplays, unfinishedReplays, type ReplayRow, type UnfinishedReplay } from './rows.ts'
import { Transfer } from './transfer.ts'

/** Most recordings of one session at the same time; the agent has the same limit. */
const MAX_AT_ONCE = 8
/** Timeout of dropping a recording. */
const DROP_MS = 20_000
/** How long a stop of the service waits for videos. */
const STOP_MS = 10_000
/** Videos that are stored at the same time, which is as many as an S3 store takes files. Each has its tables in memory; the others hold nothing. */
export const FILMS_AT_ONCE = 4
/** How often a replica looks for recordings that others have begun. */
const LOOK_MS = 1_000
/** A recording of another replica that has not begun after so long never will. */
const STARTED_MS = 60_000
/** How long the end of a session waits for the last bytes of its recordings; 0.1 s is usual. */
const FETCH_MS = 3_000
/** Limit on the whole step: after the last bytes, what was fetched is written down. */
const END_MS = 10_000

export interface RecordingsSettings {
  db: Db
  objects: Objects
  /** Where recordings grow. It belongs to this service alone. */
  spool: Spool
  scope: string
  /** Who shares this scope. */
  leases: Leases
  /** For tests; see {@link FRESH_MS} of transfer.ts. */
  freshMs?: number
  /** The reason when no recording may grow (the disk is full). */
  fullDisk?: () => string | undefined
  log: Log
  /** The agent of a session, if it runs. */
  endpointOf(browserId: string): Endpoint | undefined
}

/** What this process does with a recording. Of those that it does not know, nothing. */
type Known = { browserId: string } & (
  | { state: 'starting' } // its agent has been asked to begin
  | { state: 'elsewhere'; since: number } // another replica was starting it; first seen then, by performance.now()
  | { state: 'dropping'; done: Promise<void> } // it never began
  /** `epoch`: of our leases, in which it was known to be ours. When that is over, another replica may fetch it. Undefined: one does, and this transfer ends. */
  | { state: 'fetching'; transfer: Transfer; epoch: number | undefined }
)

export class Recordings implements AsyncDisposable {
  readonly #given: RecordingsSettings
  readonly #known = new Map<string, Known>()
  readonly #deaths: ReturnType<Leases['deaths']>
  /** Whether the last look has left a recording to the next one. */
  #isPostponed = false
  readonly #storing = new Slots(FILMS_AT_ONCE)
  readonly #reading = new Slots(FILMS_AT_ONCE)
  readonly #stop = new AbortController()

  constructor(given: RecordingsSettings) {
    this.#given = given
    this.#deaths = given.leases.deaths()
  }

  /** Aborts when the service stops. */
  get stopping(): AbortSignal {
    return this.#stop.signal
  }

  /** The transfers of a session, or all. */
  transfers(browserId?: string): Transfer[] {
    const known = [...this.#known.values()].filter((one) => browserId === undefined || one.browserId === browserId)
    return known.flatMap((one) => (one.state === 'fetching' ? [one.transfer] : []))
  }

  transferOf(id: string): Transfer | undefined {
    return this.transfers().find((one) => one.id === id)
  }

  /** Takes a place for a recording that begins. {@link fetch}, {@link drop} or {@link leave} follows. @throws 409 when its session has no place */
  begin(id: string, browserId: string): void {
    // Those that only wait for their place in the object store do not count.
    const starting = [...this.#known.values()].filter((one) => one.state === 'starting' && one.browserId === browserId)
    if (starting.length + this.transfers(browserId).filter(({ isRecording }) => isRecording).length >= MAX_AT_ONCE)
      throw fault.conflict(`there are ${MAX_AT_ONCE} recordings of this browser already; stop one first`)
    this.#known.set(id, { browserId, state: 'starting' })
  }

  /** A look, of this replica or of another one, fetches a recording that has begun here. */
  leave(id: string): void {
    this.#known.delete(id)
  }

  /** Drops a recording whose caller never got its id. If the service stops meanwhile, the next start finds the row again. */
  async drop(id: string, endpoint: Endpoint | undefined): Promise<void> {
    try {
      const limit = AbortSignal.any([this.stopping, AbortSignal.timeout(DROP_MS)])
      if (endpoint) await call(endpoint, recording.forgetRecording, { params: { id } }, { signal: limit }).catch(() => {})
      if (!this.stopping.aborted) await removeReplay(this.#given.db, id)
    } finally {
      this.#known.delete(id)
    }
  }

  /** Fetches a recording until it is a video. */
  fetch(row: ReplayRow, endpoint: Endpoint | undefined): Transfer {
    const { id, browser_id: browserId } = row
    const { db, objects, spool, log, freshMs, fullDisk, leases } = this.#given
    const pace = this.transfers(browserId)[0]?.pace ?? new Pace()
    const isOurs = () => leases.isAlive && known.epoch === leases.epoch
    const [storing, reading] = [this.#storing, this.#reading]
    const transfer = new Transfer({ db, objects, spool, log, row, endpoint, pace, storing, reading, freshMs, fullDisk, isOurs })
    const known: Known & { state: 'fetching' } = { browserId, state: 'fetching', transfer, epoch: leases.epoch }
    this.#known.set(id, known)
    // A look that was under way when the service began to stop: it is the next start's, or another replica's.
    if (this.stopping.aborted) transfer.quit()
    // It is a video now; or this service stops, and the next start or another replica fetches it.
    void transfer.done.then(() => this.#known.delete(id))
    return transfer
  }

  /** After a start: continues what an earlier service had begun. */
  async adopt(): Promise<void> {
    const { db, spool, scope, leases, log } = this.#given
    await takeOverReplays(db, scope, leases)
    const unfinished = await unfinishedReplays(db, scope, leases)
    // A service that was killed after it had written the row of a complete recording has left its file. Others may be of another database.
    for (const id of await readyReplays(db, await spool.list()))
      await spool.remove(id).catch((err: unknown) => log.error({ err, replay: id }, 'a complete recording could not be removed from the spool'))
    this.#continue(unfinished)
    const keepLooking = async () => {
      for await (const _ of setInterval(LOOK_MS, undefined, { signal: this.stopping })) {
        const looked = this.#isPostponed ? this.look() : leases.catchUp(() => this.look())
        await looked?.catch((err: unknown) => log.warn({ err }, 'looking for recordings that are to be fetched failed'))
      }
    }
    void keepLooking().catch(() => {}) // ends only by its signal
  }

  /** Fetches recordings that other replicas have begun, of sessions that this one watches, and those of dead replicas. */
  async look(): Promise<void> {
    const { db, scope, leases, log } = this.#given
    if (!leases.isAlive) return
    const { epoch } = leases
    if (this.#deaths.isLookDue()) await takeOverReplays(db, scope, leases).catch((err: unknown) => (this.#deaths.lookAgain(), Promise.reject(err)))
    const fetching = [...this.#known].flatMap(([id, one]) => (one.state === 'fetching' && one.epoch !== undefined ? [{ id, one }] : []))
    const rows = await unfinishedReplays(db, scope, leases)
    const ours = new Set(rows.map(({ id }) => id))
    for (const { one } of fetching.filter(({ id }) => ours.has(id))) one.epoch = epoch
    const others = fetching.filter(({ id }) => !ours.has(id))
    const ready = new Set(await readyReplays(db, others.map(({ id }) => id))) // prettier-ignore
    for (const { id, one } of others.filter((other) => !ready.has(other.id))) {
      log.warn({ replay: id }, 'another replica fetches a recording')
      one.epoch = undefined
      one.transfer.quit()
    }
    this.#continue(rows)
  }

  /** Continues recordings that an earlier service, or another replica, has begun. */
  #continue(rows: readonly UnfinishedReplay[]): void {
    const { leases, log, endpointOf } = this.#given
    const unfinished = new Set(rows.map(({ id }) => id))
    for (const [id, { state }] of this.#known) if (state === 'elsewhere' && !unfinished.has(id)) this.#known.delete(id)
    this.#isPostponed = false
    for (const row of rows) {
      const { id, browser_id: browserId } = row
      const known = this.#known.get(id)
      if (known && known.state !== 'elsewhere') continue
      const endpoint = endpointOf(browserId)
      // Its session is just being taken over, or will be found to have ended: the next look knows which.
      if (!endpoint && row.isLive) this.#isPostponed = true
      else if (row.state !== 'starting') this.fetch(row, endpoint)
      // Alone, nobody else is starting it.
      else if (leases.remembered(true) || (known && performance.now() - known.since > STARTED_MS)) {
        // Not awaited: an agent that does not answer would delay the start of the service.
        const done = this.drop(id, endpoint).catch((err: unknown) => log.error({ err, replay: id }, 'a recording that never began could not be removed'))
        this.#known.set(id, { browserId, state: 'dropping', done })
      } else if (!known) this.#known.set(id, { browserId, state: 'elsewhere', since: performance.now() })
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('the service stops'))
    const done = () => Promise.all(this.transfers().map((one) => one.done))
    // Recordings of ended sessions will be ready in a moment. Those of sessions that go on are fetched by other replicas.
    if (!this.#given.leases.handsOver) await within('the last replays', STOP_MS, done()).catch(() => {})
    const dropping = [...this.#known.values()].flatMap((one) => (one.state === 'dropping' ? [one.done] : []))
    for (const one of this.transfers()) one.quit()
    await Promise.all([done(), ...dropping])
  }
}

/**
 * Fetches the rest of a session's recordings. A recording that could not be finished must not keep the instance alive. `hasInstance` tells whether
 * anything can still be fetched: without an instance, videos are made from what is there, and no end needs to wait for that. `catchUp` finds recordings that
 * other replicas have begun.
 */
export const endRecordings = (recordings: Recordings, hasInstance: (browserId: string) => boolean, catchUp: () => Promise<void> | undefined): EndStep => ({
  name: 'recordings',
  limitMs: END_MS,
  mayFail: true,
  run({ id }) {
    const end = async () => {
      await catchUp()?.catch(() => {}) // what it would have found is missing in a video, and no more
      const own = recordings.transfers(id)
      if (own.length === 0) return 'nothing' as const
      await Promise.all(own.map((one) => one.end(FETCH_MS)))
      return undefined
    }
    return hasInstance(id) ? end() : undefined
  },
})
