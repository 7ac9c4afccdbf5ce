// Events of sessions as OTLP in JSON (https://opentelemetry.io/docs/specs/otlp/): every event is a log record, and an event with a duration is a span as well.
import { createHash } from 'node:crypto'
import type { Envelope, EventType } from '../../../../agent/telemetry/contract.ts'
import { Latest } from '../../../../base/latest.ts'
import { VERSION } from '../../../../base/version.ts'
import { MOST_NAVIGATIONS, RECORD_ATTRIBUTES, RECORD_BODY, RECORD_DEPTH, RECORD_ITEMS, RECORD_LENGTH, RECORD_TEXT } from '../limits.ts'
import { toneOf } from '../shown/tone.ts'

/** Pictures: no collector wants them as text. */
const LEFT_OUT = new Set(['png'])

const SEVERITIES = {
  usual: { severityNumber: 9, severityText: 'INFO' },
  warn: { severityNumber: 13, severityText: 'WARN' },
  bad: { severityNumber: 17, severityText: 'ERROR' },
}

type Value = { stringValue: string } | { boolValue: boolean } | { intValue: string } | { doubleValue: number } | { arrayValue: { values: Value[] } }
interface Attribute {
  key: string
  value: Value
}

/** The session of the events. */
export interface Source {
  session: string
  project: string | undefined
  region: string
}

export type Encode = ReturnType<typeof makeEncoder>
/** One event, ready to be sent: its log record, and a span if it has a duration. `bytes`: size of the record's JSON. */
export type Encoded = ReturnType<Encode>
export type Span = NonNullable<Encoded['span']>

/** Makes the records of one session. Call it in the order of events: the span of a page load begins with an earlier event. */
export function makeEncoder({ session }: Pick<Source, 'session'>) {
  const traceId = hash(session, 32)
  const spans = makeSpans()
  return ({ seq, event }: Envelope) => {
    const { type, category, ts, source, data = {}, truncated } = event
    const { attributes, dropped } = attributesOf([
      ['cob.event.category', category],
      ['cob.event.seq', seq],
      ['cob.event.source', source.kind],
      ['cob.event.source.event', source.event],
      ['cob.event.truncated', truncated || undefined],
      ['cob.event.source.metadata', source.metadata],
      ['cob.event.data', data],
    ])
    const timed = spans(seq, type, ts, data)
    const spanId = hash(`${session} ${seq}`, 16)
    const record = {
      timeUnixNano: nanos(ts),
      observedTimeUnixNano: nanos(ts),
      ...SEVERITIES[toneOf(type, data) ?? 'usual'],
      eventName: `cob.${type}`,
      body: { stringValue: bodyOf(type, data) },
      attributes,
      droppedAttributesCount: dropped,
      traceId,
      ...(timed && { spanId }),
    }
    const span = timed && {
      traceId,
      spanId,
      name: timed.name,
      kind: timed.isServer ? 2 : 1,
      startTimeUnixNano: nanos(timed.from),
      endTimeUnixNano: nanos(ts),
      attributes,
      status: timed.hasFailed ? { code: 2 } : {},
    }
    return { seq, record, span, bytes: Buffer.byteLength(JSON.stringify(record)) }
  }
}

const SCOPE = { name: 'cob.telemetry', version: VERSION }

function resource({ session, project, region }: Source): { attributes: Attribute[] } {
  const { attributes } = attributesOf([
    ['service.name', 'cob'],
    ['service.version', VERSION],
    ['service.instance.id', session],
    ['session.id', session],
    ['cob.project.id', project],
    ['cob.region', region],
  ])
  return { attributes }
}

/** The bodies of requests. */
export const logsOf = (source: Source, logRecords: Encoded['record'][]): object => ({
  resourceLogs: [{ resource: resource(source), scopeLogs: [{ scope: SCOPE, logRecords }] }],
})
export const tracesOf = (source: Source, spans: Span[]): object => ({
  resourceSpans: [{ resource: resource(source), scopeSpans: [{ scope: SCOPE, spans }] }],
})

/** A hash that is the same for the same event, so that a collector can detect duplicates. */
const hash = (text: string, digits: number): string => createHash('sha256').update(text).digest('hex').slice(0, digits)

const nanos = (micros: number): string => `${Math.max(0, Math.round(micros))}000`

