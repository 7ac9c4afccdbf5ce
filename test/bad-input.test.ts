// Bad input, thousands of requests of it: whatever callers send to any route, they get an answer, it is never our fault, and
// errors have the one shape. FC_SEED=<number> repeats a run.
import fc, { type Arbitrary } from 'fast-check'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent, METHODS, request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../src/base/paths.ts'
import { within } from '../src/base/wait.ts'
import { openapiText } from '../src/control/api.ts'
import { conforms } from './support/contract.ts'
import { startFastCloud, type FastCloud, type Session } from './support/fast-cloud.ts'

const REQUESTS_PER_ROUTE = 250
const OTHER_REQUESTS = 500
const RAW_REQUESTS = 300
const AT_LEAST = 2_000
/** No request hangs: each is answered, or its connection ended, within this. */
const ANSWER_MS = 10_000
/** How long we wait for more to be said on a connection; the cases that are to be answered close it at their answer. */
const PATIENCE_MS = 2_000
/** Changed bytes leave most requests unfinished, so that waiting for their answers would be waiting for nothing. */
const HASTE_MS = 20
/** All runs of one property. */
const PROPERTY_MS = 55_000

const seed = Number(process.env.FC_SEED ?? Date.now() % 2 ** 31)
const runs = (numRuns: number) => ({ numRuns, seed, interruptAfterTimeLimit: PROPERTY_MS - 5_000, markInterruptAsFailure: true })

// ---- the service, and sessions for requests to be about ----

let cloud: FastCloud
let live: Session
const agent = new Agent({ keepAlive: true })
const statuses = new Map<string, number>()
let sent = 0

const makeLive = async (): Promise<void> => void (live = await cloud.create({ viewport: { width: 200, height: 150 }, timeout_seconds: 3600 }))
beforeAll(async () => {
  cloud = await startFastCloud({ COB_MAX_BROWSERS: '10000' })
  await makeLive()
})
afterAll(async () => {
  agent.destroy()
  console.log(
    `bad input, seed ${seed}: ${sent} requests; ${[...statuses]
      .toSorted()
      .map(([status, count]) => `${status}: ${count}`)
      .join(', ')}`,
  )
  await cloud[Symbol.asyncDispose]()
})

// ---- requests ----

/** Stands for the live session in a path; replaced when the request is sent. */
const LIVE = '{live}'

interface BadRequest {
  method: string
  path: string
  headers: OutgoingHttpHeaders
  body: Uint8Array | undefined
  /** Sends the body in pieces of this size, without telling its length. */
  pieces: number | undefined
}

interface Route {
  name: string
  method: string
  path: string
  query: string[]
  body: Arbitrary<unknown> | undefined
}

interface Field {
  type?: string
  required?: boolean
  enum?: string[]
  bounds?: { minimum?: number; maximum?: number; minItems?: number }
  fields?: Record<string, Field>
  items?: Field
}

const operations = JSON.parse(readFileSync(join(PACKAGE_DIR, 'test/data/operations.json'), 'utf8')) as {
  http_method: string
  path: string
  request_body: Record<string, Field> | null
}[]
const document = JSON.parse(openapiText()) as { paths: Record<string, Record<string, { parameters: { name: string; in: string }[]; requestBody?: object }>> }

// ---- values: right ones, made of the published description, and odd ones ----

/** Fields whose right values are few, or whose large values would only take long: they are always given. */
function few(name: string): Arbitrary<unknown> | undefined {
  const texts: Record<string, string[]> = { start_url: ['about:blank', 'https://example.com/'], name: ['a', 'my browser', 'ü/%'], hold_keys: [] }
  const numbers: Record<string, [number, number]> = {
    duration_ms: [50, 60],
    delay: [0, 3],
    step_delay_ms: [0, 2],
    steps_per_segment: [1, 4],
    width: [100, 300],
    height: [100, 300],
    refresh_rate: [1, 60],
    x: [0, 99],
    y: [0, 49],
  }
  if (name === 'path') return fc.array(fc.tuple(fc.nat(99), fc.nat(49)), { minLength: 2, maxLength: 3 })
  if (name === 'chrome_policy') return fc.constantFrom({}, { HomepageLocation: 'https://example.com' }, { ProxyMode: 'direct' })
  if (texts[name]?.length) return fc.constantFrom(...texts[name])
  return numbers[name] && fc.integer({ min: numbers[name][0], max: numbers[name][1] })
}

