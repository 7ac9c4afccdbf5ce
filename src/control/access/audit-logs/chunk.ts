// One chunk of an export: entries as lines of JSON, up to a number of rows and bytes, optionally compressed. It is made completely in memory, because its hash
// is sent before it.
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { PassThrough } from 'node:stream'
import type { Db } from '../../../store/db.ts'
import { positionOf, type AuditLogEntry, type Export, type Position } from './contract.ts'
import { findEntries } from './rows.ts'

/** A chunk ends early when its lines have this many bytes. */
const CHUNK_BYTES = 16 * 1024 * 1024
/** Rows that are read and turned into lines at a time; between two batches, the service handles other requests. */
const SLICE_ROWS = 500

export interface Chunk {
  body: Buffer
  rows: number
  /** The position where the next chunk begins; undefined after the last one. */
  next: string | undefined
}

/** Makes a chunk of the entries of a project (undefined: of all). */
export async function makeChunk(db: Db, project: string | undefined, { cursor, format, limit, ...filter }: Export, signal: AbortSignal): Promise<Chunk> {
  const reached: Omit<Chunk, 'body'> = { rows: 0, next: undefined }
  const read = (position: Position | undefined, most: number) => findEntries(db, project, filter, position, most)
  const packed = format === 'jsonl.gz' ? createGzip() : new PassThrough()
  const whole = buffer(packed)
  whole.catch(() => {}) // the pipeline rejects as well
  await pipeline(lines(read, cursor, limit, reached, signal), packed, { signal })
  return { body: await whole, ...reached }
}

/** Lines of entries, batch by batch, until `limit` or {@link CHUNK_BYTES}. Records in `reached` how many there were, and where older entries begin. */
async function* lines(
  read: (position: Position | undefined, most: number) => Promise<AuditLogEntry[]>,
  from: Position | undefined,
  limit: number,
  reached: Omit<Chunk, 'body'>,
  signal: AbortSignal,
): AsyncGenerator<string> {
  let [bytes, position] = [0, from]
  for (;;) {
    signal.throwIfAborted()
    const wanted = Math.min(SLICE_ROWS, limit - reached.rows)
    const found = await read(position, wanted + 1)
    const slice = found.slice(0, wanted)
    const text = slice.map((entry) => `${JSON.stringify(entry)}\n`).join('')
    reached.rows += slice.length
    bytes += Buffer.byteLength(text)
    yield text
    const last = found.length > wanted ? slice.at(-1) : undefined
    if (!last) return
    if (reached.rows === limit || bytes >= CHUNK_BYTES) {
      reached.next = positionOf(last)
      return
    }
    position = { at: new Date(last.timestamp), eventId: last.event_id }
  }
}
