// The sessions whose telemetry this replica follows: from the first captured category until the session ends.
import { setInterval } from 'node:timers/promises'
import { Bucket } from '../../../base/bucket.ts'
import type { Log } from '../../../base/log.ts'
import { together } from '../../../base/together.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import type { Db } from '../../../store/db.ts'
import { Slots } from '../../../base/slots.ts'
import type { Leases } from '../../../store/leases.ts'
import type { EndStep } from '../browsers/end-step.ts'
import { Follower } from './follow.ts'
import { END_MS, LOOK_MS, POSITIONS_AT_ONCE, RECOUNT_MS, TOTAL_RATE } from './limits.ts'
import type { TelemetryMeter } from './meter.ts'
import { isCapturing, lastSegment, positionOf, watchedTelemetry, type Position } from './rows.ts'
import { unpack } from './segments.ts'
import { Store } from './store.ts'

interface FollowersSettings {
  db: Db
  scope: string
  leases: Leases
  /** The agent of a session that runs here and is not ending. */
  endpointOf: (id: string) => Endpoint | undefined
  /** The agent of an instance that runs here, also while its session is ending. */
  agentOf: (id: string) => Endpoint | undefined
  /** Whether it waits in its pool. */
  isIdle: (id: string) => boolean
  isAsleep: (id: string) => boolean
  /** Tells the replica that watches a session to look. */
  tellWatcher: (id: string) => Promise<unknown>
  /** The reason why nothing may be stored: the disk is full. */
  fullDisk: () => string | undefined
  /** Limit on the stored bytes of one session. */
  maxBytes: number
  meter: Pick<TelemetryMeter, 'stored' | 'lost'>
  log: Log
}

/** All followed sessions. Disposing it stores the waiting events. */
export class Followers implements AsyncDisposable {
  readonly #given: FollowersSettings
  /** Sessions that are read, and ended ones whose last events are not stored yet. */
  readonly #followers = new Map<string, Follower>()
  /** Ends that are under way, or whose last events are not stored yet. */
  readonly #ending = new Map<string, Promise<unknown>>()
  readonly #total = new Bucket(TOTAL_RATE)
  readonly #lookups = new Slots(POSITIONS_AT_ONCE)
  readonly #stop = new AbortController()
  readonly #store: Store
  readonly #lookAgain: () => Promise<void>
  #isAdopted = false

