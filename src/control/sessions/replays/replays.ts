// The rules of replays: start, find, stop, download, and what happens when their session or their retention ends.
import { setInterval } from 'node:timers/promises'
import { recording, type RecordingSpec } from '../../../agent/recording/contract.ts'
import { newId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import type { Signer } from '../../../base/signed.ts'
import { Slots } from '../../../base/slots.ts'
import { until, within } from '../../../base/wait.ts'
import { call } from '../../../http/client.ts'
import { assertOffered, type Endpoint } from '../../../http/endpoint.ts'
import { fault } from '../../../http/fault.ts'
import type { Bytes, Called } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { alone, type Leases } from '../../../store/leases.ts'
import type { Objects } from '../../../store/objects.ts'
import type { Spool } from '../../../store/spool.ts'
import type { EventsShown } from '../telemetry/shown/contract.ts'
import type { Replay, StartReplay } from './contract.ts'
import { openedBy, viewUrl } from './links.ts'
import { Pace } from './pace.ts'
import { isBefore, recordedSession, type FindSession } from './recorded.ts'
import {
  expiredReplays,
  findReplay,
  type FoundReplay,
  headKey,
  insertReplay,
  listReplays,
  markStarted,
  readyReplays,
  removeReplay,
  takeOverReplays,
  unfinishedReplays,
  type UnfinishedReplay,
  type ReplayRow,
} from './rows.ts'
import { Transfer } from './transfer.ts'
import type { Transfers } from './transfers.ts'
import { videoOf } from './video.ts'

/** Most recordings of one session at the same time; the agent has the same limit. */
const MAX_AT_ONCE = 8
/** Timeout of a start. An agent takes its first frame within 0.3 s, on a busy machine within a few seconds. */
const START_MS = 20_000
/** How long a stop waits for the video. If it is not ready by then, it will be a moment later. */
const STOP_MS = 10_000
/** Videos that are stored at the same time, which is as many as an S3 store takes files. Each has its tables in memory; the others hold nothing. */
export const FILMS_AT_ONCE = 4
const SWEEP_MS = 3600_000
/** How often a replica looks for recordings that others have begun. */
const LOOK_MS = 1_000
/** A recording of another replica that has not begun after so long never will. */
const STARTED_MS = 60_000
/** After so many old replays that cannot be removed, the store most likely does not answer. The next sweep tries again. */
const MAX_FAILURES = 10

export interface ReplaysSettings {
  db: Db
  objects: Objects
  /** Where recordings grow. It belongs to this service alone. */
  spool: Spool
  /** Empty at first. The end of a session looks into it. */
  transfers: Transfers
  /** Of replaySigner (links.ts). */
  tokens: Signer
  scope: string
  /** Who shares this scope. Nobody, unless given. */
  leases?: Leases
  /** Has another replica look at a session's recordings that watches it; false when none does. Always false, unless given. */
  tellWatcher?: (browserId: string) => Promise<boolean>
  retentionDays: number
  /** For tests; see {@link FRESH_MS} of transfer.ts. */
  freshMs?: number
  /** The reason when no recording may grow (the disk is full). */
  fullDisk?: () => string | undefined
  log: Log
  /** A session of a project by id or name, also after its end. */
  findSession: FindSession
  /** The agent of a running session of a project, or of any. The session counts as in use until it is released. @throws 404 */
  reach(project: string | undefined, called: Called): Promise<{ id: string; endpoint: Endpoint; release: () => void; ended?: AbortSignal | undefined }>
  /** The agent of a session, if it runs. */
  endpointOf(browserId: string): Endpoint | undefined
}

export interface Replays extends AsyncDisposable {
  /** `events`: how much of them the link in the answer shows. */
  start(project: string, called: Called, wanted: StartReplay, origin: string, signal: AbortSignal, events?: EventsShown): Promise<Replay>
  list(project: string, called: Called, origin: string, events?: EventsShown): Promise<Replay[]>
  stop(project: string, called: Called, replayId: string): Promise<void>
  /** Ends the recordings of a session whose caller gives it back. What they have recorded is fetched behind that. @throws when its agent does not end them */
  stopAll(session: { id: string; endpoint: Endpoint }): Promise<void>
  download(project: string, called: Called, replayId: string, range: string | undefined): Promise<Bytes>
  /** A replay for the holder of its token, and how much of its events that shows. @throws 404 */
  viewed(replayId: string, token: unknown): Promise<FoundReplay & { events: EventsShown }>
  video(row: ReplayRow, range: string | undefined): Promise<Bytes>
  /** After a start: continues what an earlier service had begun. */
  adopt(): Promise<void>
  /** Fetches recordings that other replicas have begun, of sessions that this one watches, and those of dead replicas. */
  look(): Promise<void>
  /** Removes what is older than its retention. */
  sweep(): Promise<void>
}

/** When something was first seen. */
const seen = (times: Map<string, number>, id: string): number => times.get(id) ?? times.set(id, performance.now()).get(id)!

export function makeReplays(settings: ReplaysSettings): Replays {
  const { db, objects, spool, transfers, tokens, scope, retentionDays, freshMs, fullDisk, log, findSession, reach, endpointOf } = settings
  const leases = settings.leases ?? alone(newId())
  const browserOf = recordedSession(findSession)
  /** The epoch of our leases in which a recording was known to be ours. When that is over, another replica may fetch it. */
  const confirmed = new Map<string, number>()
  const isOurs = (id: string) => leases.isAlive && confirmed.get(id) === leases.epoch
  /** Recordings that are being started, and their sessions. */
  const starting = new Map<string, string>()
  /** Starts of an earlier service that are being dropped, by their recordings. */
  const undoing = new Map<string, Promise<void>>()
  /** When this process first saw recordings that another replica was starting; by performance.now(). */
  const begun = new Map<string, number>()
  /** Those that this process has tried to fetch. */
  const tried = new Set<string>()
  const deaths = leases.deaths()
  /** Whether the last look has left a recording to the next one. */
  let isPostponed = false
  const [storing, reading] = [new Slots(FILMS_AT_ONCE), new Slots(FILMS_AT_ONCE)]
  const stop = new AbortController()

  const transfer = (row: ReplayRow, endpoint: Endpoint | undefined) => {
    const pace = transfers.of(row.browser_id)[0]?.pace ?? new Pace()
    const made = new Transfer({ db, objects, spool, log, row, endpoint, pace, storing, reading, freshMs, fullDisk, isOurs: () => isOurs(row.id) })
    transfers.set(row.id, made)
    // A look that was under way when the service began to stop: it is the next start's, or another replica's.
    if (stop.signal.aborted) made.quit()
    tried.add(row.id)
    confirmed.set(row.id, leases.epoch)
    void made.done.then(() => {
      transfers.delete(row.id)
      confirmed.delete(row.id)
    })
    return made
  }

  async function present(row: ReplayRow, origin: string, events?: EventsShown): Promise<Replay> {
    return {
      replay_id: row.id,
      started_at: row.started_at!.toISOString(),
      finished_at: row.finished_at?.toISOString() ?? null,
      replay_view_url: await viewUrl(tokens, origin, row.id, events),
    }
  }

  async function find(project: string, called: Called, replayId: string): Promise<ReplayRow> {
    const [{ id, since }, row] = await Promise.all([browserOf(project, called), findReplay(db, scope, replayId)])
    if (row?.browser_id !== id || isBefore(row, since)) throw fault.notFound('replay', replayId)
    return row
  }

  /** Drops a recording whose caller never got its id. */
  async function undo(id: string, endpoint: Endpoint | undefined): Promise<void> {
    const limit = AbortSignal.any([stop.signal, AbortSignal.timeout(START_MS)])
    if (endpoint) await call(endpoint, recording.forgetRecording, { params: { id } }, { signal: limit }).catch(() => {})
    // If the service stops meanwhile, the next start finds the row again.
    if (!stop.signal.aborted) await removeReplay(db, id)
  }

  /** Stops a recording that another replica fetches, and waits until it is a video. One that this process has fetched, or could not, is not waited for. */
  async function stopElsewhere(project: string, called: Called, { id, state }: ReplayRow): Promise<void> {
    const isReady = async () => (await findReplay(db, scope, id))?.state === 'ready'
    if (state === 'ready' || tried.has(id)) return
    const stopNow = async () => {
      const { endpoint, release } = await reach(project, called)
      await call(endpoint, recording.stopRecording, { params: { id } }, { signal: AbortSignal.timeout(STOP_MS) }).finally(release)
    }
    if (state === 'recording')
      await stopNow().catch((err: unknown) => log.warn({ err, replay: id }, 'a recording does not stop; its session has ended, or its agent does not answer'))
    await until('a replay', STOP_MS, isReady, { everyMs: 50, signal: stop.signal }).catch(() => {})
  }

  /** Continues recordings that an earlier service, or another replica, has begun. */
  async function continueAll(rows: readonly UnfinishedReplay[]): Promise<void> {
    const unfinished = new Set(rows.map(({ id }) => id))
    for (const id of tried) if (!unfinished.has(id) && !transfers.has(id)) tried.delete(id)
    for (const id of begun.keys()) if (!unfinished.has(id)) begun.delete(id)
    isPostponed = false
    for (const row of rows.filter(({ id }) => !tried.has(id) && !starting.has(id) && !undoing.has(id))) {
      const endpoint = endpointOf(row.browser_id)
      // Its session is just being taken over, or will be found to have ended: the next look knows which.
      if (!endpoint && row.isLive) {
        isPostponed = true
        continue
      }
      if (row.state !== 'starting') {
        if (!tried.has(row.id)) transfer(row, endpoint)
      } else if (leases.remembered(starting.has(row.id)) === false || performance.now() - seen(begun, row.id) > STARTED_MS) {
        // Not awaited: an agent that does not answer would delay the start of the service.
        const undone = undo(row.id, endpoint)
          .catch((err: unknown) => log.error({ err, replay: row.id }, 'a recording that never began could not be removed'))
          .finally(() => undoing.delete(row.id))
        undoing.set(row.id, undone)
      }
    }
  }

  async function removeExpired({ id, object }: Pick<ReplayRow, 'id' | 'object'>): Promise<boolean> {
    try {
      // The row last: the objects can only be found by it.
      await objects.delete(headKey(object), stop.signal)
      await objects.delete(object, stop.signal)
      await removeReplay(db, id)
      log.info({ replay: id }, 'a replay was removed: its retention is over')
      return true
    } catch (err) {
      stop.signal.throwIfAborted()
      log.error({ err, replay: id }, 'an old replay could not be removed')
      return false
    }
  }

  const replays: Replays = {
    async start(project, called, wanted, origin, signal, events) {
      const { id: browserId, endpoint, release, ended } = await reach(project, called)
      const id = newId()
      try {
        assertOffered(endpoint, recording.startRecording.id)
        const begun = [...starting.values()].filter((other) => other === browserId)
        if (transfers.recordingOf(browserId) + begun.length >= MAX_AT_ONCE)
          throw fault.conflict(`there are ${MAX_AT_ONCE} recordings of this browser already; stop one first`)
        starting.set(id, browserId)
        const seconds = wanted.max_duration_in_seconds
        await insertReplay(db, { id, browserId, framerate: wanted.framerate, maxDurationSeconds: seconds, recordAudio: wanted.record_audio })
        const spec: RecordingSpec = {
          id,
          framerate: wanted.framerate,
          audio: wanted.record_audio,
          ...(seconds !== undefined && { maxDurationMs: seconds * 1000 }),
        }
        try {
          const before = Date.now()
          const limit = AbortSignal.any([signal, AbortSignal.timeout(START_MS), ...(ended ? [ended] : [])])
          const { startedAt, startedClock } = await call(endpoint, recording.startRecording, { body: spec }, { signal: limit })
          // Nobody would ever end a recording whose caller left before it got the answer.
          signal.throwIfAborted()
          const row = await markStarted(db, id, new Date(Math.min(Math.max(startedAt, before), Date.now())), startedClock)
          // Its caller has given it back meanwhile.
          ended?.throwIfAborted()
          const isHere = endpointOf(browserId) !== undefined
          // Another replica that watches the session fetches its recordings, too.
          if (isHere || !(await settings.tellWatcher?.(browserId))) {
            const made = transfer(row, endpoint)
            // The session may have ended while the row was written: its end has not found this recording.
            if (!isHere || !endpointOf(browserId)) void made.end(0)
          }
          starting.delete(id)
          return await present(row, origin, events)
        } catch (error) {
          await undo(id, endpoint)
          if (signal.aborted) throw error
          // The session may have ended by now. That is a different error from a recording that does not start.
          await reach(project, called).then((again) => again.release())
          throw fault.unavailable('the recording could not be started', error)
        }
      } finally {
        starting.delete(id)
        release()
      }
    },
    async list(project, called, origin, events) {
      const { id, since } = await browserOf(project, called)
      const rows = (await listReplays(db, id)).filter((row) => !isBefore(row, since))
      return Promise.all(rows.map((row) => present(row, origin, events)))
    },
    async stop(project, called, replayId) {
      const row = await find(project, called, replayId)
      const { id } = row
      const running = transfers.get(id)
      if (!running) return stopElsewhere(project, called, row)
      await running.stop().catch((err: unknown) => log.warn({ err, replay: id }, 'a recording does not stop; its agent does not answer'))
      await within('a replay', STOP_MS, running.done).catch(() => {})
    },
    async stopAll({ id: browserId, endpoint }) {
      const rows = (await listReplays(db, browserId)).filter(({ state }) => state === 'recording')
      const stopOne = ({ id }: ReplayRow) => call(endpoint, recording.stopRecording, { params: { id } }, { signal: AbortSignal.timeout(STOP_MS) })
      await Promise.all(rows.map(stopOne))
    },
    download: async (project, called, replayId, range) => videoOf(objects, await find(project, called, replayId), range),
    async viewed(replayId, token) {
      const opened = await openedBy(tokens, token)
      const row = opened?.id === replayId ? await findReplay(db, scope, replayId) : undefined
      if (!row) throw fault.notFound('replay', replayId)
      return { ...row, events: opened!.events }
    },
    video: (row, range) => videoOf(objects, row, range),
    async adopt() {
      await takeOverReplays(db, scope, leases)
      const unfinished = await unfinishedReplays(db, scope, leases)
      // A service that was killed after it had written the row of a complete recording has left its file. Others may be of another database.
      for (const id of await readyReplays(db, await spool.list()))
        await spool.remove(id).catch((err: unknown) => log.error({ err, replay: id }, 'a complete recording could not be removed from the spool'))
      await continueAll(unfinished)
      const run = async () => {
        await replays.sweep()
        for await (const _ of setInterval(SWEEP_MS, undefined, { signal: stop.signal })) await replays.sweep()
      }
      void run().catch((err: unknown) => {
        if (!stop.signal.aborted) log.error({ err }, 'old replays are not removed any more')
      })
      const look = async () => {
        for await (const _ of setInterval(LOOK_MS, undefined, { signal: stop.signal })) {
          const looked = isPostponed ? replays.look() : leases.catchUp(() => replays.look())
          await looked?.catch((err: unknown) => log.warn({ err }, 'looking for recordings that are to be fetched failed'))
        }
      }
      void look().catch(() => {}) // ends only by its signal
    },
    async look() {
      if (!leases.isAlive) return
      const { epoch } = leases
      if (deaths.isLookDue()) await takeOverReplays(db, scope, leases).catch((err: unknown) => (deaths.lookAgain(), Promise.reject(err)))
      const known = [...transfers.keys()]
      const rows = await unfinishedReplays(db, scope, leases)
      const ours = new Set(rows.map(({ id }) => id))
      for (const id of known) if (ours.has(id) && confirmed.has(id)) confirmed.set(id, epoch)
      const others = known.filter((id) => !ours.has(id))
      const ready = new Set(await readyReplays(db, others))
      for (const id of others.filter((one) => !ready.has(one))) {
        log.warn({ replay: id }, 'another replica fetches a recording')
        transfers.get(id)?.quit()
        tried.delete(id)
      }
      await continueAll(rows)
    },
    async sweep() {
      if (!leases.holds('replays')) return
      try {
        let failures = 0
        for (const row of await expiredReplays(db, scope, retentionDays)) if (!(await removeExpired(row)) && ++failures >= MAX_FAILURES) return
      } catch (err) {
        if (!stop.signal.aborted) log.error({ err }, 'old replays could not be removed')
      }
    },
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      // Recordings of ended sessions will be ready in a moment. Those of sessions that go on are fetched by other replicas.
      if (!leases.handsOver) await within('the last replays', STOP_MS, Promise.all([...transfers.values()].map(({ done }) => done))).catch(() => {})
      for (const one of transfers.values()) one.quit()
      await Promise.all([...[...transfers.values()].map(({ done }) => done), ...undoing.values()])
    },
  }
  return replays
}
