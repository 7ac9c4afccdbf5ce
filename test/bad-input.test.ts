// Sends thousands of bad requests. The caller always gets an answer, never a 5xx, and every error has the one shape. FC_SEED=<number> repeats a run.
import fc from 'fast-check'
import { once } from 'node:events'
import { Agent, METHODS, request as httpRequest, type IncomingMessage } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { within } from '../src/base/wait.ts'
import { badRequest, LIVE, routes, segment, type BadRequest } from './support/bad-requests.ts'
import { conforms } from './support/contract.ts'
import { startFastCloud, type FastCloud, type Session } from './support/fast-cloud.ts'
import { amount } from './support/long.ts'
import { oddValue } from './support/odd-values.ts'
import { ANSWER_MS, answersIn, say, type Answer } from './support/raw-http.ts'

const REQUESTS_PER_ROUTE = amount(15, 1_000)
const OTHER_REQUESTS = amount(150, 2_000)
const RAW_REQUESTS = amount(100, 1_000)
const AT_LEAST = amount(1_000, 10_000)
/** How long to wait for more data on a connection; connections that must be answered close after the answer. */
const PATIENCE_MS = 2_000
/** Most changed requests are incomplete and get no answer, so do not wait long for one. */
const HASTE_MS = 20
/** Timeout of all runs of one property. */
const PROPERTY_MS = 55_000

const seed = Number(process.env.FC_SEED ?? Date.now() % 2 ** 31)
const runs = (numRuns: number) => ({ numRuns, seed, interruptAfterTimeLimit: PROPERTY_MS - 5_000, markInterruptAsFailure: true })

// ---- the service, and sessions for the requests ----

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

// ---- sending, and the rules for every answer ----

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
  client.on('error', () => {}) // the promise below reports it
  const answered = once(client, 'response') as Promise<[IncomingMessage]>
  const exchange = async (): Promise<Answer> => {
    for (let at = 0; body && at < body.length; at += pieces ?? body.length) client.write(body.subarray(at, at + (pieces ?? body.length)))
    client.end()
    const [response] = await answered
    const chunks: Buffer[] = []
    for await (const chunk of response as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      // An event stream lasts as long as its session, so read only the first chunk.
      if (response.headers['content-type'] === 'text/event-stream') break
    }
    return { status: response.statusCode!, headers: response.headers, body: Buffer.concat(chunks) }
  }
  answered.catch(() => {})
  try {
    return await within('an answer', ANSWER_MS, exchange())
  } finally {
    client.destroy()
  }
}

/** @throws when bad input must not get this answer */
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

/** Undoes what a request created or ended when it was valid by chance. */
async function tidy(request: BadRequest, { status, body }: Answer): Promise<void> {
  if (request.method === 'POST' && status === 200 && body.includes('"cdp_ws_url"'))
    await cloud.fetch(`/browsers/${(JSON.parse(body.toString()) as Session).session_id}`, { method: 'DELETE' })
  if (request.method === 'POST' && status === 200 && body.includes('"browser_pool_config"')) {
    const { id } = JSON.parse(body.toString()) as { id: string }
    await cloud.fetch(`/browser_pools/${id}`, { method: 'DELETE', headers: { 'content-type': 'application/json' }, body: '{"force":true}' })
  }
  // A DELETE answers 204 for other things than the session too, so look whether the session still exists.
  if (request.method === 'DELETE' && status === 204 && (await cloud.fetch(`/browsers/${live.session_id}`)).status === 404) await makeLive()
}

async function survives(request: BadRequest): Promise<void> {
  const answer = await send(request)
  check(answer, request.method !== 'HEAD')
  await tidy(request, answer)
}

/** Operations whose contract has no body. */
const BODILESS = [
  '/sign-out',
  '/browsers/{id}/replays/{replay_id}/stop',
  '/browser_pools/{id_or_name}/flush',
  '/browsers/{id}/computer/clipboard/read',
  '/browsers/{id}/computer/get_mouse_position',
  '/profiles/{id_or_name}/versions/{version_id}/restore',
  '/audit-logs/export/destinations/{id}/test',
  '/org/credential_providers/{id}/test',
]

// ---- the properties ----

test('there are bad requests for every route', () => {
  expect(routes.length).toBeGreaterThanOrEqual(12)
  const withoutBody = routes.filter(({ method, body }) => body === undefined && ['POST', 'PATCH', 'PUT'].includes(method))
  expect(withoutBody.map(({ path }) => path).filter((path) => !BODILESS.includes(path))).toEqual([])
})

