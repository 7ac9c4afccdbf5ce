// Runs of events as they are kept: JSON lines, compressed.
import { promisify } from 'node:util'
import { constants, zstdCompress, zstdDecompress } from 'node:zlib'
import { EVENT_TYPES, TYPES, type Category, type Envelope, type EventType } from '../../../agent/telemetry/contract.ts'
import { FAST_LEVEL, MAX_RUN_BYTES, SMALL_LEVEL } from './limits.ts'

/** The bit of each type in the column `types`, by which runs are passed over that have nothing of what is looked for: its place in the contract. */
const BITS = new Map(EVENT_TYPES.map((type, bit) => [type, bit]))

/** The bits of types together. There are more than 32, so no operator of integers serves. */
export const bitsOf = (types: Iterable<EventType>): number => [...new Set(types)].reduce((sum, type) => sum + 2 ** BITS.get(type)!, 0)

/** What is in any of several. */
export const allBits = (all: readonly number[]): number => Number(all.reduce((sum, bits) => sum | BigInt(bits), 0n))

/** The types that match: of one of the categories and one of the names, where these are given. */
export function typesOf(categories: readonly string[] = [], names: readonly string[] = []): Set<EventType> | undefined {
  if (categories.length === 0 && names.length === 0) return undefined
  const matches = ([type, category]: [string, Category]) =>
    (categories.length === 0 || categories.includes(category)) && (names.length === 0 || names.includes(type))
  return new Set(
    Object.entries(TYPES)
      .filter(matches)
      .map(([type]) => type as EventType),
  )
}

/** An event that waits to be stored. */
export interface Line {
  seq: number
  ts: number
  type: EventType
  /** The envelope as JSON; it begins with `{"seq":`. */
  json: string
  bytes: number
}

export function lineOf({ seq, event }: Envelope): Line {
  const json = JSON.stringify({ seq, event })
  return { seq, ts: event.ts, type: event.type, json, bytes: Buffer.byteLength(json) + 1 }
}

/** A run of events as its row has it. */
export interface Segment {
  session_id: string
  first_seq: number
  last_seq: number
  first_ts: number
  last_ts: number
  events: number
  types: number
  bytes: number
  data: Buffer
}

const compress = promisify(zstdCompress)
const decompress = promisify(zstdDecompress)

/** Lines as bytes. `isFinal`: they are not going to be merged with others. */
export const compressed = (lines: readonly string[], isFinal: boolean): Promise<Buffer> =>
  compress(lines.map((json) => `${json}\n`).join(''), { params: { [constants.ZSTD_c_compressionLevel]: isFinal ? SMALL_LEVEL : FAST_LEVEL } })

/** Makes a run of lines, of which there is at least one. */
export async function pack(sessionId: string, lines: readonly Line[]): Promise<Segment> {
  const [first, last] = [lines[0]!, lines.at(-1)!]
  const data = await compressed(
    lines.map(({ json }) => json),
    false,
  )
  return {
    session_id: sessionId,
    first_seq: first.seq,
    last_seq: last.seq,
    first_ts: first.ts,
    last_ts: last.ts,
    events: lines.length,
    types: bitsOf(lines.map(({ type }) => type)),
    bytes: data.length,
    data,
  }
}

/** The lines of a run, each with its number. */
export async function unpack(data: Buffer): Promise<{ seq: number; json: string }[]> {
  const text = (await decompress(data, { maxOutputLength: MAX_RUN_BYTES })).toString()
  return text
    .split('\n')
    .filter(Boolean)
    .map((json) => ({ seq: seqOf(json), json }))
}

const PREFIX = '{"seq":'

/** Without parsing the whole event: most readers want few of a run. */
function seqOf(json: string): number {
  const seq = Number(json.slice(PREFIX.length, json.indexOf(',', PREFIX.length)))
  if (!json.startsWith(PREFIX) || !Number.isSafeInteger(seq)) throw new Error(`a stored event has no number: ${json.slice(0, 100)}`)
  return seq
}

/** Cuts lines into runs. */
export function cut(lines: readonly Line[], maxBytes: number): Line[][] {
  const runs: Line[][] = []
  let bytes = Infinity
  for (const line of lines) {
    if (bytes + line.bytes > maxBytes) {
      runs.push([])
      bytes = 0
    }
    runs.at(-1)!.push(line)
    bytes += line.bytes
  }
  return runs
}
