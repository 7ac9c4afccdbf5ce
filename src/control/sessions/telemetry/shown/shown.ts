// Makes the lines and details of events for pages. An event's content comes from a session, so it may have any form, and every text has a limit.
import type { Envelope, TelemetryEvent } from '../../../../agent/telemetry/contract.ts'
import { isWithin } from '../follow.ts'
import { SHOWN_BLOCKS, SHOWN_DEPTH, SHOWN_FACTS, SHOWN_ROWS, SHOWN_SIDE } from '../limits.ts'
import { brief } from './brief.ts'
import { MAX_BLOCK, MAX_NOTE, MAX_TEXT, MAX_VALUE, type EventDetails, type EventLine, type EventsShown } from './contract.ts'
import { toneOf } from './tone.ts'

type Shown = Exclude<EventsShown, 'none'>
type Data = Record<string, unknown>
type Said = Pick<EventLine, 'text' | 'note'>

/** Fields with internal names of Chromium, which do not help a reader of the list. */
const INNER = [
  'target_id',
  'session_id',
  'frame_id',
  'loader_id',
  'parent_frame_id',
  'source_frame_id',
  'opener_id',
  'node_id',
  'cdp_timestamp',
  'connection_id',
]
/** Titles of fields that get their own block. */
const BLOCKS: Record<string, string> = { body: 'Body', post_data: 'Post data', headers: 'Headers', stack_trace: 'Stack', args: 'Arguments', text: 'Text' }
/** These get one however short they are. */
const ALWAYS_BLOCKS = ['body', 'post_data']
/** The start of every PNG with a header, in base64. */
const PNG = /^iVBORw0KGgoAAAANSUhEUg[A-Za-z0-9+/]{10,}={0,2}$/

/** A PNG, with sides that screens have. */
function isPicture(png: unknown): png is string {
  if (typeof png !== 'string' || !PNG.test(png)) return false
  const header = Buffer.from(png.slice(0, 32), 'base64')
  return [header.readUInt32BE(16), header.readUInt32BE(20)].every((side) => side > 0 && side <= SHOWN_SIDE)
}

const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined

/** Control characters, and characters that change the direction of writing: with them, a text can look like another one. */
const UNSEEN = /[^\P{Cc}\t\n]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/gu
const printable = (text: string): string => text.replaceAll(UNSEEN, '\ufffd')
/** Cut to `length` characters, not between the halves of a surrogate pair. */
export const cut = (text: string, length: number): string => (text.length <= length ? text : `${text.slice(0, length - 1).replace(/[\ud800-\udbff]$/, '')}…`)
const line = (text: string, length: number): string =>
  cut(
    printable(
      text
        .slice(0, 4 * length)
        .replaceAll(/\s+/g, ' ')
        .trim(),
    ),
    length,
  )