  constructor(given: FollowersSettings) {
    const { db, leases, fullDisk, log } = given
    this.#given = given
    this.#store = new Store({
      db,
      followers: () => this.#followers.values(),
      obstacle: () => fullDisk() ?? (leases.isAlive ? undefined : 'other replicas may store it'),
      onStored: () => [...this.#followers.values()].filter(({ isClosed }) => isClosed).forEach((follower) => this.#letGo(follower)),
      log,
    })
    const { signal } = this.#stop
    this.#lookAgain = together(async () => {
      if (!signal.aborted) await this.#look().catch((err: unknown) => signal.aborted || log.warn({ err }, "looking for sessions' telemetry failed"))
    })
  }

  /** After a start: continues where an earlier service has stopped reading. */
  async adopt(): Promise<void> {
    const { db, scope, leases } = this.#given
    const rows = await watchedTelemetry(db, { scope, replica: leases.replica }, true)
    // A session that never came up is ended; it has no telemetry.
    for (const { id, state } of rows) if (state !== 'starting') this.#follow(id)
    this.#isAdopted = true
    const run = async () => {
      for await (const _ of setInterval(LOOK_MS, undefined, { signal: this.#stop.signal })) await leases.catchUp(this.#lookAgain)
    }
    void run().catch(() => {}) // ends only by its signal
  }

  /** A running session has started or stopped to capture. */
  noted({ id, isOn }: { id: string; isOn: boolean }): void {
    if (!isOn) return
    if (this.#given.agentOf(id)) this.#follow(id)
    else if (!this.#followers.has(id)) this.#given.tellWatcher(id).catch(() => {}) // that replica also looks by itself
  }

  /** Looks soon for sessions that others have changed, or that this replica has started to watch. */
  lookSoon(): void {
    void this.#lookAgain()
  }

  /** Resolves when all events of a session that this replica has read are stored. */
  async flush(id: string): Promise<void> {
    await this.#ending.get(id)?.catch(() => {}) // the caller of the end handles the error
    if (this.#followers.get(id)?.hasMore) await this.#store.flush()
  }

  /** Notes that all stored telemetry of a session was deleted. */
  deleted(id: string): void {
    this.#followers.get(id)?.recount(0)
  }

  /** The step of a session's end that reads and stores the remaining events. */
  readonly step: EndStep = {
    name: 'telemetry',
    limitMs: END_MS,
    mayFail: true,
    run: ({ id }, signal) => {
      if (this.#isAdopted && this.#given.leases.remembered(this.#followers.has(id)) === false) return undefined
      const work = this.#end(id, signal)
      this.#ending.set(id, work)
      return work
    },
  }

  /** Age of the oldest event that is not stored, in seconds. */
  get lagSeconds(): number {
    return Math.max(0, ...[...this.#followers.values()].map(({ lagMs }) => lagMs)) / 1000
  }

  /** How many sessions are followed. */
  get followed(): number {
    return [...this.#followers.keys()].filter((id) => !this.#ending.has(id)).length
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('the service stops'))
    await this.#lookAgain()
    await Promise.all([...this.#followers.values()].map((follower) => follower.stop()))
    await this.#store.close()
  }

  #follow(id: string): void {
    if (!this.#followers.has(id) && !this.#stop.signal.aborted) this.#followers.set(id, this.#made(id).start())
  }

  /** A new follower that has not started to read. */
  #made(id: string): Follower {
    const { endpointOf, isAsleep, maxBytes, meter, log } = this.#given
    let recountedAt = 0
    const follower: Follower = new Follower({
      id,
      position: () => this.#position(id),
      endpoint: () => endpointOf(id),
      isAsleep: () => isAsleep(id),
      taken: async (signal) => {
        if (follower.hasMore) this.#store.wake()
        if (follower.isFull && performance.now() - recountedAt > RECOUNT_MS) {
          recountedAt = performance.now()
          follower.recount((await this.#position(id))?.bytes ?? 0)
        }
        await this.#store.room(follower, signal)
      },
      total: this.#total,
      maxBytes,
      meter,
      log,
    })
    return follower
  }

  #position(id: string): Promise<Position | undefined> {
    return this.#lookups.run(() => positionOf(this.#given.db, id))
  }

  #letGo({ id, hasMore }: Follower): void {
    if (hasMore) return
    this.#followers.delete(id)
    this.#ending.delete(id)
  }

  /** Brings the followers in line with the sessions that this replica watches. */
  async #look(): Promise<void> {
    const { db, scope, leases, agentOf, endpointOf } = this.#given
    const before = [...this.#followers]
    const on = new Set((await watchedTelemetry(db, { scope, replica: leases.replica }, false)).map(({ id }) => id))
    for (const [id, follower] of before) {
      // Stop when another replica reads the session. A session here that stopped to capture is followed until its end: some events may be left, and it may
      // capture again.
      if (this.#ending.has(id) || agentOf(id) || on.has(id)) continue
      this.#followers.delete(id)
      await follower.stop()
    }
    for (const id of on) if (endpointOf(id)) this.#follow(id)
  }

  async #end(id: string, signal: AbortSignal): Promise<void | 'nothing'> {
    const { db, agentOf, isIdle } = this.#given
    const agent = agentOf(id)
    // A session whose browser never came up has no telemetry.
    const known = this.#followers.get(id)
    if (!known && !(await this.#position(id)) && !(agent && (await isCapturing(db, id)))) {
      this.#ending.delete(id)
      return 'nothing'
    }
    const follower = known ?? this.#made(id)
    this.#followers.set(id, follower)
    try {
      const isWhole = await follower.finish(agent, signal)
      const isMissing = !isWhole && !isIdle(id) && (await isCapturing(db, id)) && !(await saysEnded(db, id))
      follower.close(!isMissing)
    } catch (error) {
      follower.close(true)
      this.#letGo(follower)
      throw error
    }
    // If this fails, the events are stored later.
    await this.#store.flush(signal)
    this.#letGo(follower)
    return undefined
  }
}

/** Whether the last stored event reports that the end of the session is missing. */
async function saysEnded(db: Db, id: string): Promise<boolean> {
  const run = await lastSegment(db, id)
  const last = run?.data ? (await unpack(run.data)).at(-1) : undefined
  return last !== undefined && last.json.includes('"type":"monitor_events_lost"') && last.json.includes('"reason":"instance_ended"')
}
