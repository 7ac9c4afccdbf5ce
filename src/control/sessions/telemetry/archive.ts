// Which sessions' telemetry this replica reads and stores: from the moment that something is captured until the session ends.
import { setInterval } from 'node:timers/promises'
import { telemetryFeed } from '../../../agent/telemetry/contract.ts'
import type { Log } from '../../../base/log.ts'
import { call } from '../../../http/client.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import type { Db } from '../../../store/db.ts'
import type { Leases } from '../../../store/leases.ts'
import type { EndStep } from '../browsers/end-step.ts'
import { Budget, Follower, readRest } from './follower.ts'
import { Intake, type TelemetryMeter } from './intake.ts'
import { lastSegment, positionsOf, watchedOne, watchedTelemetry, type Position, type Watched } from './rows.ts'
import { unpack } from './segments.ts'
import { Writer } from './writer.ts'

/** How often a replica looks for sessions whose telemetry others have changed. */
const LOOK_MS = 1_000
/** How often it is looked whether the archive of a session that has reached its limit was deleted. */
const RECOUNT_MS = 5_000
/** Limit on the end of a session: its rest is read and stored. */
const END_MS = 10_000
/** Limit on closing the event buffer of its agent. */
const CLOSE_MS = 2_000

interface ArchiveSettings {
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
  /** Has another replica look that watches a session; false when none does. */
  tellWatcher: (id: string) => Promise<boolean>
  /** The reason when nothing may be stored: the disk is full. */
  fullDisk: () => string | undefined
  /** Limit on what is stored of one session. */
  maxBytes: number
  meter: TelemetryMeter
  /** Called when all of a session is stored. */
  onEnded: (id: string) => void
  log: Log
}

/** A session that is read or was read here, or whose last events are being stored. */
interface Kept {
  intake: Intake
  /** Undefined while nothing is captured and all is read, and while its instance is gone. */
  follower: Follower | undefined
  /** Whether something is captured, as far as is known. */
  isOn: boolean
  /** When this process was told so, by performance.now(). */
  receivedAt: number
  /** Its session ends: nothing but its end reads it. */
  isEnding: boolean
  recountedAt: number
}

export interface TelemetryArchive extends AsyncDisposable {
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
  /** How many sessions are read. */
  readonly followed: number
}