const milliseconds = (value: unknown): string | undefined =>
  typeof value !== 'number' || !(value >= 0) ? undefined : value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`

/** An address in a short form for lines: nearly all addresses have the same beginning. */
const address = (url: unknown): string => (textOf(url) ?? '').replace(/^https?:\/\/(www\.)?/, '')

const at = (x: unknown, y: unknown): string => (typeof x === 'number' && typeof y === 'number' ? `at ${x}, ${y}` : '')

/** The line of each type of event. A type that is not here is shown by its name. */
const SAYS: Partial<Record<TelemetryEvent['type'], (data: Data, event: TelemetryEvent) => Said>> = {
  console_log: ({ text, args, level }) => ({
    text: textOf(text) ?? (Array.isArray(args) ? args.slice(0, 20).map(textOf).join(' ') : ''),
    ...(typeof level === 'string' && !['warning', 'warn', 'log'].includes(level) && { note: level }),
  }),
  console_error: ({ text }) => ({ text: textOf(text) ?? '' }),
  network_request: ({ method, url, resource_type: kind }) => ({ text: `${textOf(method) ?? 'GET'} ${address(url)}`, note: textOf(kind) ?? '' }),
  network_response: ({ method, url, status, mime_type: mime, resource_type: kind }) => ({
    text: `${textOf(status) ?? '–'} ${textOf(method) ?? 'GET'} ${address(url)}`,
    note: textOf(mime) || textOf(kind) || '',
  }),
  network_loading_failed: ({ url, error_text: error, canceled }) => ({
    text: `${canceled === true ? 'Canceled' : 'Failed'} ${address(url)}`,
    note: textOf(error) ?? '',
  }),
  network_idle: () => ({ text: 'The network is quiet' }),
  proxy_error: ({ url, code, status }) => ({ text: `The proxy failed for ${address(url)}`, note: textOf(code) ?? textOf(status) ?? '' }),
  page_navigation: ({ url }) => ({ text: `Went to ${address(url)}` }),
  page_dom_content_loaded: ({ url }) => ({ text: 'The document was read', note: address(url) }),
  page_load: ({ url }) => ({ text: 'The page was loaded', note: address(url) }),
  page_tab_opened: ({ url, title }) => ({ text: `Opened a tab ${textOf(title) || address(url)}`, note: address(url) }),
  page_layout_shift: () => ({ text: 'The layout shifted' }),
  page_lcp: () => ({ text: 'The largest element was painted' }),
  page_layout_settled: () => ({ text: 'The layout settled' }),
  page_navigation_settled: ({ url }) => ({ text: 'The page is ready', note: address(url) }),
  page_crashed: ({ url }) => ({ text: `The page crashed ${address(url)}` }),
  interaction_click: ({ text, selector, tag, x, y }) => ({
    text: `Click ${textOf(text) || textOf(selector) || textOf(tag) || ''}`,
    note: at(x, y),
  }),
  interaction_key: ({ key, selector, tag }) => ({ text: `Key ${textOf(key) ?? ''}`, note: textOf(selector) || textOf(tag) || '' }),
  interaction_scroll_settled: ({ to_x: x, to_y: y }) => ({ text: 'Scrolled', note: typeof y === 'number' ? `to ${textOf(x) ?? 0}, ${y}` : '' }),
  monitor_screenshot: () => ({ text: 'Screenshot' }),
  api_call: called,
  platform_api_call: called,
  cdp_command: ({ method, event_type: type, x, y, named_key: key }) => ({
    text: `CDP ${textOf(method) ?? ''}`,
    note: [textOf(type), textOf(key) ?? at(x, y)].filter(Boolean).join(' '),
  }),
  cdp_connect: () => ({ text: 'A CDP client connected' }),
  cdp_disconnect: ({ reason, duration_ms: took }) => ({
    text: `A CDP client left${reason === 'client_close' ? '' : `: ${textOf(reason) ?? ''}`}`,
    note: milliseconds(took) ?? '',
  }),
  live_view_connect: () => ({ text: 'A viewer came' }),
  live_view_disconnect: ({ duration_ms: took }) => ({ text: 'A viewer left', note: milliseconds(took) ?? '' }),
  captcha_solve_result: ({ captcha_type: kind, status, duration_ms: took }) => ({
    text: `Captcha ${textOf(kind) ?? ''}: ${textOf(status) ?? ''}`,
    note: milliseconds(took) ?? '',
  }),
  system_oom_kill: ({ process_name: name, rss_kb: size }) => ({
    text: `Out of memory: ${textOf(name) ?? 'a process'} was killed`,
    note: typeof size === 'number' ? `${Math.round(size / 1024)} MB` : '',
  }),
  service_crashed: ({ service_name: name, phase }) => ({ text: `${textOf(name) ?? 'A service'} crashed`, note: textOf(phase) ?? '' }),
  monitor_disconnected: () => ({ text: 'Events of pages stopped: Chromium restarts' }),
  monitor_reconnected: () => ({ text: 'Events of pages go on' }),
  monitor_reconnect_failed: () => ({ text: 'Events of pages did not go on' }),
  monitor_init_failed: ({ step }) => ({ text: 'Events of a page could not be captured', note: textOf(step) ?? '' }),
  monitor_events_lost: ({ count, reason }) => ({
    text: `${textOf(count) ?? 'Some'} events were lost`,
    note: (textOf(reason) ?? '').replaceAll('_', ' '),
  }),
}

function called({ operation_id: operation, status, duration_ms: took }: Data): Said {
  const code = typeof status === 'number' ? status : undefined
  return {
    text: textOf(operation) ?? 'A call',
    note: [code === undefined ? undefined : String(code), milliseconds(took)].filter(Boolean).join(' · '),
  }
}

/** The event as a link with this right may show it. */
const seen = (event: TelemetryEvent, shown: Shown, length?: number): TelemetryEvent => (shown === 'full' ? event : brief(event, length))

/** An event's line in the list. */
export function lineOf({ seq, event: whole }: Envelope, shown: Shown): EventLine {
  const event = seen(whole, shown, 4 * MAX_TEXT)
  const { type, category, ts, data = {} } = event
  const { text, note } = SAYS[type]?.(data, event) ?? { text: type.replaceAll('_', ' ') }
  const tone = toneOf(type, data)
  const short = line(note ?? '', MAX_NOTE)
  return { seq, ts, type, category, text: line(text, MAX_TEXT) || type.replaceAll('_', ' '), ...(short && { note: short }), ...(tone && { tone }) }
}

/** The details of an event. */
export function detailsOf({ seq, event: whole }: Envelope, shown: Shown): EventDetails {
  const { type, data = {}, source, truncated } = seen(whole, shown)
  const facts: [string, string][] = [
    ['type', type],
    ['number', String(seq)],
  ]
  const blocks: [string, string][] = []
  const { png, ...rest } = data
  for (const [name, value] of Object.entries(rest)) {
    if (INNER.includes(name) || value === undefined || value === null) continue
    const text = textOf(value)
    const isShort = text !== undefined && !ALWAYS_BLOCKS.includes(name) && text.length <= (Object.hasOwn(BLOCKS, name) ? MAX_NOTE : MAX_VALUE)
    if (isShort && facts.length < SHOWN_FACTS) facts.push([line(name, MAX_NOTE), cut(printable(text), MAX_VALUE)])
    else if (blocks.length < SHOWN_BLOCKS)
      blocks.push([(Object.hasOwn(BLOCKS, name) ? BLOCKS[name]! : undefined) ?? line(name, MAX_NOTE), cut(printable(text ?? written(value)), MAX_BLOCK)])
  }
  if (source.event) facts.push(['source', line(source.event, MAX_NOTE)])
  if (truncated) facts.push(['shortened', 'what was too long was left out'])
  return { facts, blocks, ...(isPicture(png) && { png }), isBrief: shown === 'brief' }
}

/** A list or an object as text: headers one a line, everything else as JSON. */
function written(value: unknown): string {
  if (Array.isArray(value) && value.every((one) => typeof one === 'string')) return value.slice(0, SHOWN_ROWS).join('\n')
  const rows = Object.entries(value as object)
  const isFlat = !Array.isArray(value) && rows.every(([, one]) => textOf(one) !== undefined)
  const flat = () => rows.slice(0, SHOWN_ROWS).map(([name, one]) => `${name}: ${textOf(one)!}`)
  if (isFlat) return flat().join('\n')
  // Deep values become long by indentation, and may be too deep to be serialized.
  return isWithin(value, SHOWN_DEPTH) ? JSON.stringify(value, undefined, 2) : '(nested too deeply to be shown)'
}
