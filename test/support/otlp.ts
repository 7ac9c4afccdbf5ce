// A collector for tests: accepts OTLP over HTTP as JSON, checks the form of every request, and stores what it accepted.
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'

type Json = Record<string, unknown>

export interface TakenRecord {
  /** The id of the session. */
  session: string
  resource: Json
  attributes: Json
  record: Json
}
export interface Taken {
  path: string
  headers: IncomingHttpHeaders
  bytes: number
  records: TakenRecord[]
}

export interface Collector extends AsyncDisposable {
  readonly url: string
  /** The requests that it answered with 200. */
  readonly taken: Taken[]
  /** All requests: path and answered status. */
  readonly asked: { path: string; status: number }[]
  /** The errors in the form of requests. */
  readonly wrong: string[]
  /** What the collector does instead of accepting requests, for all paths or only for one. */
  trouble: { status?: number; headers?: Record<string, string>; body?: string; ms?: number; only?: string }
  /** The log records of a session, in order of arrival. */
  logs(session: string): TakenRecord[]
  spans(session: string): TakenRecord[]
  /** Stops listening. */
  down(): Promise<void>
  /** Listens again at the same address. */
  up(): Promise<void>
}

export async function startCollector(): Promise<Collector> {
  let server: Server | undefined
  let port = 0
  const collector: Collector = {
    get url() {
      return `http://127.0.0.1:${port}`
    },
    taken: [],
    asked: [],
    wrong: [],
    trouble: {},
    logs: (session) => of(session, '/v1/logs'),
    spans: (session) => of(session, '/v1/traces'),
    async down() {
      const running = server
      server = undefined
      running?.closeAllConnections()
      await new Promise((resolve) => (running ? running.close(resolve) : resolve(undefined)))
    },
    async up() {
      server = createServer((request, response) => {
        void (async () => {
          const { url: path = '', headers } = request
          const body = await buffer(request)
          const { status = 200, ms = 0, headers: own, body: text, only } = collector.trouble
          const isTrouble = only === undefined || path.endsWith(only)
          if (isTrouble && ms > 0) await new Promise((resolve) => setTimeout(resolve, ms))
          const answer = isTrouble ? status : 200
          collector.asked.push({ path, status: answer })
          if (answer === 200) collector.taken.push(take(path, headers, body, collector.wrong))
          response.writeHead(answer, { 'content-type': 'application/json', ...(isTrouble && own) }).end((isTrouble && text) || '{}')
        })().catch((error: unknown) => {
          collector.wrong.push(String(error))
          response.destroy()
        })
      })
      server.listen(port, '127.0.0.1')
      await once(server, 'listening')
      port = (server.address() as AddressInfo).port
    },
    [Symbol.asyncDispose]: () => collector.down(),
  }
  const of = (session: string, path: string) =>
    collector.taken.filter((one) => one.path.endsWith(path)).flatMap(({ records }) => records.filter((record) => record.session === session))
  await collector.up()
  return collector
}