const ALWAYS = ['duration_ms', 'delay', 'step_delay_ms', 'steps_per_segment']

function valid(field: Field): Arbitrary<unknown> {
  switch (field.type) {
    case 'object':
      return fc.record(
        Object.fromEntries(
          Object.entries(field.fields ?? {}).map(([name, part]) => {
            const value = few(name) ?? valid(part)
            return [
              name,
              part.required || ALWAYS.includes(name) ? value : fc.oneof({ weight: 6, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value }),
            ]
          }),
        ),
      )
    case 'array':
      return fc.array(valid(field.items ?? {}), { minLength: field.bounds?.minItems ?? 0, maxLength: 4 })
    case 'integer':
    case 'number':
      return fc.integer({ min: field.bounds?.minimum ?? 0, max: field.bounds?.maximum ?? 1_000 })
    case 'boolean':
      return fc.boolean()
    case 'string':
      return field.enum ? fc.constantFrom(...field.enum) : fc.string({ minLength: 1, maxLength: 20 })
    case 'map<string>':
      return fc.dictionary(fc.string({ minLength: 1, maxLength: 10 }), fc.string({ maxLength: 10 }), { maxKeys: 4 })
    default:
      return fc.jsonValue()
  }
}

const routes: Route[] = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([lower, operation]) => {
    const method = lower.toUpperCase()
    const published = operations.find((other) => other.http_method === method && other.path === path)
    return {
      name: `${method} ${path}`,
      method,
      path,
      query: operation.parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => name),
      body: operation.requestBody && valid({ type: 'object', fields: published?.request_body ?? {} }),
    }
  }),
)

const TEXTS = [
  '',
  ' ',
  '\0',
  'a\0b',
  '\ud800',
  'x\udc00',
  '../../etc/passwd',
  "'; drop table browsers; --",
  '%',
  '%00',
  '{live}',
  '__proto__',
  'constructor',
  'null',
  'NaN',
  '-1',
  '1e3',
  'true',
  '\u202e',
  '\u{1f33d}',
  'x'.repeat(300),
  'x'.repeat(5_000),
  '[]',
  '{}',
  'tags[a]',
  '\r\nx: y',
  'htzv5orfit78e1m2biiifpbv',
]
const oddText = fc.oneof(fc.constantFrom(...TEXTS), fc.string({ unit: 'binary' }), fc.string({ unit: 'grapheme' }))
const oddNumber = fc.oneof(
  fc.constantFrom(0, -0, -1, 0.1, 1.5, 9, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 53, -(2 ** 53), 1e21, 1e308, -1e308, 5e-324),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
)
const deep = fc.integer({ min: 2, max: 2_000 }).map((depth) => JSON.parse('['.repeat(depth) + ']'.repeat(depth)) as unknown)
const PROTOTYPES = [
  '{"__proto__":{"polluted":true}}',
  '{"constructor":{"prototype":{"polluted":true}}}',
  '{"__proto__":null}',
  '{"toString":1,"valueOf":2,"toJSON":3,"then":4}',
  '{"length":-1}',
].map((text) => JSON.parse(text) as unknown)
const oddValue: Arbitrary<unknown> = fc.oneof(
  oddText,
  oddNumber,
  fc.boolean(),
  fc.constant(null),
  fc.constant([]),
  fc.constant({}),
  fc.jsonValue(),
  deep,
  fc.constantFrom(...PROTOTYPES),
  fc.array(oddText, { minLength: 60, maxLength: 200 }),
)

/** A right value with some of its parts replaced, removed, or added to. */
function mutated(right: Arbitrary<unknown>): Arbitrary<unknown> {
  const change = fc.record({ at: fc.nat(), kind: fc.constantFrom('replace', 'replace', 'replace', 'remove', 'add', 'wrap'), key: oddText, value: oddValue })
  return fc.tuple(right, fc.array(change, { minLength: 1, maxLength: 3 })).map(([value, changes]) => {
    const root = { value: structuredClone(value) }
    for (const { at, kind, key, value: fresh } of changes) {
      const odd = structuredClone(fresh) as unknown
      const places = placesOf(root)
      const [holder, name] = places[at % places.length]!
      if (kind === 'remove' && holder !== root) delete holder[name]
      else if (kind === 'wrap') holder[name] = [holder[name]]
      else if (kind === 'add' && typeof holder[name] === 'object' && holder[name] !== null)
        Object.defineProperty(holder[name], key, { value: odd, enumerable: true, configurable: true, writable: true })
      else holder[name] = odd
    }
    return root.value
  })
}

