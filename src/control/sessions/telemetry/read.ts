// Reads a session's stored telemetry, run by run, in either direction.
import { buffer } from 'node:stream/consumers'
import type { Envelope, EventType } from '../../../agent/telemetry/contract.ts'
import type { Db } from '../../../store/db.ts'
import type { Objects } from '../../../store/objects.ts'
import { READ_RUNS_AT_ONCE } from './limits.ts'
import { isIn, isStored, nextSegments, passingTimes, type StoredSegment, type Window } from './rows.ts'
import { bitsOf, unpack } from './segments.ts'

export interface Archive {
  db: Db
  objects: Objects
}

export type EventWindow = Omit<Window, 'types'> & { types?: ReadonlySet<EventType> | undefined }

/** The bytes of a run; undefined when they were deleted meanwhile. */
export async function bytesOf({ db, objects }: Archive, run: StoredSegment, signal: AbortSignal): Promise<Buffer | undefined> {
  if (run.data) return run.data
  const found = run.object === null ? undefined : await objects.get(run.object, undefined, signal)
  if (found) return buffer(found.content)
  if (run.object !== null && (await isStored(db, run))) throw new Error(`the object ${run.object} of telemetry is gone`)
  return undefined
}

/**
 * The stored events of a window in the order of their numbers, forwards or backwards. Only events that are stored for callers, unless `isKept` is false. Keeps
 * one run in memory at a time.
 */
export async function* readEvents(...args: Parameters<typeof readLines>): AsyncGenerator<Envelope> {
  for await (const { envelope } of readLines(...args)) yield envelope
}

/** The same, each with the length of its JSON. */
export async function* readLines(
  archive: Archive,
  sessionId: string,
  window: EventWindow,
  isForwards: boolean,
  signal: AbortSignal,
): AsyncGenerator<{ envelope: Envelope; length: number }> {
  const { since = 0, until = Infinity, types } = window
  if (types?.size === 0) return
  let { after = 0, before = Infinity } = window
  for (;;) {
    signal.throwIfAborted()
    const where = { ...window, isKept: window.isKept ?? true, after, ...(before < Infinity && { before }), types: types && bitsOf(types) }
    const runs = await nextSegments(archive.db, sessionId, where, isForwards, READ_RUNS_AT_ONCE)
    if (runs.length === 0) return
    // Read these after the runs: a passing time is recorded before its first event arrives.
    const passing = where.isKept ? await passingTimes(archive.db, sessionId) : []
    for (const run of runs) {
      const bytes = await bytesOf(archive, run, signal)
      const lines = bytes ? await unpack(bytes) : []
      for (const { seq, json } of isForwards ? lines : lines.reverse()) {
        if (seq <= after || seq >= before) continue
        const found = JSON.parse(json) as Envelope
        if (found.event.ts < since || found.event.ts >= until || (types && !types.has(found.event.type))) continue
        if (passing.some((time) => isIn(found.event.ts, time))) continue
        yield { envelope: found, length: json.length }
      }
      if (isForwards) after = Math.max(after, run.last_seq)
      else before = Math.min(before, run.first_seq)
    }
  }
}
