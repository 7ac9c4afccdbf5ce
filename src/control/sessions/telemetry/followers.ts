// Which sessions' telemetry this replica follows: from the moment that something is captured until the session ends.
import { setInterval } from 'node:timers/promises'
import { Bucket } from '../../../base/bucket.ts'
import type { Log } from '../../../base/log.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import type { Db } from '../../../store/db.ts'
import type { Leases } from '../../../store/leases.ts'
import type { EndStep } from '../browsers/end-step.ts'
import { Follower, type TelemetryMeter } from './follow.ts'
import { END_MS, LOOK_MS, RECOUNT_MS, TOTAL_RATE } from './limits.ts'
import { isCapturing, lastSegment, positionsOf, watchedTelemetry, type Position } from './rows.ts'
import { unpack } from './segments.ts'
import { Store } from './store.ts'

interface FollowersSettings {
  db: Db
  scope: string
  leases: Leases
  /** The agent of a session that runs here and is not being ended. */
  endpointOf: (id: string) => Endpoint | undefined
  /** The agent of an instance that is here and has not ended by itself, also while its session is being ended. */
  agentOf: (id: string) => Endpoint | undefined
  /** Whether it waits in its pool. */
  isIdle: (id: string) => boolean
  isAsleep: (id: string) => boolean
  /** Has another replica look that watches a session. */
  tellWatcher: (id: string) => Promise<unknown>
  /** The reason when nothing may be stored: the disk is full. */
  fullDisk: () => string | undefined
  /** Limit on what is stored of one session. */
  maxBytes: number
  meter: TelemetryMeter
  log: Log
}

/** What the service follows, until it is disposed, which stores what has come. */
export interface Followers extends AsyncDisposable {
  /** Whether a running session captures something from now on. */
  noted(session: { id: string; isOn: boolean }): void
  /** After a start: goes on with what an earlier service has read. */
  adopt(): Promise<void>
  /** Looks for sessions that others have changed, or that this replica watches from now on. */
  lookSoon(): void
  /** Resolves when what has come of a session is stored, as far as it comes to this replica. */
  flush(id: string): Promise<void>
  /** All that was stored of a session is deleted. */
  deleted(id: string): void
  /** The step of a session's end that reads and stores the rest. */
  readonly step: EndStep
  /** How long the oldest event waits that is not stored, in seconds. */
  readonly lagSeconds: number
  /** How many sessions are followed. */
  readonly followed: number
}