type Holder = Record<string, unknown>
const placesOf = (holder: Holder, depth = 0): [Holder, string][] =>
  Object.keys(holder).flatMap((name) => [
    [holder, name] as [Holder, string],
    ...(depth < 4 && typeof holder[name] === 'object' && holder[name] !== null ? placesOf(holder[name] as Holder, depth + 1) : []),
  ])

// ---- requests made of them ----

const bytes = (text: string): Uint8Array => Buffer.from(text)
const RAW_BODIES = [
  '',
  ' ',
  'null',
  '{"timeout_seconds":1e400}',
  '{"timeout_seconds":-0}',
  '{"timeout_seconds":060}',
  '{"name":"a","name":"b"}',
  '{"name":"\\ud800"}',
  '{"name":"\u0000"}',
  '\ufeff{}',
  '{}{}',
  '{"a":1,}',
  '/**/{}',
  '['.repeat(50_000),
  '{"a":'.repeat(20_000),
  `{"name":"${'x'.repeat(100_000)}"}`,
  `[${'0,'.repeat(50_000)}0]`,
  '--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--x--',
].map(bytes)

function bodyFor(right: Arbitrary<unknown>): Arbitrary<Uint8Array | undefined> {
  const text = (value: Arbitrary<unknown>) => value.map((each) => JSON.stringify(each) ?? '')
  return fc.oneof(
    { weight: 3, arbitrary: text(right).map(bytes) },
    { weight: 10, arbitrary: text(mutated(right)).map(bytes) },
    { weight: 2, arbitrary: text(oddValue).map(bytes) },
    { weight: 2, arbitrary: fc.tuple(text(mutated(right)), fc.nat()).map(([json, cut]) => bytes(json.slice(0, cut % (json.length + 1)))) },
    {
      weight: 2,
      arbitrary: fc
        .tuple(text(right), fc.nat(), fc.constantFrom([0xff], [0xc3], [0xed, 0xa0, 0x80], [0xf8, 0x88], [0x00]))
        .map(([json, at, bad]) => Buffer.concat([bytes(json.slice(0, at % (json.length + 1))), Buffer.from(bad), bytes(json.slice(at % (json.length + 1)))])),
    },
    { weight: 2, arbitrary: fc.constantFrom(...RAW_BODIES) },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 200 }) },
    { weight: 1, arbitrary: fc.constant(undefined) },
  )
}

const encoded = oddText.map((text) => encodeURIComponent(text.toWellFormed()))
const segment = fc.oneof(
  { weight: 4, arbitrary: fc.constant(LIVE) },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      '%00',
      'a%00b',
      '%2F',
      'a%2Fb',
      '..%2f..%2fetc',
      '%',
      '%2',
      '%zz',
      '%ff',
      '%c0%ae',
      '%ed%a0%80',
      '.',
      '..',
      '',
      ';',
      '*',
      ':id',
      '{id}',
      '~',
      'x'.repeat(4_096),
      '%61'.repeat(1_365),
      encodeURIComponent('🌽'),
      LIVE.concat('%20'),
      LIVE.concat('/'),
    ),
  },
  { weight: 3, arbitrary: encoded },
)

function queryFor(names: readonly string[]): Arbitrary<string> {
  const name = fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...names, 'limit', 'jwt') },
    {
      weight: 2,
      arbitrary: fc.constantFrom(
        'tags[k]',
        'tags[k]',
        'tags[]',
        'tags[',
        'tags]',
        'tags[a][b]',
        'tags[__proto__]',
        '__proto__[x]',
        '__proto__',
        'limit[a]',
        'constructor',
        'offset[0]',
        '[]',
        '',
      ),
    },
    { weight: 1, arbitrary: encoded },
  )
  const value = fc.oneof(
    { weight: 3, arbitrary: encoded },
    {
      weight: 3,
      arbitrary: fc.constantFrom(
        '0',
        '1',
        '-1',
        '100',
        '1e99',
        '1.5',
        '999999999999999999999',
        'true',
        'false',
        'all',
        'deleted',
        'NaN',
        '%00',
        '%',
        '%zz',
        '%ff',
        '+',
        'a%2Cb',
        '',
      ),
    },
  )
  const pair = fc.tuple(name, value).map(([left, right]) => `${left}=${right}`)
  return fc.oneof(
    { weight: 3, arbitrary: fc.constant('') },
    { weight: 2, arbitrary: fc.array(pair, { minLength: 1, maxLength: 5 }).map((pairs) => `?${pairs.join('&')}`) },
    { weight: 1, arbitrary: fc.constantFrom('?', '??', '?&&', '?=', '?#', '?a=1?b=2', `?${'a=b&'.repeat(1_000)}`, `?query=${'x'.repeat(8_000)}`) },
  )
}

