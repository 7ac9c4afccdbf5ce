// Merges the many small runs of a session into few large ones. What is large becomes an object.
import { setInterval } from 'node:timers/promises'
import { Readable } from 'node:stream'
import type { Envelope } from '../../../agent/telemetry/contract.ts'
import type { Log } from '../../../base/log.ts'
import { Mutex } from '../../../base/mutex.ts'
import type { Archive } from './read.ts'
import { freshKey, freshSegments, isIn, mergeable, passingTimes, replaceSegments, type Passing, type StoredSegment } from './rows.ts'
import { allBits, compressed, MERGED_BYTES, unpack } from './segments.ts'

/** A live session with more runs than this has them merged. */
export const MANY_RUNS = 256
/** A merged run with fewer bytes stays in its row: an object of its own costs more than that. */
const OBJECT_BYTES = 32 * 1024
/** Limit on what the store takes for one; a merged run has 2 MiB before it is compressed. */
const MAX_OBJECT_BYTES = 16 * 1024 * 1024
/** Runs per query. */
const AT_ONCE = 32
const SESSIONS_AT_ONCE = 100
/** How often it is looked for what a killed service has left, and for live sessions with many runs. */
const LOOK_MS = 60_000
/** One that could not be merged is tried again after this time. */
const FAILED_MS = 3600_000

interface MergerSettings extends Archive {
  scope: string
  /** Whether this replica merges what others have left. */
  isOurs: () => boolean
  log: Log
}

export interface Merger extends AsyncDisposable {
  /** Merges what there is of a session that has ended, without a wait for it. */
  ended(sessionId: string): void
}

/** Merges until it is disposed, which waits for the run under way. */
export function keepMerging(settings: MergerSettings): Merger {
  const { db, scope, isOurs, log } = settings
  const stop = new AbortController()
  const turn = new Mutex()
  const underWay = new Set<Promise<void>>()
  const merge = (id: string) =>
    turn
      .run(() => mergeSession(settings, id, stop.signal), stop.signal)
      .then(() => true)
      .catch((err: unknown) => {
        if (!stop.signal.aborted) log.error({ err, browser: id }, 'the telemetry of a session could not be merged; it is tried again')
        return false
      })
  /** Those that could not be merged, and until when they are left: they must not keep others from their turn. */
  const failed = new Map<string, number>()
  const round = async () => {
    const now = performance.now()
    for (const [id, until] of failed) if (until < now) failed.delete(id)
    for (const done = new Set<string>(); isOurs();) {
      const ids = await mergeable(db, scope, MANY_RUNS, [...failed.keys(), ...done], SESSIONS_AT_ONCE)
      for (const id of ids) {
        if (!(await merge(id))) failed.set(id, now + FAILED_MS)
        done.add(id)
      }
      if (ids.length < SESSIONS_AT_ONCE) return
    }
  }
  const run = async () => {
    for await (const _ of setInterval(LOOK_MS, undefined, { signal: stop.signal }))
      await round().catch((err: unknown) => stop.signal.aborted || log.warn({ err }, 'looking for telemetry to merge failed'))
  }
  const running = run().catch(() => {}) // ends only by its signal
  return {
    ended(sessionId) {
      const work: Promise<void> = merge(sessionId).then(() => void underWay.delete(work))
      underWay.add(work)
    },
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      await Promise.all([running, ...underWay])
    },
  }
}

