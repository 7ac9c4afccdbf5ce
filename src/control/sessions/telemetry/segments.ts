// Runs of events as they are kept: JSON lines, compressed.
import { promisify } from 'node:util'
import { constants, zstdCompress, zstdDecompress } from 'node:zlib'
import { TYPES, type Category, type Envelope, type EventType } from '../../../agent/telemetry/contract.ts'

/** A run of this many bytes, before they are compressed, is stored by itself. */
export const SEGMENT_BYTES = 256 * 1024
/** The same for one that is merged of several. A reader has one of them in memory. */
export const MERGED_BYTES = 2 * 1024 * 1024
/** Limit on what a stored run may become in memory: the last event of one may be a long one. */
const MAX_RAW = 8 * 1024 * 1024
/** What is written for good is compressed more; that takes 25 ms for a merged run. */
const [FAST, SMALL] = [3, 9]

/**
 * The bit of each type in the column `types`, by which runs are passed over that have nothing of what is looked for. A number never changes and is never used
 * again.
 */
const BITS: Record<EventType, number> = {
  console_log: 0,
  console_error: 1,
  network_request: 2,
  network_response: 3,
  network_loading_failed: 4,
  network_idle: 5,
  proxy_error: 6,
  page_navigation: 7,
  page_dom_content_loaded: 8,
  page_load: 9,
  page_tab_opened: 10,
  page_layout_shift: 11,
  page_lcp: 12,
  page_layout_settled: 13,
  page_navigation_settled: 14,
  page_crashed: 15,
  interaction_click: 16,
  interaction_key: 17,
  interaction_scroll_settled: 18,
  monitor_screenshot: 19,
  api_call: 20,
  cdp_command: 21,
  platform_api_call: 22,
  cdp_connect: 23,
  cdp_disconnect: 24,
  live_view_connect: 25,
  live_view_disconnect: 26,
  captcha_solve_started: 27,
  captcha_solve_result: 28,
  captcha_challenge_result: 29,
  system_oom_kill: 30,
  service_crashed: 31,
  monitor_disconnected: 32,
  monitor_reconnected: 33,
  monitor_reconnect_failed: 34,
  monitor_init_failed: 35,
  monitor_events_lost: 36,
}

/** The bits of types together. There are more than 32, so no operator of integers serves. */
export const bitsOf = (types: Iterable<EventType>): number => [...new Set(types)].reduce((sum, type) => sum + 2 ** BITS[type], 0)

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
  compress(lines.map((json) => `${json}\n`).join(''), { params: { [constants.ZSTD_c_compressionLevel]: isFinal ? SMALL : FAST } })

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
  const text = (await decompress(data, { maxOutputLength: MAX_RAW })).toString()
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
