// The behaviour of every route, on a small contract of the test: authentication, refused input, the form of errors.
import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { text as wholeText } from 'node:stream/consumers'
import { setImmediate as turn } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import * as z from 'zod'
import type { Log } from '../base/log.ts'
import { sleep, within } from '../base/wait.ts'
import { fault } from './fault.ts'
import { bearer } from './bearer.ts'
import { mount } from './mount.ts'
import { json, none, page, pagingQuery, queryBoolean, route, text } from './route.ts'
import { makeServer } from './server.ts'

const KEY = 'the-key'
const MAX_BODY = 1_000
/** More than the buffers of both sides hold. */
const LARGE = 16 * 1024 * 1024
const DEADLINE_MS = 50
/** Limit on the time between a caller's leaving and the handler's abort. */
const LEAVE_MS = 10_000

const group = 'Test'
const Thing = z.object({ name: z.string(), n: z.int(), tags: z.record(z.string(), z.string()) })
const contract = {
  makeThing: route({
    method: 'POST',
    path: '/things/{name}',
    id: 'makeThing',
    group,
    summary: '',
    maxBodyBytes: MAX_BODY,
    reply: json(Thing, 201),
    params: z.strictObject({ name: z.string().max(5) }),
    query: z.strictObject({ loud: queryBoolean.default(false), tags: z.record(z.string(), z.string()).default({}) }),
    body: z.strictObject({ n: z.int().min(1).max(9), inner: z.strictObject({ deep: z.boolean() }).optional() }),
  }),
  listThings: route({ method: 'GET', path: '/things', id: 'listThings', group, summary: '', query: z.strictObject(pagingQuery), reply: page(z.number()) }),
  touchThing: route({
    method: 'PUT',
    path: '/things/{name}',
    id: 'touchThing',
    group,
    summary: '',
    params: z.strictObject({ name: z.string() }),
    body: z.strictObject({}),
    bodyOptional: true,
    reply: none(200),
  }),
  dropThing: route({
    method: 'DELETE',
    path: '/things/{name}',
    id: 'dropThing',
    group,
    summary: '',
    params: z.strictObject({ name: z.string() }),
    reply: none(),
  }),
  breakThing: route({ method: 'POST', path: '/broken', id: 'breakThing', group, summary: '', reply: none() }),
  lateThing: route({ method: 'POST', path: '/late', id: 'lateThing', group, summary: '', reply: none() }),
  conflictThing: route({ method: 'POST', path: '/conflict', id: 'conflictThing', group, summary: '', reply: none() }),
  slowThing: route({ method: 'GET', path: '/slow', id: 'slowThing', group, summary: '', deadlineMs: DEADLINE_MS, reply: none() }),
  heldThing: route({ method: 'GET', path: '/held', id: 'heldThing', group, summary: '', reply: none() }),
  readThing: route({ method: 'GET', path: '/public', id: 'readThing', group, summary: '', access: 'public', reply: text('text/plain') }),
}

const logged: { fields: object; message: string }[] = []
const log: Log = { debug() {}, info() {}, warn() {}, error: (fields, message) => void logged.push({ fields, message }), child: () => log }
const held = Promise.withResolvers<AbortSignal>()
const context = makeServer({
  log,
  authenticate: async (request) => {
    if (bearer(request) !== KEY) throw fault.unauthorized('no')
  },
})
mount(context, contract, {
  makeThing: ({ params, query, body }) => ({ name: query.loud ? params.name.toUpperCase() : params.name, n: body.n, tags: query.tags }),
  listThings: ({ query: { offset, limit } }) => ({
    items: Array.from({ length: limit }, (_, index) => offset + index),
    nextOffset: offset === 0 ? limit : undefined,
  }),
  touchThing() {},
  dropThing() {},
  breakThing() {
    throw new Error('the password is hunter2')
  },
  lateThing() {
    // Its code is a number.
    throw new DOMException('too late', 'TimeoutError')
  },
  conflictThing() {
    throw fault.conflict('it is there')
  },
  slowThing: ({ signal }) => sleep(LEAVE_MS, signal),
  async heldThing({ signal }) {
    held.resolve(signal)
    await sleep(LEAVE_MS, signal)
  },
  readThing: () => 'hello',
})