/** Merges the runs of a session that were not merged yet. Those of times that are only on their way to a destination stay apart from others: they are removed. */
export async function mergeSession(settings: Pick<MergerSettings, 'db' | 'objects' | 'scope'>, sessionId: string, signal: AbortSignal): Promise<void> {
  const passing = await passingTimes(settings.db, sessionId)
  let parts: StoredSegment[] = []
  let lines: string[] = []
  let bytes = 0
  let last = 0
  /** Of which such times the runs are that are being put together. */
  let times = ''
  const write = async () => {
    const isDone = parts.length === 0 || (await replace(settings, parts, lines.length > 0 ? [{ ...parts[0]!, ...spanOf(parts), lines }] : [], signal))
    parts = []
    lines = []
    bytes = 0
    return isDone
  }
  for (let from = 0; ;) {
    signal.throwIfAborted()
    const runs = await freshSegments(settings.db, sessionId, from, AT_ONCE)
    for (const { data, ...run } of runs) {
      // Runs of two replicas may overlap.
      const added = (await unpack(data!)).filter(({ seq }) => seq > last)
      last = Math.max(last, run.last_seq)
      const part = { ...run, data: null }
      if (isOfSeveral(run, passing)) {
        // Another replica merges it, or it was deleted.
        if (!(await write()) || !(await replace(settings, [part], pieces(part, added, passing), signal))) return
        continue
      }
      const more = added.reduce((sum, { json }) => sum + Buffer.byteLength(json) + 1, 0)
      const runTimes = timesAt(run.first_ts, passing)
      const isFull = bytes + more > MERGED_BYTES && lines.length > 0
      if ((isFull || runTimes !== times) && !(await write())) return
      times = runTimes
      parts.push(part)
      lines.push(...added.map(({ json }) => json))
      bytes += more
    }
    if (runs.length < AT_ONCE) break
    from = runs.at(-1)!.first_seq + 1
  }
  await write()
}

/** The ids of the times that an event of `ts` is of. */
const timesAt = (ts: number, passing: readonly Passing[]): string =>
  passing
    .filter((time) => isIn(ts, time))
    .map(({ id }) => id)
    .join()

/** Whether such a time begins or ends within a run. */
const isOfSeveral = ({ first_ts: first, last_ts: last }: Pick<StoredSegment, 'first_ts' | 'last_ts'>, passing: readonly Passing[]): boolean =>
  passing.some(({ from_ts: from, until_ts: until }) => (from > first && from <= last) || (until !== null && until > first && until <= last))

/** A run that is to be stored: of these lines. */
type Whole = Omit<StoredSegment, 'bytes' | 'data' | 'object' | 'events'> & { lines: readonly string[] }

/** Cuts a run where such times begin and end. */
function pieces(run: StoredSegment, lines: readonly { seq: number; json: string }[], passing: readonly Passing[]): Whole[] {
  const made: (Whole & { lines: string[]; times: string })[] = []
  for (const { seq, json } of lines) {
    const { ts } = (JSON.parse(json) as Envelope).event
    const times = timesAt(ts, passing)
    if (made.at(-1)?.times !== times) made.push({ ...run, first_seq: seq, first_ts: ts, last_seq: seq, last_ts: ts, times, lines: [] })
    const piece = made.at(-1)!
    piece.lines.push(json)
    piece.last_seq = seq
    piece.last_ts = ts
  }
  return made.map(({ times: _, ...piece }) => piece)
}

const spanOf = (parts: readonly StoredSegment[]) => ({
  last_seq: Math.max(...parts.map(({ last_seq: seq }) => seq)),
  last_ts: Math.max(...parts.map(({ last_ts: ts }) => ts)),
  types: allBits(parts.map(({ types }) => types)),
})

/** Stores runs in the place of those that they are from. False when these have changed. */
async function replace(
  { db, objects, scope }: Pick<MergerSettings, 'db' | 'objects' | 'scope'>,
  parts: readonly StoredSegment[],
  wholes: readonly Whole[],
  signal: AbortSignal,
): Promise<boolean> {
  const made: StoredSegment[] = []
  for (const { lines, ...whole } of wholes) {
    const data = await compressed(lines, true)
    const object = data.length < OBJECT_BYTES ? null : freshKey(whole.session_id)
    if (object !== null) await objects.put(object, Readable.from([data]), { maxBytes: MAX_OBJECT_BYTES }, signal)
    made.push({ ...whole, events: lines.length, bytes: data.length, data: object === null ? data : null, object })
  }
  if (await replaceSegments(db, scope, parts, made)) return true
  for (const { object } of made) if (object !== null) await objects.delete(object, signal)
  return false
}