const CONTENT_TYPES = [
  undefined,
  '',
  'text/plain',
  'application/json; charset=utf-16',
  'application/jsonx',
  'multipart/form-data',
  'multipart/form-data; boundary=x',
  'application/x-www-form-urlencoded',
  'application/octet-stream',
  ';;;',
  'a/b/c',
  '*/*',
  'application/json, text/plain',
]
const EXTRA: OutgoingHttpHeaders[] = [
  {},
  {},
  {},
  { 'x-request-id': '<b>' },
  { 'x-request-id': 'x'.repeat(5_000) },
  { 'content-encoding': 'gzip' },
  { accept: 'nothing/at-all;q=x' },
  { range: 'bytes=5-1' },
  { 'if-none-match': '*' },
  { 'x-http-method-override': 'DELETE' },
  { 'x-kernel-project-id': '\u00ff' },
  { cookie: 'a=b; ='.repeat(50) },
  { host: '' },
  { host: 'a b' },
  { host: '[' },
  { host: 'x:99999' },
  { host: '"><script>' },
  { host: 'evil.example:1' },
  { forwarded: 'for=x;proto=javascript' },
  { 'x-forwarded-host': '[', 'x-forwarded-proto': 'javascript' },
  { te: 'trailers, x' },
  { 'keep-alive': '-1' },
]
const authorization = fc.oneof(
  { weight: 12, arbitrary: fc.constant('{key}') },
  { weight: 1, arbitrary: fc.constantFrom(undefined, '', 'Bearer', 'Bearer wrong', 'Basic x', 'Bearer '.repeat(100), 'Bearer \u00ff', 'Bearer a.b.c') },
)

function badRequest(method: Arbitrary<string>, path: Arbitrary<string>, query: readonly string[], body: Arbitrary<unknown>): Arbitrary<BadRequest> {
  return fc
    .record({
      method,
      path,
      query: queryFor(query),
      body: bodyFor(body),
      type: fc.oneof({ weight: 8, arbitrary: fc.constant('application/json') }, { weight: 1, arbitrary: fc.constantFrom(...CONTENT_TYPES) }),
      pieces: fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.integer({ min: 1, max: 5_000 }) }),
      extra: fc.constantFrom(...EXTRA),
      authorization,
    })
    .map(({ query: search, type, extra, authorization: auth, ...rest }) => ({
      ...rest,
      path: rest.path + search,
      headers: { ...extra, ...(auth !== undefined && { authorization: auth }), ...(type !== undefined && { 'content-type': type }) },
    }))
}

// ---- sending, and what every answer must be ----

interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  body: Buffer
}

async function send({ method, path, headers, body, pieces }: BadRequest): Promise<Answer> {
  const client = httpRequest(cloud.url, {
    agent,
    method,
    path: path.replaceAll(LIVE, live.session_id),
    headers: {
      ...headers,
      ...(headers.authorization === '{key}' && { authorization: `Bearer ${cloud.key}` }),
      ...(body && (pieces === undefined ? { 'content-length': body.length } : { 'transfer-encoding': 'chunked' })),
    },
  })
  client.on('error', () => {}) // also told to whoever waits for the answer
  const answered = once(client, 'response') as Promise<[IncomingMessage]>
  const exchange = async (): Promise<Answer> => {
    for (let at = 0; body && at < body.length; at += pieces ?? body.length) client.write(body.subarray(at, at + (pieces ?? body.length)))
    client.end()
    const [response] = await answered
    const chunks: Buffer[] = []
    for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk)
    return { status: response.statusCode!, headers: response.headers, body: Buffer.concat(chunks) }
  }
  answered.catch(() => {})
  try {
    return await within('an answer', ANSWER_MS, exchange())
  } finally {
    client.destroy()
  }
}

