// Runs of events in their stored form: JSON lines, compressed.
import { promisify } from 'node:util'
import { constants, zstdCompress, zstdDecompress } from 'node:zlib'
import { EVENT_TYPES, TYPES, type Category, type Envelope, type EventType } from '../../../agent/telemetry/contract.ts'
import { FAST_LEVEL, MAX_RUN_BYTES, SMALL_LEVEL } from './limits.ts'

/** The bit of each event type in the column `types`: its position in the contract. Readers skip runs without a bit that they look for. */
const BITS = new Map(EVENT_TYPES.map((type, bit) => [type, bit]))

/** The bits of several types together. There are more than 32 bits, so bitwise operators cannot be used. */
export const bitsOf = (types: Iterable<EventType>): number => [...new Set(types)].reduce((sum, type) => sum + 2 ** BITS.get(type)!, 0)

/** The union of several bit sets. */
export const allBits = (all: readonly number[]): number => Number(all.reduce((sum, bits) => sum | BigInt(bits), 0n))

/** The event types of these categories and with these names, where given. */
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

/** Lines as compressed bytes. `isFinal`: they will not be merged again. */
export const compressed = (lines: readonly string[], isFinal: boolean): Promise<Buffer> =>
  compress(lines.map((json) => `${json}\n`).join(''), { params: { [constants.ZSTD_c_compressionLevel]: isFinal ? SMALL_LEVEL : FAST_LEVEL } })

/** Packs lines, at least one, into a run. */
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

/** Reads the number without parsing the whole event: most readers need few events of a run. */
function seqOf(json: string): number {
  const seq = Number(json.slice(PREFIX.length, json.indexOf(',', PREFIX.length)))
  if (!json.startsWith(PREFIX) || !Number.isSafeInteger(seq)) throw new Error(`a stored event has no number: ${json.slice(0, 100)}`)
  return seq
}

/** Groups of at most `maxBytes`, in order. A larger item is alone in its group. */
export function grouped<T>(all: readonly T[], bytesOf: (one: T) => number, maxBytes: number): T[][] {
  const groups: T[][] = []
  let bytes = Infinity
  for (const one of all) {
    const more = bytesOf(one)
    if (bytes + more > maxBytes) {
      groups.push([])
      bytes = 0
    }
    groups.at(-1)!.push(one)
    bytes += more
  }
  return groups
}