export function makeFollowers(settings: FollowersSettings): Followers {
  const { db, scope, leases, endpointOf, agentOf, isIdle, isAsleep, maxBytes, meter, log } = settings
  /** Those that are read, and those whose end is being stored. */
  const followers = new Map<string, Follower>()
  /** The ends that are under way, or whose last events are not stored yet. */
  const ending = new Map<string, Promise<unknown>>()
  const letGo = (id: string) => {
    if (followers.get(id)?.hasMore) return
    for (const all of [followers, ending, closed]) all.delete(id)
  }
  /** Those of them of which nothing more comes. */
  const closed = new Set<string>()
  const total = new Bucket(TOTAL_RATE)
  const stop = new AbortController()
  let isAdopted = false
  const store = new Store({
    db,
    followers: () => followers.values(),
    obstacle: () => settings.fullDisk() ?? (leases.isAlive ? undefined : 'other replicas may store it'),
    onStored: () => [...closed].forEach(letGo),
    log,
  })

  const positionOf = async (id: string): Promise<Position | undefined> => (await positionsOf(db, [id])).get(id)

  /** A follower that does not read yet. `known`: what is asked first how far it is stored. */
  function followerOf(id: string, known?: Promise<Map<string, Position>>): Follower {
    let first = known
    let recountedAt = 0
    const follower = new Follower({
      id,
      async position() {
        const all = first
        first = undefined
        return all ? (await all).get(id) : positionOf(id)
      },
      endpoint: () => endpointOf(id),
      isAsleep: () => isAsleep(id),
      async taken(signal) {
        if (follower.hasMore) store.wake()
        if (follower.isFull && performance.now() - recountedAt > RECOUNT_MS) {
          recountedAt = performance.now()
          follower.recount((await positionOf(id))?.bytes ?? 0)
        }
        await store.room(follower, signal)
      },
      total,
      maxBytes,
      meter,
      log,
    })
    return follower
  }

  function follow(ids: readonly string[], known?: Promise<Map<string, Position>>): void {
    for (const id of ids) if (!followers.has(id) && !stop.signal.aborted) followers.set(id, followerOf(id, known).start())
  }

  /** The same for several, whose positions are read in one query. */
  async function followAll(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return
    const positions = positionsOf(db, ids)
    follow(ids, positions)
    await positions
  }

  /** Brings what is followed in line with what this replica watches. */
  async function look(): Promise<void> {
    const before = [...followers.keys()]
    const on = (await watchedTelemetry(db, { scope, replica: leases.replica }, false)).map(({ id }) => id)
    for (const id of before) {
      // Another replica reads it now. One that captures nothing any more is read to its end: it may have something left, and may capture again.
      if (ending.has(id) || agentOf(id) || on.includes(id)) continue
      const follower = followers.get(id)
      followers.delete(id)
      await follower?.stop()
    }
    await followAll(on.filter((id) => !followers.has(id) && endpointOf(id)))
  }

  /** One look at a time; who asks during one gets another one after it. */
  let looking: Promise<void> | undefined
  let isAskedAgain = false
  function lookAgain(): Promise<void> {
    isAskedAgain = true
    return (looking ??= (async () => {
      while (isAskedAgain && !stop.signal.aborted) {
        isAskedAgain = false
        await look().catch((err: unknown) => stop.signal.aborted || log.warn({ err }, "looking for sessions' telemetry failed"))
      }
      looking = undefined
    })())
  }

  /** Whether the last thing that is stored says that the end of the session is missing. */
  async function isReported(id: string): Promise<boolean> {
    const run = await lastSegment(db, id)
    const last = run?.data ? (await unpack(run.data)).at(-1) : undefined
    return last !== undefined && last.json.includes('"type":"monitor_events_lost"') && last.json.includes('"reason":"instance_ended"')
  }

  async function end(id: string, signal: AbortSignal): Promise<void | 'nothing'> {
    const agent = agentOf(id)
    // One whose browser never came up has nothing to tell.
    const known = followers.get(id)
    if (!known && !(await positionOf(id)) && !(agent && (await isCapturing(db, id)))) {
      ending.delete(id)
      return 'nothing'
    }
    const follower = known ?? followerOf(id)
    followers.set(id, follower)
    try {
      const isWhole = await follower.finish(agent, signal)
      const isMissing = !isWhole && !isIdle(id) && (await isCapturing(db, id)) && !(await isReported(id))
      follower.close(!isMissing)
    } catch (error) {
      closed.add(id)
      letGo(id)
      throw error
    }
    // What cannot be stored now is stored later.
    closed.add(id)
    await store.flush(signal)
    letGo(id)
    return undefined
  }

  return {
    noted({ id, isOn }) {
      if (!isOn || followers.has(id)) return
      if (agentOf(id)) follow([id])
      else settings.tellWatcher(id).catch(() => {}) // it looks by itself
    },
    async adopt() {
      // One that has not come up is ended; there is nothing of it.
      const rows = await watchedTelemetry(db, { scope, replica: leases.replica }, true)
      await followAll(rows.filter(({ id, state }) => state !== 'starting' && !followers.has(id)).map(({ id }) => id))
      isAdopted = true
      const run = async () => {
        for await (const _ of setInterval(LOOK_MS, undefined, { signal: stop.signal })) await leases.catchUp(lookAgain)
      }
      void run().catch(() => {}) // ends only by its signal
    },
    lookSoon: () => void lookAgain(),
    async flush(id) {
      await ending.get(id)?.catch(() => {}) // who ends it hears of that
      if (followers.get(id)?.hasMore) await store.flush()
    },
    deleted: (id) => followers.get(id)?.recount(0),
    step: {
      name: 'telemetry',
      limitMs: END_MS,
      mayFail: true,
      run({ id }, signal) {
        if (isAdopted && leases.remembered(followers.has(id)) === false) return undefined
        const work = end(id, signal)
        ending.set(id, work)
        return work
      },
    },
    get lagSeconds() {
      return Math.max(0, ...[...followers.values()].map(({ lagMs }) => lagMs)) / 1000
    },
    get followed() {
      return [...followers.keys()].filter((id) => !ending.has(id)).length
    },
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      await looking
      await Promise.all([...followers.values()].map((follower) => follower.stop()))
      await store.close()
    },
  }
}