/** @throws when the answer is not one that bad input may get. */
function check({ status, headers, body }: Answer, hasBody = true): void {
  sent++
  statuses.set(String(status), (statuses.get(String(status)) ?? 0) + 1)
  const text = body.toString()
  if (status >= 500) throw new Error(`answered ${status}: ${text.slice(0, 300)} ${JSON.stringify(cloud.errors.slice(-1), errorsAsText)}`)
  if (!/^[\w.-]{1,100}$/.test(String(headers['x-request-id'])))
    throw new Error(`answered ${status} with the request id "${String(headers['x-request-id'])}": ${text.slice(0, 300)}`)
  if (status < 400 || !hasBody) return
  if (!String(headers['content-type']).startsWith('application/json'))
    throw new Error(`answered ${status} as ${String(headers['content-type'])}: ${text.slice(0, 300)}`)
  conforms('ErrorModel', JSON.parse(text))
  if (/node_modules|\bat .*\.ts:\d|node:internal/.test(text)) throw new Error(`tells of our insides: ${text}`)
}

const errorsAsText = (_: string, value: unknown): unknown => (value instanceof Error ? value.message : value)

/** Takes back what a request has made or ended by being right after all. */
async function tidy(request: BadRequest, { status, body }: Answer): Promise<void> {
  if (request.method === 'POST' && status === 200 && body.includes('"cdp_ws_url"'))
    await cloud.fetch(`/browsers/${(JSON.parse(body.toString()) as Session).session_id}`, { method: 'DELETE' })
  if (request.method === 'DELETE' && status === 204) await makeLive()
}

async function survives(request: BadRequest): Promise<void> {
  const answer = await send(request)
  check(answer, request.method !== 'HEAD')
  await tidy(request, answer)
}

// ---- the promises ----

test('the requests are for every route there is', () => {
  expect(routes.length).toBeGreaterThanOrEqual(12)
  expect(routes.filter(({ method, body }) => body === undefined && ['POST', 'PATCH', 'PUT'].includes(method))).toEqual([])
})

describe.each(routes)('$name', (route) => {
  test(`answers ${REQUESTS_PER_ROUTE} bad requests, and none with an error of ours`, { timeout: PROPERTY_MS }, async () => {
    const parts = route.path.split(/\{\w+\}/)
    const path = fc.tuple(...parts.slice(1).map(() => segment)).map((values) => parts.map((part, index) => part + (values[index] ?? '')).join(''))
    await fc.assert(fc.asyncProperty(badRequest(fc.constant(route.method), path, route.query, route.body ?? oddValue), survives), runs(REQUESTS_PER_ROUTE))
  })
})

test(`whatever the method and wherever the path leads, ${OTHER_REQUESTS} times`, { timeout: PROPERTY_MS }, async () => {
  // A tunnel is not asked for in the way of other requests; it is among the malformed ones below.
  const method = fc.constantFrom(...METHODS.filter((name) => name !== 'CONNECT'))
  const known = fc.constantFrom(...routes).chain(({ path }) => segment.map((value) => path.replaceAll(/\{\w+\}/g, value)))
  const unknown = fc
    .array(fc.oneof(segment, fc.constantFrom('browsers', 'computer', 'session', 'fit', 'v1', 'docs')), { maxLength: 6 })
    .map((parts) => `/${parts.join('/')}`)
  await fc.assert(fc.asyncProperty(badRequest(method, fc.oneof(known, unknown), [], oddValue), survives), runs(OTHER_REQUESTS))
})

// ---- HTTP that is none ----

/** Everything that the service says on a connection of its own to these bytes. Our side ends when it has been quiet for `patienceMs`. */
async function say(raw: Buffer, patienceMs: number): Promise<Buffer> {
  const socket = connect(Number(new URL(cloud.url).port), '127.0.0.1')
  const chunks: Buffer[] = []
  const quiet = setTimeout(() => socket.end(), patienceMs)
  socket.on('data', (chunk) => {
    chunks.push(chunk)
    quiet.refresh()
  })
  socket.on('error', () => {})
  const closed = once(socket, 'close')
  socket.write(raw)
  try {
    await within('an answer or the end of the connection', ANSWER_MS, closed)
  } finally {
    clearTimeout(quiet)
    socket.destroy()
  }
  return Buffer.concat(chunks)
}