/** A text for people. */
function bodyOf(type: EventType, data: Record<string, unknown>): string {
  const said = ['text', 'error_text', 'message', 'reason', 'operation_id', 'method', 'status', 'url', 'selector', 'process_name', 'service_name'].flatMap(
    (name) => (typeof data[name] === 'string' || typeof data[name] === 'number' ? [String(data[name])] : []),
  )
  return cut([type, ...said].join(' '), RECORD_BODY)
}

const cut = (text: string, most: number): string => text.slice(0, most).toWellFormed()

/** The attributes of values. Fields of objects get names with dots. */
function attributesOf(named: readonly (readonly [string, unknown])[]): { attributes: Attribute[]; dropped: number } {
  const attributes: Attribute[] = []
  // Names from pages may collide, such as "a.b" and "b" in "a"; a collector may accept each name only once.
  const keys = new Set<string>()
  let [dropped, left] = [0, RECORD_LENGTH]
  const add = (key: string, value: unknown, depth: number): void => {
    if (value === undefined || value === null) return
    if (typeof value === 'object' && !Array.isArray(value) && depth < RECORD_DEPTH) {
      for (const [name, inner] of Object.entries(value)) {
        if (LEFT_OUT.has(name)) dropped++
        else add(`${key}.${cut(name, 128)}`, inner, depth + 1)
      }
      return
    }
    const made = valueOf(value)
    const size = key.length + sizeOf(made)
    if (attributes.length >= RECORD_ATTRIBUTES || size > left || keys.has(key)) {
      dropped++
      return
    }
    left -= size
    keys.add(key)
    attributes.push({ key, value: made })
  }
  for (const [key, value] of named) add(key, value, 0)
  return { attributes, dropped }
}

function valueOf(value: unknown): Value {
  if (typeof value === 'string') return { stringValue: cut(value, RECORD_TEXT) }
  if (typeof value === 'boolean') return { boolValue: value }
  if (typeof value === 'number') return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value }
  if (Array.isArray(value) && value.every((item) => ['string', 'number', 'boolean'].includes(typeof item)))
    return { arrayValue: { values: value.slice(0, RECORD_ITEMS).map((item) => valueOf(typeof item === 'string' ? cut(item, RECORD_BODY) : item)) } }
  return { stringValue: cut(jsonOf(value), RECORD_TEXT) }
}

/** JSON of any value. Parsing works at any depth, but serializing may overflow the stack. */
function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value)
  } catch {
    return '(nested too deeply)'
  }
}

const sizeOf = (value: Value): number =>
  'stringValue' in value ? value.stringValue.length : 'arrayValue' in value ? value.arrayValue.values.reduce((sum, item) => sum + sizeOf(item), 0) : 8

/** An event with a duration: its start, in microseconds. */
interface Timed {
  name: string
  from: number
  isServer: boolean
  hasFailed: boolean
}

/** Events at the end of something, with its duration. */
const LASTED: Partial<Record<EventType, string>> = {
  cdp_disconnect: 'cdp connection',
  live_view_disconnect: 'live view',
  captcha_solve_result: 'captcha',
}

/** A name from an event: the value may have any type, also one that cannot become a text. */
const nameOf = (value: unknown): string => (typeof value === 'string' ? cut(value, 256) : '')

function makeSpans(): (seq: number, type: EventType, ts: number, data: Record<string, unknown>) => Timed | undefined {
  /** Start of each navigation, by frame and document, and the event of its load. The event is kept because a span is made again when it could not be sent. */
  const navigations = new Latest<string, { from: number; load?: number }>(MOST_NAVIGATIONS)
  return (seq, type, ts, data) => {
    const of = `${nameOf(data.frame_id)} ${nameOf(data.loader_id)}`
    if (type === 'page_navigation') {
      navigations.set(of, { from: ts })
      return undefined
    }
    if (type === 'page_load') {
      const navigation = navigations.get(of)
      // A document that is written again (document.open) loads twice.
      if (!navigation || (navigation.load ??= seq) !== seq) return undefined
      return { name: 'page load', from: navigation.from, isServer: false, hasFailed: false }
    }
    const { duration_ms: ms, status, operation_id: operation } = data
    if (typeof ms !== 'number' || !(ms >= 0)) return undefined
    const isCall = type === 'api_call' || type === 'platform_api_call'
    const name = isCall ? nameOf(operation) : LASTED[type]
    if (!name) return undefined
    return { name, from: ts - ms * 1000, isServer: isCall, hasFailed: typeof status === 'number' && status >= 500 }
  }
}