describe.each(routes)('$name', (route) => {
  test(`answers ${REQUESTS_PER_ROUTE} bad requests without an internal error`, { timeout: PROPERTY_MS }, async () => {
    const parts = route.path.split(/\{\w+\}/)
    const path = fc.tuple(...parts.slice(1).map(() => segment)).map((values) => parts.map((part, index) => part + (values[index] ?? '')).join(''))
    await fc.assert(fc.asyncProperty(badRequest(fc.constant(route.method), path, route.query, route.body ?? oddValue), survives), runs(REQUESTS_PER_ROUTE))
  })
})

test(`the service answers bad requests with any method and path, ${OTHER_REQUESTS} times`, { timeout: PROPERTY_MS }, async () => {
  // CONNECT needs a different client; the malformed requests below include it.
  const method = fc.constantFrom(...METHODS.filter((name) => name !== 'CONNECT'))
  const known = fc.constantFrom(...routes).chain(({ path }) => segment.map((value) => path.replaceAll(/\{\w+\}/g, value)))
  const unknown = fc
    .array(fc.oneof(segment, fc.constantFrom('browsers', 'computer', 'session', 'fit', 'v1', 'docs')), { maxLength: 6 })
    .map((parts) => `/${parts.join('/')}`)
  await fc.assert(fc.asyncProperty(badRequest(method, fc.oneof(known, unknown), [], oddValue), survives), runs(OTHER_REQUESTS))
})

test.each([
  ['an object in the place of a list, whose length is no number', '/computer/press_key', { keys: { length: { toString: 1, valueOf: 2 } } }],
  ['very many unknown properties', '', Object.fromEntries(Array.from({ length: 300_000 }, (_, index) => [`p${index}`, 1]))],
  ['very many wrong values', '', { tags: Object.fromEntries(Array.from({ length: 200_000 }, (_, index) => [`p${index}`, 1])) }],
])('%s is bad input', async (_, path, body) => {
  const to = path === '' ? '/browsers' : `/browsers/${live.session_id}${path}`
  const answer = await cloud.send('POST', to, body)
  expect([answer.status, await answer.json()]).toMatchObject([400, { code: 'bad_request' }])
})

// ---- malformed HTTP ----

describe('unusual HTTP', () => {
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
    { name: 'the target *', raw: () => 'OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n', expected: [404, 405] },
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
    // When no answer is expected, the service waits for the rest of the request until we close.
    const answers = answersIn(await say(cloud.url, Buffer.from(raw(), 'latin1'), expected.includes(undefined) ? 0 : PATIENCE_MS))
    for (const answer of answers) check(answer)
    expect(expected).toContain(answers[0]?.status)
  })

  test('pipelined requests are answered in order', async () => {
    const paths = ['/health', '/nothing', '/browsers', '/status']
    const raw = paths
      .map((path, index) => `GET ${path} HTTP/1.1\r\nHost: x\r\nX-Request-Id: id-${index}\r\n${index === paths.length - 1 ? 'Connection: close\r\n' : ''}\r\n`)
      .join('')
    const answers = answersIn(await say(cloud.url, Buffer.from(raw), PATIENCE_MS))
    expect(answers.map(({ status, headers }) => [status, headers['x-request-id']])).toEqual([
      [200, 'id-0'],
      [404, 'id-1'],
      [401, 'id-2'],
      [200, 'id-3'],
    ])
  })

  test(`requests with changed, lost and added bytes, ${RAW_REQUESTS} times, get an answer in the common shape or none`, { timeout: PROPERTY_MS }, async () => {
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
        for (const answer of answersIn(await say(cloud.url, Buffer.from(raw), HASTE_MS))) check(answer)
      }),
      runs(RAW_REQUESTS),
    )
  })
})

// ---- after all requests ----

describe('after all bad requests the service', () => {
  test(`has answered at least ${AT_LEAST} of them`, () => {
    expect(sent).toBeGreaterThanOrEqual(AT_LEAST)
  })

  test('is healthy, creates a browser, and has no other session than the expected one', async () => {
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

  test('has unchanged prototypes', () => {
    expect(({} as Record<string, unknown>).polluted).toBeUndefined()
  })
})