/** The answers in what was said. @throws when it is not made of whole answers. */
function answersIn(said: Buffer): Answer[] {
  const answers: Answer[] = []
  for (let rest = said; rest.length > 0;) {
    const end = rest.indexOf('\r\n\r\n')
    const [first = '', ...lines] = rest.subarray(0, end).toString('latin1').split('\r\n')
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1])
    if (end < 0 || !status) throw new Error(`not an answer: ${rest.toString('latin1').slice(0, 200)}`)
    const headers = Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]))
    const length = headers['content-length'] === undefined ? (status === 204 || status < 200 ? 0 : rest.length - end - 4) : Number(headers['content-length'])
    if (status >= 200) answers.push({ status, headers, body: rest.subarray(end + 4, end + 4 + length) })
    rest = rest.subarray(end + 4 + length)
  }
  return answers
}

describe('HTTP at its edges', () => {
  const key = () => `Authorization: Bearer ${cloud.key}\r\n`
  const cases: { name: string; raw: () => string; expected: (number | undefined)[] }[] = [
    { name: 'a request of HTTP/1.0 without Host is answered', raw: () => `GET /browsers HTTP/1.0\r\n${key()}\r\n`, expected: [200] },
    { name: 'a request without Host', raw: () => 'GET /health HTTP/1.1\r\n\r\n', expected: [400] },
    { name: 'a Host that is none', raw: () => `GET /browsers HTTP/1.1\r\nHost: a b<>\r\nConnection: close\r\n${key()}\r\n`, expected: [200, 400] },
    { name: 'an empty Host', raw: () => `GET /browsers HTTP/1.1\r\nHost:\r\nConnection: close\r\n${key()}\r\n`, expected: [200, 400] },
    {
      name: 'an upgrade to HTTP/2, which Java and curl --http2 offer, is not taken up and the request answered',
      raw: () => 'GET /health HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n',
      expected: [200],
    },
    {
      name: 'an upgrade to a WebSocket where there is none',
      raw: () => 'GET /health HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
      expected: [404],
    },
    {
      name: 'an expectation that we do not know',
      raw: () => 'GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: the-best\r\n\r\n',
      expected: [200, 400, 417],
    },
    {
      name: 'an expectation to be told to go on',
      raw: () =>
        `POST /browsers/${live.session_id}/computer/screenshot HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${key()}Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}`,
      expected: [200],
    },
    { name: 'a target with its origin', raw: () => 'GET http://example.com/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n', expected: [200] },
    {
      name: 'a target with its origin, forwarded',
      raw: () =>
        `POST http://example.com/browsers/${live.session_id}/computer/screenshot HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${key()}Content-Length: 0\r\n\r\n`,
      expected: [200],
    },
    { name: 'the target *', raw: () => 'OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n', expected: [404] },
    { name: 'a target without a slash', raw: () => 'GET health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n', expected: [400] },
    { name: 'a tunnel', raw: () => 'CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n', expected: [undefined, 400, 404, 405] },
    { name: 'an unknown method', raw: () => 'BREW /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n', expected: [400, 404, 405] },
    { name: 'the beginning of TLS', raw: () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', expected: [undefined, 400] },
    { name: 'the beginning of HTTP/2', raw: () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', expected: [400] },
    { name: 'HTTP/0.9', raw: () => 'GET /health\r\n\r\n', expected: [200, 400] },
    {
      name: 'headers without end',
      raw: () => `GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: ${'a'.repeat(100_000)}\r\n\r\n`,
      expected: [400, 431],
    },
    { name: 'a target without end', raw: () => `GET /${'a'.repeat(100_000)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`, expected: [400, 414, 431] },
    {
      name: 'thousands of headers',
      raw: () => `GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${'a: b\r\n'.repeat(5_000)}\r\n`,
      expected: [400, 431],
    },
    { name: 'a header without a colon', raw: () => 'GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\nnonsense\r\n\r\n', expected: [400] },
    { name: 'a header with U+0000', raw: () => 'GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: a\0b\r\n\r\n', expected: [400] },
    {
      name: 'a chunk without a length',
      raw: () =>
        `POST /browsers HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${key()}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
      expected: [400],
    },
    {
      name: 'a length and chunks at once',
      raw: () => `POST /browsers HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${key()}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      expected: [400],
    },
    {
      name: 'two lengths',
      raw: () => `POST /browsers HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${key()}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`,
      expected: [400],
    },
    { name: 'a negative length', raw: () => `POST /browsers HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${key()}Content-Length: -1\r\n\r\n`, expected: [400] },
    {
      name: 'a body that ends early',
      raw: () => `POST /browsers HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${key()}Content-Type: application/json\r\nContent-Length: 400\r\n\r\n{"a"`,
      expected: [undefined, 400],
    },
    {
      name: 'a forwarded body that ends early',
      raw: () =>
        `POST /browsers/${live.session_id}/computer/screenshot HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${key()}Content-Type: application/json\r\nContent-Length: 400\r\n\r\n{"a"`,
      expected: [undefined, 400],
    },
    { name: 'a request that ends in its headers', raw: () => 'GET /health HTTP/1.1\r\nHost: x\r\nAccept', expected: [undefined, 400] },
    { name: 'nothing', raw: () => '', expected: [undefined] },
  ]
  test.each(cases)('$name', async ({ raw, expected }) => {
    // Where no answer is an answer, the service waits for more of the request until we are done.
    const answers = answersIn(await say(Buffer.from(raw(), 'latin1'), expected.includes(undefined) ? 0 : PATIENCE_MS))
    for (const answer of answers) check(answer)
    expect(expected).toContain(answers[0]?.status)
  })

  test('requests that are sent without waiting for their answers are answered in order', async () => {
    const paths = ['/health', '/nothing', '/browsers', '/status']
    const raw = paths
      .map((path, index) => `GET ${path} HTTP/1.1\r\nHost: x\r\nX-Request-Id: id-${index}\r\n${index === paths.length - 1 ? 'Connection: close\r\n' : ''}\r\n`)
      .join('')
    const answers = answersIn(await say(Buffer.from(raw), PATIENCE_MS))
    expect(answers.map(({ status, headers }) => [status, headers['x-request-id']])).toEqual([
      [200, 'id-0'],
      [404, 'id-1'],
      [401, 'id-2'],
      [200, 'id-3'],
    ])
  })

  test(
    `requests with bytes changed, lost and added, ${RAW_REQUESTS} times, are answered in the one shape or not at all`,
    { timeout: PROPERTY_MS },
    async () => {
      const right = fc.constantFrom(
        () => `GET /browsers?limit=5&tags[a]=b HTTP/1.1\r\nHost: x\r\n${key()}\r\n`,
        () => `PATCH /browsers/${live.session_id} HTTP/1.1\r\nHost: x\r\n${key()}Content-Type: application/json\r\nContent-Length: 17\r\n\r\n{"tags":{"a":"b"}`,
        () =>
          `POST /browsers/${live.session_id}/computer/screenshot HTTP/1.1\r\nHost: x\r\n${key()}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
      )
      const change = fc.record({
        at: fc.nat(),
        kind: fc.constantFrom('set', 'set', 'drop', 'add'),
        byte: fc.oneof(fc.constantFrom(0, 10, 13, 32, 37, 58, 127, 128, 255), fc.nat(255)),
      })
      await fc.assert(
        fc.asyncProperty(right, fc.array(change, { minLength: 1, maxLength: 4 }), async (make, changes) => {
          const raw = [...Buffer.from(make(), 'latin1')]
          for (const { at, kind, byte } of changes) raw.splice(at % raw.length, kind === 'add' ? 0 : 1, ...(kind === 'drop' ? [] : [byte]))
          for (const answer of answersIn(await say(Buffer.from(raw), HASTE_MS))) check(answer)
        }),
        runs(RAW_REQUESTS),
      )
    },
  )
})

// ---- afterwards ----

describe('after all of it the service', () => {
  test(`has answered at least ${AT_LEAST} requests`, () => {
    expect(sent).toBeGreaterThanOrEqual(AT_LEAST)
  })

  test('is well, makes a browser, and has no session but the one we know', async () => {
    expect((await cloud.fetch('/health')).status).toBe(200)
    const listed = (await (await cloud.fetch('/browsers?limit=100')).json()) as Session[]
    for (const { session_id } of listed) expect((await cloud.fetch(`/browsers/${session_id}`, { method: 'DELETE' })).status).toBe(204)
    expect(listed.map(({ session_id }) => session_id)).toEqual([live.session_id])
    await makeLive()
    expect((await cloud.fetch(`/browsers/${live.session_id}`, { method: 'DELETE' })).status).toBe(204)
  })

  test('has logged no error', () => {
    expect(cloud.errors.map(({ message, fields }) => `${message}: ${JSON.stringify(fields, errorsAsText)}`)).toEqual([])
  })

  test('has its prototypes as they were', () => {
    expect(({} as Record<string, unknown>).polluted).toBeUndefined()
  })
})
