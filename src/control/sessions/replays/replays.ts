// The rules of replays: start, find, stop and download.
import { recording, type RecordingSpec } from '../../../agent/recording/contract.ts'
import { newId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import type { Signer } from '../../../base/signed.ts'
import { until, within } from '../../../base/wait.ts'
import { call } from '../../../http/client.ts'
import { assertOffered, type Endpoint } from '../../../http/endpoint.ts'
import { fault } from '../../../http/fault.ts'
import { calledBy, type Bytes, type Called } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import type { Objects } from '../../../store/objects.ts'
import type { EventsShown } from '../telemetry/shown/contract.ts'
import type { Replay, StartReplay } from './contract.ts'
import { openedBy, viewUrl } from './links.ts'
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
  findSession: (project: string, idOrName: string) => Promise<{ id: string; lease: number; state: string; created_at: Date | null } | undefined>
  /** The agent of a running session of a project, or of any. The session counts as in use until it is released. @throws 404 */
  reach(project: string | undefined, called: Called): Promise<{ id: string; endpoint: Endpoint; release: () => void; ended?: AbortSignal | undefined }>
  /** The agent of a session, if it runs. */
  endpointOf(browserId: string): Endpoint | undefined
}

export type Replays = ReturnType<typeof makeReplays>

export function makeReplays(settings: ReplaysSettings) {
  const { db, objects, recordings, tokens, scope, log, findSession, reach } = settings

  /**
   * The session whose recordings are asked for. With the token of a browser of a pool, only those that its holder has made: that were begun `since`.
   * @throws 404; 401 when its browser belongs to another caller of its pool by now
   */
  async function browserOf(project: string, called: Called): Promise<{ id: string; since: Date | undefined }> {
    const { idOrName, lease } = calledBy(called)
    const row = await findSession(project, idOrName)
    if (!row) throw fault.notFound('browser', idOrName)
    if (lease !== undefined && (row.lease !== lease || row.state === 'warm' || row.state === 'releasing'))
      throw fault.unauthorized('the browser was given back to its pool')
    return { id: row.id, since: lease ? (row.created_at ?? undefined) : undefined }
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
    /** `events`: how much of them the link in the answer shows. */
    async start(project: string, called: Called, wanted: StartReplay, origin: string, signal: AbortSignal, events?: EventsShown): Promise<Replay> {
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
    async list(project: string, called: Called, origin: string, events?: EventsShown): Promise<Replay[]> {
      const { id, since } = await browserOf(project, called)
      const rows = (await listReplays(db, id)).filter((row) => !isBefore(row, since))
      return Promise.all(rows.map((row) => present(row, origin, events)))
    },
    async stop(project: string, called: Called, replayId: string): Promise<void> {
      const row = await find(project, called, replayId)
      const { id } = row
      const running = recordings.transferOf(id)
      if (!running) return stopElsewhere(project, called, row)
      await running.stop().catch((err: unknown) => log.warn({ err, replay: id }, 'a recording does not stop; its agent does not answer'))
      await within('a replay', STOP_MS, running.done).catch(() => {})
    },
    /** Ends the recordings of a session whose caller gives it back. What they have recorded is fetched afterwards. @throws when its agent does not end them */
    async stopAll({ id: browserId, endpoint }: { id: string; endpoint: Endpoint }): Promise<void> {
      const rows = (await listReplays(db, browserId)).filter(({ state }) => state === 'recording')
      const stopOne = ({ id }: ReplayRow) => call(endpoint, recording.stopRecording, { params: { id } }, { signal: AbortSignal.timeout(STOP_MS) })
      await Promise.all(rows.map(stopOne))
    },
    async download(project: string, called: Called, replayId: string, range: string | undefined): Promise<Bytes> {
      return videoOf(objects, await find(project, called, replayId), range)
    },
    /** A replay for the holder of its token, and how much of its events that shows. @throws 404 */
    async viewed(replayId: string, token: unknown): Promise<FoundReplay & { events: EventsShown }> {
      const opened = await openedBy(tokens, token)
      const row = opened?.id === replayId ? await findReplay(db, scope, replayId) : undefined
      if (!row) throw fault.notFound('replay', replayId)
      return { ...row, events: opened!.events }
    },
    video: (row: ReplayRow, range: string | undefined): Promise<Bytes> => videoOf(objects, row, range),
  }
}

const isBefore = ({ started_at: at }: ReplayRow, since: Date | undefined): boolean => since !== undefined && at !== null && at < since

/** Begins a recording that has a place, and has it fetched by the replica that watches its session. The signal: its caller has left, or given the session back. */
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
  if (endpointOf(browserId)) {
    recordings.fetch(row, endpoint)
    return row
  }
  // Another replica watches the session and fetches its recordings. Or this one does, and has not noticed yet that another replica has given its warm browser to a caller: the look
  // waits for that. Or the session has just ended: the look finishes the recording.
  recordings.leave(id)
  if (!(await tellWatcher(browserId))) await recordings.look()
  return row
}