let origin: string
beforeAll(async () => {
  await context.app.listen({ host: '127.0.0.1', port: 0 })
  origin = `http://127.0.0.1:${(context.app.server.address() as AddressInfo).port}`
})
afterAll(() => context.app.close())

const call = (method: string, path: string, init: RequestInit = {}): Promise<Response> =>
  fetch(origin + path, { ...init, method, headers: { authorization: `Bearer ${KEY}`, ...(init.headers as Record<string, string>) } })
const send = (method: string, path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
  call(method, path, {
    body: typeof body === 'string' || body instanceof Uint8Array ? (body as RequestInit['body']) : JSON.stringify(body),
    headers: { 'content-type': 'application/json', ...headers },
  })
const problem = async (response: Response): Promise<{ status: number; code: string; message: string; details?: { message: string }[] }> => ({
  status: response.status,
  ...((await response.json()) as { code: string; message: string }),
})

describe('a caller', () => {
  test.each([undefined, 'Bearer wrong', 'Bearer', 'Bearer ', `Basic ${KEY}`, KEY, `Bearer ${KEY} more`, `Bearer  ${KEY}`])(
    'with the authorization %j is refused, and the error says how to authenticate',
    async (authorization) => {
      const response = await fetch(`${origin}/things`, { headers: { ...(authorization !== undefined && { authorization }) } })
      expect(response.headers.get('www-authenticate')).toBe('Bearer')
      expect(await problem(response)).toMatchObject({ status: 401, code: 'unauthorized' })
    },
  )

  test.each([`Bearer ${KEY}`, `bearer ${KEY}`, `BEARER ${KEY}`])('with the authorization "%s" is accepted', async (authorization) => {
    expect((await fetch(`${origin}/things`, { headers: { authorization } })).status).toBe(200)
  })

  test('needs no key for public routes; elsewhere the key is checked before the body', async () => {
    expect(await (await fetch(`${origin}/public`)).text()).toBe('hello')
    expect((await fetch(`${origin}/things/a`, { method: 'POST', body: '{' })).status).toBe(401)
  })

  test('gets its own request id back if it is harmless, and a new one otherwise', async () => {
    const id = async (sent: string) => (await call('GET', '/public', { headers: { 'x-request-id': sent } })).headers.get('x-request-id')
    expect(await id('my-id_1.2')).toBe('my-id_1.2')
    for (const bad of ['', 'a b', 'x'.repeat(101), '<script>', 'a;b']) expect(await id(bad)).toMatch(/^[a-z][a-z0-9]{23}$/)
    expect((await call('GET', '/public')).headers.get('x-request-id')).toMatch(/^[a-z][a-z0-9]{23}$/)
  })

  test("that leaves aborts the handler's signal", async () => {
    const leaving = new AbortController()
    const answer = call('GET', '/held', { signal: leaving.signal }).catch((error: Error) => error.name)
    const signal = await held.promise
    const received = once(signal, 'abort')
    leaving.abort()
    await within('the handler to be told', LEAVE_MS, received)
    expect(signal.reason).toMatchObject({ code: 'client_closed_request' })
    expect(await answer).toBe('AbortError')
  })
})

describe('a path', () => {
  test('that does not exist answers 404 with method and path, and says where all paths are listed', async () => {
    expect(await problem(await call('GET', '/nothing/here?secret=1'))).toEqual({
      status: 404,
      code: 'not_found',
      message: 'there is no GET /nothing/here here; GET /openapi.json lists what there is',
    })
  })

  test.each([
    ['/things', 'POST', 'GET, HEAD'],
    ['/things/a', 'GET', 'POST, PUT, DELETE'],
    ['/things/a', 'PATCH', 'POST, PUT, DELETE'],
    ['/broken', 'OPTIONS', 'POST'],
    ['//things//a', 'PATCH', 'POST, PUT, DELETE'],
    ['/thing%73', 'POST', 'GET, HEAD'],
    ['/things/', 'PATCH', 'POST, PUT, DELETE'],
  ])('%s answers 405 to %s, with the allowed methods in Allow', async (path, method, allow) => {
    const response = await call(method, path)
    expect(response.headers.get('allow')).toBe(allow)
    expect(await problem(response)).toMatchObject({ status: 405, code: 'method_not_allowed' })
  })

  test('that accepts GET accepts HEAD, without a body in the answer', async () => {
    const response = await call('HEAD', '/things')
    expect([response.status, response.headers.get('x-has-more'), await response.text()]).toEqual([200, 'true', ''])
  })

  test.each(['/things/%', '/things/%zz', '/things/%ff', '/things/%c3%28'])('%s, which is not a valid URL, answers 400', async (path) => {
    expect(await problem(await call('DELETE', path))).toMatchObject({ status: 400, code: 'bad_request' })
  })

  test('with U+0000 in it or in its query, also inside a map, answers 400 and names the parameter', async () => {
    expect((await problem(await call('DELETE', '/things/a%00b'))).message).toMatch(/^name: /)
    expect((await problem(await send('POST', '/things/a?tags[k]=%00', { n: 1 }))).message).toMatch(/^tags\.k: /)
    expect((await problem(await send('POST', '/things/a?tags[%00]=v', { n: 1 }))).message).toMatch(/^tags/)
  })
})

describe('input', () => {
  test('arrives parsed: parameters decoded, booleans and maps read, defaults filled in', async () => {
    expect(await (await send('POST', '/things/a%2Fb?loud=true&tags[x]=1', { n: 3 })).json()).toEqual({ name: 'A/B', n: 3, tags: { x: '1' } })
    expect(await (await send('POST', '/things/ab', { n: 3 })).json()).toEqual({ name: 'ab', n: 3, tags: {} })
  })

  test('with several errors is refused once, with every wrong field named', async () => {
    const refused = await problem(await send('POST', '/things/too-long?loud=maybe&what=this', { n: 11, inner: { deep: 'yes', more: 1 }, extra: true }))
    expect(refused).toMatchObject({ status: 400, code: 'bad_request', inner_error: { code: 'invalid_input' } })
    expect(refused.details!.map(({ message }) => message.split(':', 1)[0]).toSorted()).toEqual([
      'extra',
      'inner.deep',
      'inner.more',
      'loud',
      'n',
      'name',
      'what',
    ])
  })

  test.each([{ n: 1.5 }, { n: '1' }, { n: null }, { n: true }, { n: [1] }, { n: 1e21 }, {}, [], [{ n: 1 }], null, 1, 'text', true])(
    '%j is refused where an object is required',
    async (body) => {
      expect((await send('POST', '/things/a', JSON.stringify(body))).status).toBe(400)
    },
  )

  test('that is broken JSON, not UTF-8, or not declared as JSON is refused, and the error says which', async () => {
    expect((await problem(await send('POST', '/things/a', '{"n":'))).message).toMatch(/^body: /)
    expect((await problem(await send('POST', '/things/a', Uint8Array.of(0x22, 0xff, 0x22)))).message).toMatch(/^body: /)
    expect((await problem(await send('POST', '/things/a', '{"n":1}', { 'content-type': 'text/plain' }))).message).toMatch(/^content-type: /)
    expect((await problem(await send('POST', '/things/a', '{"n":1}', { 'content-type': ';;;' }))).message).toMatch(/^content-type: /)
    expect((await problem(await call('POST', '/things/a'))).message).toMatch(/^body: /)
  })

  test('can be omitted where it is optional: no body, an empty one, and {} are the same', async () => {
    expect((await call('PUT', '/things/a')).status).toBe(200)
    expect((await send('PUT', '/things/a', '')).status).toBe(200)
    expect((await send('PUT', '/things/a', {})).status).toBe(200)
  })

  test('above the limit answers 413, with or without Content-Length', async () => {
    expect(await problem(await send('POST', '/things/a', ' '.repeat(MAX_BODY + 1)))).toMatchObject({
      status: 413,
      code: 'payload_too_large',
      message: `the body is larger than ${MAX_BODY} bytes`,
    })
    const client = httpRequest(`${origin}/things/a`, { method: 'POST', headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' } })
    client.write(' '.repeat(MAX_BODY))
    client.end(' '.repeat(MAX_BODY))
    const [response] = await once(client, 'response')
    expect((response as { statusCode: number }).statusCode).toBe(413)
    ;(response as { resume(): void }).resume()
  })

  // A server that answers early and closes resets the connection while bytes still arrive. The client then loses the answer.
  test('far above the limit answers 413 to a caller that sends everything before it reads', async () => {
    for (let round = 0; round < 10; round++) {
      const socket = connect((context.app.server.address() as AddressInfo).port, '127.0.0.1')
      const answer = wholeText(socket).catch((error: NodeJS.ErrnoException) => `none, but ${error.code}`)
      socket.write(
        `POST /things/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: ${LARGE}\r\n\r\n`,
      )
      for (let sent = 0; sent < LARGE && socket.writable; sent += LARGE / 64) {
        socket.write(Buffer.alloc(LARGE / 64, ' '))
        await turn()
      }
      expect((await answer).split('\r\n', 1)[0]).toBe('HTTP/1.1 413 Payload Too Large')
    }
  })

  test('of exactly the limit is accepted', async () => {
    expect((await send('POST', '/things/a', '{"n":1}'.padEnd(MAX_BODY))).status).toBe(201)
  })
})

describe('an answer', () => {
  test('without content is 204 without a body, or 200 with length 0', async () => {
    const dropped = await call('DELETE', '/things/a')
    expect([dropped.status, await dropped.text()]).toEqual([204, ''])
    const touched = await call('PUT', '/things/a')
    expect([touched.status, touched.headers.get('content-length'), await touched.text()]).toEqual([200, '0', ''])
  })

  test('with a page is a bare array, with the next offset in its headers; the last page says 0', async () => {
    const first = await call('GET', '/things?limit=3')
    expect([first.headers.get('x-has-more'), first.headers.get('x-next-offset'), await first.json()]).toEqual(['true', '3', [0, 1, 2]])
    const last = await call('GET', '/things?limit=3&offset=3')
    expect([last.headers.get('x-has-more'), last.headers.get('x-next-offset'), await last.json()]).toEqual(['false', '0', [3, 4, 5]])
  })

  test('for a limit above 100 has 100 items, and without a limit 20', async () => {
    expect(await (await call('GET', '/things?limit=100000')).json()).toHaveLength(100)
    expect(await (await call('GET', '/things')).json()).toHaveLength(20)
  })

  test.each(['limit=0', 'limit=-1', 'limit=1.5', 'limit=x', 'limit=', 'limit=1&limit=2', 'offset=-1', 'offset=1e99', 'limit[a]=1'])(
    'for the invalid page ?%s is 400',
    async (query) => {
      expect((await call('GET', `/things?${query}`)).status).toBe(400)
    },
  )

  test('of a handler that throws is 500 without the cause, which is in the log under the request id', async () => {
    const response = await call('POST', '/broken', { headers: { 'x-request-id': 'look-for-me' } })
    expect(response.headers.get('x-should-retry')).toBe('false')
    const words = await response.text()
    expect([response.status, words.includes('hunter2')]).toEqual([500, false])
    expect(logged.find(({ fields }) => (fields as { request: string }).request === 'look-for-me')?.fields).toMatchObject({
      err: expect.objectContaining({ message: 'the password is hunter2' }),
    })
  })

  test('of a wait that ran out, whose code is a number, is 500 as well', async () => {
    expect(await problem(await call('POST', '/late'))).toMatchObject({ status: 500, code: 'internal_error' })
  })

  test('with a conflict tells clients not to retry', async () => {
    const response = await call('POST', '/conflict')
    expect(response.headers.get('x-should-retry')).toBe('false')
    expect(await problem(response)).toEqual({ status: 409, code: 'conflict', message: 'it is there' })
  })

  test('that is not ready in time is 504, and names the limit', async () => {
    const response = await call('GET', '/slow')
    expect(response.headers.get('x-should-retry')).toBe('false')
    expect(await problem(response)).toEqual({ status: 504, code: 'deadline_exceeded', message: `not done within ${DEADLINE_MS} ms` })
  })
})
