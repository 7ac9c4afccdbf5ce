// The rules of replays: start, find, stop and download.
import { recording, type RecordingSpec } from '../../../agent/recording/contract.ts'
import { newId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import type { Signer } from '../../../base/signed.ts'
import { until, within } from '../../../base/wait.ts'
import { call } from '../../../http/client.ts'
import { assertOffered, type Endpoint } from '../../../http/endpoint.ts'
import { fault } from '../../../http/fault.ts'
import type { Bytes, Called } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import type { Objects } from '../../../store/objects.ts'
import type { EventsShown } from '../telemetry/shown/contract.ts'
import type { Replay, StartReplay } from './contract.ts'
import { openedBy, viewUrl } from './links.ts'
import { isBefore, recordedSession, type FindSession } from './recorded.ts'
import type { Recordings } from './recordings.ts'
import { findReplay, type FoundReplay, insertReplay, listReplays, markStarted, type ReplayRow } from './rows.ts'
import { videoOf } from './video.ts'

/** Timeout of a start. An agent takes its first frame within 0.3 s, on a busy machine within a few seconds. */
const START_MS = 20_000
/** How long a stop waits for the video. If it is not ready by then, it will be a moment later. */
const STOP_MS = 10_000

export interface ReplaysSettings {
  db: Db
  objects: Objects
  recordings: Recordings
  /** Of replaySigner (links.ts). */
  tokens: Signer
  scope: string
  /** Has another replica look at a session's recordings that watches it; false when none does. */
  tellWatcher: (browserId: string) => Promise<boolean>
  log: Log
  /** A session of a project by id or name, also after its end. */
  findSession: FindSession
  /** The agent of a running session of a project, or of any. The session counts as in use until it is released. @throws 404 */
  reach(project: string | undefined, called: Called): Promise<{ id: string; endpoint: Endpoint; release: () => void; ended?: AbortSignal | undefined }>
  /** The agent of a session, if it runs. */
  endpointOf(browserId: string): Endpoint | undefined
}

export interface Replays {
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
}

export function makeReplays(settings: ReplaysSettings): Replays {
  const { db, objects, recordings, tokens, scope, log, findSession, reach } = settings
  const browserOf = recordedSession(findSession)

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

  /** Stops a recording that another replica fetches, and waits until it is a video. */
  async function stopElsewhere(project: string, called: Called, { id, state }: ReplayRow): Promise<void> {
    const isReady = async () => (await findReplay(db, scope, id))?.state === 'ready'
    if (state === 'ready') return
    const stopNow = async () => {
      const { endpoint, release } = await reach(project, called)
      await call(endpoint, recording.stopRecording, { params: { id } }, { signal: AbortSignal.timeout(STOP_MS) }).finally(release)
    }
    if (state === 'recording')
      await stopNow().catch((err: unknown) => log.warn({ err, replay: id }, 'a recording does not stop; its session has ended, or its agent does not answer'))
    await until('a replay', STOP_MS, isReady, { everyMs: 50, signal: recordings.stopping }).catch(() => {})
  }

  return {
    async start(project, called, wanted, origin, signal, events) {
      const { id: browserId, endpoint, release, ended } = await reach(project, called)
      const id = newId()
      try {
        assertOffered(endpoint, recording.startRecording.id)
        recordings.begin(id, browserId)
        try {
          const row = await begin(settings, { id, browserId, endpoint, wanted }, ended ? AbortSignal.any([signal, ended]) : signal)
          return await present(row, origin, events)
        } catch (error) {
          await recordings.drop(id, endpoint)
          if (signal.aborted) throw error
          // The session may have ended by now. That is a different error from a recording that does not start.
          await reach(project, called).then((again) => again.release())
          throw fault.unavailable('the recording could not be started', error)
        }
      } finally {
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
      const running = recordings.transferOf(id)
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
  }
}

/** Begins a recording that has a place, and fetches it, or has the replica that watches its session fetch it. The signal: its caller has left, or given the session back. */
async function begin(
  { db, recordings, tellWatcher, endpointOf }: ReplaysSettings,
  { id, browserId, endpoint, wanted }: { id: string; browserId: string; endpoint: Endpoint; wanted: StartReplay },
  signal: AbortSignal,
): Promise<ReplayRow> {
  const seconds = wanted.max_duration_in_seconds
  await insertReplay(db, { id, browserId, framerate: wanted.framerate, maxDurationSeconds: seconds, recordAudio: wanted.record_audio })
  const spec: RecordingSpec = { id, framerate: wanted.framerate, audio: wanted.record_audio, ...(seconds !== undefined && { maxDurationMs: seconds * 1000 }) }
  const before = Date.now()
  const limit = AbortSignal.any([signal, AbortSignal.timeout(START_MS)])
  const { startedAt, startedClock } = await call(endpoint, recording.startRecording, { body: spec }, { signal: limit })
  // Nobody would ever end a recording whose caller left before it got the answer.
  signal.throwIfAborted()
  const row = await markStarted(db, id, new Date(Math.min(Math.max(startedAt, before), Date.now())), startedClock)
  signal.throwIfAborted()
  const isHere = endpointOf(browserId) !== undefined
  // Another replica that watches the session fetches its recordings, too.
  if (!isHere && (await tellWatcher(browserId))) recordings.leave(id)
  else {
    const transfer = recordings.fetch(row, endpoint)
    // The session may have ended while the row was written: its end has not found this recording.
    if (!isHere || !endpointOf(browserId)) void transfer.end(0)
  }
  return row
}