export function makeArchive(settings: ArchiveSettings): TelemetryArchive {
  const { db, scope, leases, endpointOf, agentOf, isIdle, isAsleep, maxBytes, meter, log } = settings
  const sessions = new Map<string, Kept>()
  /** Sessions of which it is being read how far they are stored, and whether something of them is captured, as was said last. */
  const beginning = new Map<string, { work: Promise<Kept | undefined>; isOn: boolean; receivedAt: number }>()
  /** Ended ones whose last events are being stored. */
  const ended = new Set<string>()
  const budget = new Budget()
  const stop = new AbortController()
  let isAdopted = false
  const writer = new Writer({
    db,
    intakes: () => [...sessions.values()].map(({ intake }) => intake),
    obstacle: () => settings.fullDisk() ?? (leases.isAlive ? undefined : 'other replicas may store it'),
    onStored: () => [...ended].forEach(letGo),
    log,
  })

  /** Forgets an ended session when all of it is stored. */
  function letGo(id: string): void {
    if (!ended.has(id) || sessions.get(id)?.intake.hasMore) return
    ended.delete(id)
    sessions.delete(id)
    settings.onEnded(id)
  }

  const intakeOf = (id: string, position: Position | undefined) => new Intake({ id, position, maxBytes, meter })

  async function taken(kept: Kept, signal: AbortSignal): Promise<void> {
    const { intake } = kept
    if (intake.hasMore) writer.wake()
    if (intake.isFull && performance.now() - kept.recountedAt > RECOUNT_MS) {
      kept.recountedAt = performance.now()
      intake.recount((await positionsOf(db, [intake.id])).get(intake.id)?.bytes ?? 0)
    }
    await writer.room(intake, signal)
  }

  function follow(kept: Kept, endpoint: Endpoint): void {
    const { intake } = kept
    const { id } = intake
    const follower = new Follower({
      intake,
      endpoint,
      taken: (signal) => taken(kept, signal),
      // Not yet while a caller gives it back: it captures until it has let go of the caller's things.
      isOver: () => !kept.isOn,
      isAsleep: () => isAsleep(id),
      budget,
      log,
    })
    kept.follower = follower
    void follower.done.then(() => {
      if (kept.follower !== follower || kept.isEnding) return
      kept.follower = undefined
      // All is read, and nothing more is captured. It may have been turned on again just now.
      if (kept.isOn) goOn(kept)
    })
  }

  /** Reads a session that is not being read, if it is here. */
  function goOn(kept: Kept): void {
    const { id } = kept.intake
    const endpoint = endpointOf(id)
    if (endpoint && !kept.follower && !kept.isEnding && sessions.get(id) === kept && !stop.signal.aborted) follow(kept, endpoint)
  }

  /** Begins to read a session; undefined when it has ended meanwhile. `isHere`: unless its instance is gone by then. */
  function begin(id: string, isOn: boolean, isHere: boolean, position?: Promise<Position | undefined>): Promise<Kept | undefined> {
    // Several may ask at once, after a start.
    const known = beginning.get(id)?.work ?? (sessions.has(id) ? Promise.resolve(sessions.get(id)) : undefined)
    if (known) return known
    const received = { isOn, receivedAt: 0 }
    const work = (async () => {
      const found = await (position ?? positionsOf(db, [id]).then((all) => all.get(id)))
      const present = sessions.get(id)
      if (present || stop.signal.aborted || (isHere && !endpointOf(id) && !isIdle(id))) return present
      const kept: Kept = { intake: intakeOf(id, found), follower: undefined, ...received, isEnding: false, recountedAt: performance.now() }
      sessions.set(id, kept)
      goOn(kept)
      return kept
    })().finally(() => beginning.delete(id))
    beginning.set(id, Object.assign(received, { work }))
    return work
  }

  const beginSoon = (id: string) =>
    void begin(id, true, endpointOf(id) !== undefined).catch((err: unknown) => log.error({ err, browser: id }, 'the telemetry of a session is not read yet'))

  async function beginAll(rows: readonly Watched[], areHere: boolean): Promise<void> {
    const positions = positionsOf(
      db,
      rows.map(({ id }) => id),
    )
    // At once, so that what is said of one meanwhile, and its end, find it.
    const begun = rows.map(({ id, isOn }) =>
      begin(
        id,
        isOn,
        areHere,
        positions.then((all) => all.get(id)),
      ),
    )
    await Promise.all([positions, ...begun])
  }

  /** Another replica reads it now. */
  async function drop(id: string): Promise<void> {
    const kept = sessions.get(id)
    sessions.delete(id)
    await kept?.follower?.stop()
  }

  /** A session that this process does not know. */
  async function found(id: string): Promise<Kept | undefined> {
    const row = await watchedOne(db, id)
    const position = (await positionsOf(db, [id])).get(id)
    // One whose browser never came up has nothing to tell.
    if (!position && !(row?.isOn && agentOf(id))) return undefined
    return { intake: intakeOf(id, position), follower: undefined, isOn: row?.isOn === true, receivedAt: 0, isEnding: true, recountedAt: 0 }
  }

  /** Whether the last thing that is stored says that the end of the session is missing. */
  async function isReported(id: string): Promise<boolean> {
    const run = await lastSegment(db, id)
    const last = run?.data ? (await unpack(run.data)).at(-1) : undefined
    return last !== undefined && last.json.includes('"type":"monitor_events_lost"') && last.json.includes('"reason":"instance_ended"')
  }

  /** Reads what is left. No event comes after that: the streams of callers would have it, and the archive would not. */
  async function hasRest(intake: Intake, endpoint: Endpoint, signal: AbortSignal): Promise<boolean> {
    const failed = (err: unknown) => {
      log.warn({ err, browser: intake.id }, 'the last telemetry of a session could not be read')
      return false
    }
    const limit = AbortSignal.any([signal, AbortSignal.timeout(CLOSE_MS)])
    // One that does not do this may still tell what it has.
    if (!endpoint.older?.lacks.includes(telemetryFeed.endTelemetry.id)) await call(endpoint, telemetryFeed.endTelemetry, {}, { signal: limit }).catch(failed)
    return readRest({ intake, endpoint, log }, signal).then(() => true, failed)
  }

  async function end(id: string, signal: AbortSignal): Promise<void | 'nothing'> {
    const known = (await beginning.get(id)?.work) ?? sessions.get(id) ?? (await found(id))
    const kept = sessions.get(id) ?? known
    if (!kept) return 'nothing'
    const { intake } = kept
    sessions.set(id, kept)
    kept.isEnding = true
    const { follower } = kept
    await follower?.stop()
    const agent = agentOf(id)
    const wasOn = kept.isOn && !isIdle(id)
    const isWhole = agent !== undefined && (await hasRest(intake, agent, signal))
    if (wasOn && !isWhole && (follower || !(await isReported(id)))) intake.lose('instance_ended')
    intake.finish()
    ended.add(id)
    await writer.flush(signal)
    letGo(id)
    return undefined
  }

  async function look(): Promise<void> {
    const askedAt = performance.now()
    const before = [...sessions].flatMap(([id, { isEnding }]) => (isEnding ? [] : [id]))
    const rows = await watchedTelemetry(db, { scope, replica: leases.replica }, false)
    const on = new Set(rows.map(({ id }) => id))
    for (const id of before) {
      const kept = sessions.get(id)
      if (!kept || kept.isEnding || kept.receivedAt >= askedAt || on.has(id)) continue
      if (agentOf(id)) kept.isOn = false
      else await drop(id)
    }
    for (const { id } of rows) {
      const kept = sessions.get(id)
      if (!kept || kept.isEnding) continue
      if (kept.receivedAt < askedAt) kept.isOn = true
      // It was turned on, or its instance was lost, and found again.
      if (kept.isOn) goOn(kept)
    }
    const isNew = ({ id }: Watched) => !sessions.has(id) && endpointOf(id) !== undefined
    await beginAll(rows.filter(isNew), true)
  }

  /** One look at a time; who asks during one gets another one after it. */
  let looking: Promise<void> | undefined
  let isAskedAgain = false
  function lookAgain(): Promise<void> {
    if (looking) isAskedAgain = true
    return (looking ??= (async () => {
      do {
        isAskedAgain = false
        await look().catch((err: unknown) => stop.signal.aborted || log.warn({ err }, "looking for sessions' telemetry failed"))
      } while (isAskedAgain && !stop.signal.aborted)
      looking = undefined
    })())
  }

  const archive: TelemetryArchive = {
    noted({ id, isOn }) {
      const kept = beginning.get(id) ?? sessions.get(id)
      if (kept && 'isEnding' in kept && kept.isEnding) return
      if (kept) {
        kept.isOn = isOn
        kept.receivedAt = performance.now()
        if (isOn && 'intake' in kept) goOn(kept)
      } else if (endpointOf(id)) {
        if (isOn) beginSoon(id)
      } else {
        const sent = settings.tellWatcher(id).catch(() => true) // it looks by itself
        void sent.then((isElsewhere) => isElsewhere || !isOn || beginSoon(id))
      }
    },
    async adopt() {
      // One that has not come up is ended; there is nothing of it.
      await beginAll(
        (await watchedTelemetry(db, { scope, replica: leases.replica }, true)).filter(({ state }) => state !== 'starting'),
        false,
      )
      isAdopted = true
      const run = async () => {
        for await (const _ of setInterval(LOOK_MS, undefined, { signal: stop.signal })) await leases.catchUp(lookAgain)
      }
      void run().catch(() => {}) // ends only by its signal
    },
    lookSoon: () => void lookAgain(),
    async flush(id) {
      if (sessions.get(id)?.intake.hasMore) await writer.flush()
    },
    deleted: (id) => sessions.get(id)?.intake.recount(0),
    step: {
      name: 'telemetry',
      limitMs: END_MS,
      mayFail: true,
      run({ id }, signal) {
        const isKnown = sessions.has(id) || beginning.has(id)
        return isAdopted && leases.remembered(isKnown) === false ? undefined : end(id, signal)
      },
    },
    get lagSeconds() {
      return Math.max(0, ...[...sessions.values()].map(({ intake }) => intake.lagMs)) / 1000
    },
    get followed() {
      return [...sessions.values()].filter(({ follower }) => follower).length
    },
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      await Promise.allSettled([looking, ...[...beginning.values()].map(({ work }) => work)])
      await Promise.all([...sessions.values()].map(async ({ follower }) => follower?.stop()))
      await writer.close()
    },
  }
  return archive
}
