// Merges the many small runs of a session into few large ones. A large one becomes an object.
import { setInterval } from 'node:timers/promises'
import { Readable } from 'node:stream'
import type { Envelope } from '../../../agent/telemetry/contract.ts'
import type { Log } from '../../../base/log.ts'
import { MANY_RUNS, MAX_OBJECT_BYTES, MERGE_FAILED_MS, MERGE_MS, MERGE_RUNS_AT_ONCE, MERGE_SESSIONS_AT_ONCE, MERGED_BYTES, OBJECT_BYTES } from './limits.ts'
import type { Archive } from './read.ts'
import { freshKey, freshSegments, isIn, mergeable, passingTimes, replaceSegments, type Passing, type StoredSegment } from './rows.ts'
import { allBits, compressed, unpack } from './segments.ts'

interface MergerSettings extends Archive {
  scope: string
  /** Whether this replica merges. */
  isOurs: () => boolean
  log: Log
}

/** Merges the runs of ended sessions, and of live sessions with many runs, until disposed. Disposing it waits for the merge under way. */
export function keepMerging(settings: MergerSettings): AsyncDisposable {
  const { db, scope, isOurs, log } = settings
  const stop = new AbortController()
  const { signal } = stop
  /** Sessions that could not be merged, and the time of their next attempt: they must not block others. */
  const failed = new Map<string, number>()
  async function round(): Promise<void> {
    for (const [id, until] of failed) if (until < performance.now()) failed.delete(id)
    for (const done = new Set<string>(); isOurs();) {
      const ids = await mergeable(db, scope, MANY_RUNS, [...failed.keys(), ...done], MERGE_SESSIONS_AT_ONCE)
      for (const id of ids) {
        done.add(id)
        try {
          await mergeSession(settings, id, signal)
        } catch (err) {
          signal.throwIfAborted()
          log.error({ err, browser: id }, 'the telemetry of a session could not be merged; it is tried again')
          failed.set(id, performance.now() + MERGE_FAILED_MS)
        }
      }
      if (ids.length < MERGE_SESSIONS_AT_ONCE) return
    }
  }
  const run = async () => {
    for await (const _ of setInterval(MERGE_MS, undefined, { signal }))
      await round().catch((err: unknown) => signal.aborted || log.warn({ err }, 'looking for telemetry to merge failed'))
  }
  const running = run().catch(() => {}) // ends only by its signal
  return {
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      await running
    },
  }
}

/** Merges the fresh runs of a session. Events that are stored only until they are exported go into separate runs, because these are removed. */
export async function mergeSession(settings: Pick<MergerSettings, 'db' | 'objects' | 'scope'>, sessionId: string, signal: AbortSignal): Promise<void> {
  const passing = await passingTimes(settings.db, sessionId)
  let parts: StoredSegment[] = []
  let wholes: Whole[] = []
  let bytes = 0
  let last = 0
  const write = async () => {
    const isDone = parts.length === 0 || (await replace(settings, parts, wholes, signal))
    ;[parts, wholes, bytes] = [[], [], 0]
    return isDone
  }
  for (let from = 0; ;) {
    signal.throwIfAborted()
    const runs = await freshSegments(settings.db, sessionId, from, MERGE_RUNS_AT_ONCE)
    for (const { data, ...run } of runs) {
      // Runs of two replicas may overlap.
      const lines = (await unpack(data!)).filter(({ seq }) => seq > last)
      last = Math.max(last, run.last_seq)
      const more = lines.reduce((sum, { json }) => sum + Buffer.byteLength(json) + 1, 0)
      // Stop: another replica is merging these runs, or they were deleted.
      if (bytes + more > MERGED_BYTES && !(await write())) return
      parts.push({ ...run, data: null })
      bytes += more
      for (const piece of piecesOf(run, lines, passing)) {
        const whole = wholes.at(-1)
        if (whole?.times !== piece.times) wholes.push(piece)
        else {
          whole.lines.push(...piece.lines)
          whole.last_seq = Math.max(whole.last_seq, piece.last_seq)
          whole.last_ts = Math.max(whole.last_ts, piece.last_ts)
          whole.types = allBits([whole.types, piece.types])
        }
      }
    }
    if (runs.length < MERGE_RUNS_AT_ONCE) break
    from = runs.at(-1)!.first_seq + 1
  }
  await write()
}

/** A run to store, with these lines. `times`: the ids of the passing times in which its events lie. */
type Whole = Omit<StoredSegment, 'bytes' | 'data' | 'object' | 'events'> & { lines: string[]; times: string }

const timesAt = (ts: number, passing: readonly Passing[]): string =>
  passing
    .filter((time) => isIn(ts, time))
    .map(({ id }) => id)
    .join()

/** Cuts a run where passing times begin and end. */
function piecesOf(run: Omit<StoredSegment, 'data'>, lines: readonly { seq: number; json: string }[], passing: readonly Passing[]): Whole[] {
  const { session_id, first_seq, last_seq, first_ts: first, last_ts, types } = run
  const whole = { session_id, first_seq, last_seq, first_ts: first, last_ts, types }
  if (lines.length === 0) return []
  if (!passing.some(({ from_ts: from, until_ts: until }) => (from > first && from <= last_ts) || (until !== null && until > first && until <= last_ts)))
    return [{ ...whole, times: timesAt(first, passing), lines: lines.map(({ json }) => json) }]
  const made: Whole[] = []
  for (const { seq, json } of lines) {
    const { ts } = (JSON.parse(json) as Envelope).event
    const times = timesAt(ts, passing)
    if (made.at(-1)?.times !== times) made.push({ ...whole, first_seq: seq, first_ts: ts, times, lines: [] })
    const piece = made.at(-1)!
    piece.lines.push(json)
    ;[piece.last_seq, piece.last_ts] = [seq, ts]
  }
  return made
}

/** Stores merged runs in place of their parts. False when the parts have changed. */
async function replace(
  { db, objects, scope }: Pick<MergerSettings, 'db' | 'objects' | 'scope'>,
  parts: readonly StoredSegment[],
  wholes: readonly Whole[],
  signal: AbortSignal,
): Promise<boolean> {
  const made: StoredSegment[] = []
  for (const { lines, times: _, ...whole } of wholes) {
    const data = await compressed(lines, true)
    const object = data.length < OBJECT_BYTES ? null : freshKey(whole.session_id)
    if (object !== null) await objects.put(object, Readable.from([data]), { maxBytes: MAX_OBJECT_BYTES }, signal)
    made.push({ ...whole, events: lines.length, bytes: data.length, data: object === null ? data : null, object })
  }
  if (await replaceSegments(db, scope, parts, made)) return true
  for (const { object } of made) if (object !== null) await objects.delete(object, signal)
  return false
}