function take(path: string, headers: IncomingHttpHeaders, body: Buffer, wrong: string[]): Taken {
  const check = (isRight: boolean, what: string) => {
    if (!isRight) wrong.push(`${path}: ${what}`)
  }
  check(headers['content-type'] === 'application/json' && headers['content-encoding'] === 'gzip', 'its headers')
  const json = JSON.parse(gunzipSync(body).toString()) as Json
  const isLogs = path.endsWith('/v1/logs')
  check(isLogs || path.endsWith('/v1/traces'), 'its path')
  const [top, scopes, items] = isLogs ? ['resourceLogs', 'scopeLogs', 'logRecords'] : ['resourceSpans', 'scopeSpans', 'spans']
  const only = (value: Json, names: string[], what: string) =>
    check(
      Object.keys(value).every((name) => names.includes(name)),
      `${what} has ${Object.keys(value).join()}`,
    )
  const attributesOf = (list: unknown): Json => {
    const found: Json = {}
    for (const one of list as Json[]) {
      only(one, ['key', 'value'], 'an attribute')
      check(typeof one.key === 'string' && one.key !== '' && !(one.key in found), `the key ${String(one.key)}`)
      found[String(one.key)] = valueOf(one.value as Json, check)
    }
    return found
  }
  only(json, [top!], 'the request')
  const records = (json[top!] as Json[]).flatMap((resource) => {
    only(resource, ['resource', scopes!], 'a resource')
    const whose = attributesOf((resource.resource as Json).attributes)
    check(whose['service.name'] === 'cob', 'its service.name')
    return (resource[scopes!] as Json[]).flatMap((scope) => {
      only(scope, ['scope', items!], 'a scope')
      return (scope[items!] as Json[]).map((record) => {
        ;(isLogs ? checkLog : checkSpan)(record, check, only)
        return { session: String(whose['session.id']), resource: whose, attributes: attributesOf(record.attributes), record }
      })
    })
  })
  check(records.length > 0 && records.length <= 512, `${records.length} records`)
  return { path, headers, bytes: body.length, records }
}

type Check = (isRight: boolean, what: string) => void
type Only = (value: Json, names: string[], what: string) => void
const isTime = (value: unknown) => typeof value === 'string' && /^[1-9]\d{18}$/.test(value)
const isHex = (value: unknown, digits: number) => typeof value === 'string' && new RegExp(`^[0-9a-f]{${digits}}$`).test(value)

function checkLog(record: Json, check: Check, only: Only): void {
  only(
    record,
    [
      'timeUnixNano',
      'observedTimeUnixNano',
      'severityNumber',
      'severityText',
      'body',
      'attributes',
      'droppedAttributesCount',
      'traceId',
      'spanId',
      'eventName',
    ],
    'a record',
  )
  check(isTime(record.timeUnixNano) && isTime(record.observedTimeUnixNano), 'a time')
  check(Number.isInteger(record.severityNumber) && Number(record.severityNumber) >= 1 && Number(record.severityNumber) <= 24, 'a severity')
  check(typeof (record.body as Json).stringValue === 'string', 'a body')
  check(Number.isInteger(record.droppedAttributesCount), 'droppedAttributesCount')
  check(isHex(record.traceId, 32) && (record.spanId === undefined || isHex(record.spanId, 16)), 'an id')
  check(JSON.stringify(record).length <= 100_000, `${JSON.stringify(record).length} characters`)
}

function checkSpan(span: Json, check: Check, only: Only): void {
  only(span, ['traceId', 'spanId', 'name', 'kind', 'startTimeUnixNano', 'endTimeUnixNano', 'attributes', 'status'], 'a span')
  check(isHex(span.traceId, 32) && isHex(span.spanId, 16), 'an id')
  check(isTime(span.startTimeUnixNano) && isTime(span.endTimeUnixNano), 'a time')
  check(BigInt(span.startTimeUnixNano as string) <= BigInt(span.endTimeUnixNano as string), 'the order of its times')
  check(typeof span.name === 'string' && span.name !== '' && [1, 2].includes(Number(span.kind)), 'a name or kind')
}

/** An OTLP value, which must have exactly one form. */
function valueOf(value: Json, check: Check): unknown {
  const [[form, inner] = ['none', undefined], ...more] = Object.entries(value)
  check(more.length === 0, 'a value of several forms')
  switch (form) {
    case 'stringValue':
      check(typeof inner === 'string' && inner.isWellFormed(), 'a text')
      return inner
    case 'boolValue':
      check(typeof inner === 'boolean', 'a boolean')
      return inner
    case 'intValue':
      check(typeof inner === 'string' && /^-?\d+$/.test(inner), 'an integer')
      return Number(inner)
    case 'doubleValue':
      check(typeof inner === 'number', 'a number')
      return inner
    case 'arrayValue':
      return ((inner as Json).values as Json[]).map((item) => valueOf(item, check))
    default:
      check(false, `a value of the form ${form}`)
      return undefined
  }
}
