// Calls made from routes: the requests at the server, and the checks of its answers. The routes are a small contract of the test.
import fc from 'fast-check'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import * as z from 'zod'
import { silentLog } from '../base/log.ts'
import { within } from '../base/wait.ts'
import { call, CallFailed, openLines, openStream } from './client.ts'
import type { Endpoint } from './endpoint.ts'
import { fault } from './fault.ts'
import { mount } from './mount.ts'
import { bytes, byteStream, json, lines, none, queryBoolean, route } from './route.ts'
import { makeServer } from './server.ts'

/** Limit on work that takes milliseconds on an idle machine. */
const SOON_MS = 10_000

const group = 'Test'
const Echo = z.object({ name: z.string().max(100), at: z.int().min(0).max(1_000), loud: z.boolean(), body: z.object({ text: z.string().max(200) }) })
const Line = z.object({ n: z.int().min(0) })
const contract = {
  echo: route({
    method: 'POST',
    path: '/things/{name}/echo',
    id: 'echo',
    group,
    summary: '',
    params: z.strictObject({ name: z.string() }),
    query: z.strictObject({ at: z.coerce.number().int(), loud: queryBoolean.optional() }),
    body: z.strictObject({ text: z.string() }),
    reply: json(Echo, 201),
  }),
  drop: route({
    method: 'DELETE',
    path: '/things/{name}/{part}',
    id: 'drop',
    group,
    summary: '',
    params: z.strictObject({ name: z.string(), part: z.string() }),
    reply: none(),
  }),
  store: route({
    method: 'PUT',
    path: '/store',
    id: 'store',
    group,
    summary: '',
    body: byteStream,
    bodyKind: 'bytes',
    reply: json(z.object({ length: z.int() })),
  }),
  read: route({ method: 'GET', path: '/read', id: 'read', group, summary: '', reply: bytes('application/octet-stream') }),
  count: route({
    method: 'GET',
    path: '/count',
    id: 'count',
    group,
    summary: '',
    query: z.strictObject({ to: z.coerce.number().int() }),
    reply: lines(Line),
  }),
  refuse: route({ method: 'POST', path: '/refuse', id: 'refuse', group, summary: '', body: z.strictObject({}), bodyOptional: true, reply: none() }),
}

const signal = new AbortController().signal
const dropped: object[] = []
const context = makeServer({ log: silentLog, authenticate: async () => undefined })
mount(context, contract, {
  echo: ({ params, query, body }) => ({ name: params.name, at: query.at, loud: query.loud ?? false, body }),
  drop: ({ params }) => void dropped.push(params),
  async store({ body }) {
    let length = 0
    for await (const chunk of body as AsyncIterable<Buffer>) length += chunk.length
    return { length }
  },
  read: () => Readable.from(['one', 'two']),
  async *count({ query }) {
    for (let n = 0; n < query.to; n++) yield { n }
  },
  refuse() {
    throw fault.conflict('it is there')
  },
})

let endpoint: Endpoint
beforeAll(async () => {
  await context.app.listen({ host: '127.0.0.1', port: 0 })
  endpoint = { host: '127.0.0.1', port: (context.app.server.address() as AddressInfo).port }
})
afterAll(async () => {
  context.app.server.closeAllConnections()
  await context.app.close()
})

/** A server that answers every request in this way. */
async function hostile(
  answer: (response: ServerResponse, request: IncomingMessage) => unknown,
): Promise<{ endpoint: Endpoint; server: ReturnType<typeof createServer> } & AsyncDisposable> {
  const server = createServer((request, response) => void answer(response, request))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    endpoint: { host: '127.0.0.1', port: (server.address() as AddressInfo).port },
    server,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

const failure = async (work: Promise<unknown>): Promise<CallFailed> => {
  const error: unknown = await within('a call to fail', SOON_MS, work).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(CallFailed)
  return error as CallFailed
}
const GOOD = { name: 'a', at: 1, loud: false, body: { text: 'x' } }
const input = { params: { name: 'a' }, query: { at: 1 }, body: { text: 'x' } }
const endless = (response: ServerResponse, chunk: string | Buffer) => {
  const more = () => {
    while (!response.destroyed && response.write(chunk));
    if (!response.destroyed) response.once('drain', () => setImmediate(more))
  }
  more()
}

describe('a call', () => {
  test('brings params, query and body to the handler, and its reply back', async () => {
    const sent = { params: { name: 'a b/ü?#%' }, query: { at: 7, loud: 'true' as const }, body: { text: 'é\n"' } }
    expect(await call(endpoint, contract.echo, sent, { signal })).toEqual({ name: 'a b/ü?#%', at: 7, loud: true, body: { text: 'é\n"' } })
  })

  test('encodes every text in a path so that the handler gets the same text, and no other route is called', async () => {
    // Servers refuse U+0000 in a path, and parts of more than 100 characters.
    const part = fc.string({ unit: 'binary', minLength: 1, maxLength: 20 }).filter((text) => !text.includes('\0'))
    await fc.assert(
      fc.asyncProperty(part, part, async (name, other) => {
        dropped.length = 0
        await call(endpoint, contract.drop, { params: { name, part: other } }, { signal })
        expect(dropped).toEqual([{ name, part: other }])
      }),
      { numRuns: 50 },
    )
  })

  test('with an empty text for a part of the path is not sent', async () => {
    await expect(call(endpoint, contract.drop, { params: { name: '', part: 'x' } }, { signal })).rejects.toThrow(
      '/things/{name}/{part} needs a value for "name"',
    )
  })

  test('streams a body, and sends an optional one that is not given', async () => {
    expect(await call(endpoint, contract.store, { body: Readable.from([Buffer.alloc(100_000), Buffer.alloc(7)]) }, { signal })).toEqual({ length: 100_007 })
    expect(await failure(call(endpoint, contract.refuse, {}, { signal }))).toMatchObject({ status: 409 })
  })

  test('that is refused carries the status, what the server said, and the name of the route', async () => {
    const error = await failure(call(endpoint, contract.refuse, {}, { signal }))
    expect(error).toMatchObject({ route: 'refuse', status: 409, message: expect.stringMatching(/^refuse \(POST \/refuse\) answered 409: .*it is there/) })
    expect(JSON.parse(error.said)).toMatchObject({ code: 'conflict', message: 'it is there' })
  })

  test('to a server that does not exist fails with the name of the route and without a status', async () => {
    const error = await failure(call({ socketPath: '/nowhere/agent.sock' }, contract.echo, input, { signal }))
    expect(error).toMatchObject({ route: 'echo', status: undefined, isUnreceived: true, message: expect.stringMatching(/^echo \(POST .*ENOENT/) })
    await using server = await hostile((response) => response.destroy())
    expect(await failure(call(server.endpoint, contract.echo, input, { signal }))).toMatchObject({ status: undefined, isUnreceived: false })
  })
})

describe('an answer is refused by the name of its route', () => {
  test.each([
    ['another type', JSON.stringify({ ...GOOD, at: 'one' }), 'at: expected number, received string'],
    ['a number out of its range', JSON.stringify({ ...GOOD, at: 1_001 }), 'at: expected number to be <=1000'],
    ['a text that is too long', JSON.stringify({ ...GOOD, name: 'n'.repeat(101) }), 'name: '],
    ['a missing field', JSON.stringify({ ...GOOD, body: {} }), 'body.text: '],
    ['a list', '[]', 'expected object'],
    ['no JSON', 'hello', 'it is not JSON'],
    ['nothing', '', 'it is not JSON'],
    ['null', 'null', 'expected object'],
  ])('when it is %s', async (_, body, why) => {
    await using server = await hostile((response) => response.writeHead(201).end(body))
    const error = await failure(call(server.endpoint, contract.echo, input, { signal }))
    expect(error.message).toMatch(/^echo \(POST \/things\/{name}\/echo\) gave an answer that the route does not have: /)
    expect(error.message).toContain(why)
  })

  test.each([200, 204, 302, 404, 500, 999])('when its status is %i', async (status) => {
    await using server = await hostile((response) => response.writeHead(status).end(status === 204 ? undefined : JSON.stringify(GOOD)))
    expect(await failure(call(server.endpoint, contract.echo, input, { signal }))).toMatchObject({ route: 'echo', status })
  })

  test('when there is a body where the route has none', async () => {
    const empty = { ...contract.drop, reply: none(200) }
    await using server = await hostile((response) => endless(response, 'x'.repeat(1_000)))
    expect((await failure(call(server.endpoint, empty, { params: { name: 'a', part: 'b' } }, { signal }))).message).toContain('it has a body')
  })

  test('when it has more bytes than the limit, and the connection is closed', async () => {
    const closed = Promise.withResolvers<void>()
    await using server = await hostile((response) => {
      response.on('close', () => closed.resolve()).writeHead(201)
      endless(response, ' '.repeat(10_000))
    })
    expect((await failure(call(server.endpoint, contract.echo, input, { signal, maxBytes: 5_000 }))).message).toContain('it has more than 5000 bytes')
    await within('the connection to close', SOON_MS, closed.promise)
    expect((await failure(call(server.endpoint, contract.echo, input, { signal }))).message).toContain('it has more than 1048576 bytes')
  })

  test('when it has very many values', async () => {
    await using server = await hostile((response) => response.writeHead(201).end(`[${'{},'.repeat(300_000)}{}]`))
    expect((await failure(call(server.endpoint, contract.echo, input, { signal }))).message).toContain('it has more than 65536 values')
  })

  test('and a long text of the server is cut: 500 characters in the message, 2,000 in the reason, 65,536 beside it', async () => {
    await using server = await hostile((response) => {
      response.writeHead(500)
      endless(response, 'é'.repeat(10_000))
    })
    const error = await failure(call(server.endpoint, contract.echo, input, { signal }))
    expect(error.message.length).toBeLessThan(600)
    expect([error.said.length, error.reason]).toEqual([65_536, 'é'.repeat(2_000)])
    await using names = await hostile((response) =>
      response.writeHead(201).end(JSON.stringify({ ...GOOD, at: 'x'.repeat(5_000), [`${'k'.repeat(5_000)}`]: 1 })),
    )
    expect((await failure(call(names.endpoint, contract.echo, input, { signal }))).message.length).toBeLessThan(600)
  })

  test('when it breaks off', async () => {
    await using server = await hostile((response) => {
      response.writeHead(201, { 'content-length': '100' }).write('{"name"')
      setImmediate(() => response.destroy())
    })
    expect((await failure(call(server.endpoint, contract.echo, input, { signal }))).message).toMatch(/^echo .* broke off/)
  })
})

describe('an abort', () => {
  const reason = new Error('the caller left')

  test.each<[string, (response: ServerResponse) => void]>([
    ['before the head', () => {}],
    ['within the body', (response) => void response.writeHead(201, { 'content-length': '100' }).write('{')],
    ['within the text of an error', (response) => void response.writeHead(500, { 'content-length': '100' }).write('{')],
  ])('%s ends the request, and the call with its reason', async (_, answer) => {
    const asked = Promise.withResolvers<void>()
    const left = Promise.withResolvers<void>()
    await using server = await hostile((response, request) => {
      request.socket.on('close', () => left.resolve())
      answer(response)
      asked.resolve()
    })
    const stop = new AbortController()
    const calling = call(server.endpoint, contract.echo, input, { signal: stop.signal })
    calling.catch(() => {})
    await within('the request', SOON_MS, asked.promise)
    await turn()
    stop.abort(reason)
    await expect(within('the call to end', SOON_MS, calling)).rejects.toBe(reason)
    await within('the connection to close', SOON_MS, left.promise)
  })

  test('before the call sends nothing', async () => {
    let count = 0
    await using server = await hostile((response) => {
      count++
      response.end()
    })
    await expect(call(server.endpoint, contract.echo, input, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    expect(count).toBe(0)
  })

  test('between lines ends their reader with its reason', async () => {
    await using server = await hostile((response) => void response.write('{"n":1}\n'))
    const stop = new AbortController()
    const read = async () => {
      for await (const batch of await openLines(server.endpoint, contract.count, { query: { to: 1 } }, { signal: stop.signal, ...limits })) {
        expect(batch).toEqual([{ n: 1 }])
        stop.abort(reason)
      }
    }
    await expect(within('the reader to end', SOON_MS, read())).rejects.toBe(reason)
  })
})

const limits = { maxLineBytes: 1_000, maxValues: 100_000 }

describe('a stream', () => {
  test('gives the bytes of the answer', async () => {
    const chunks: Buffer[] = []
    for await (const chunk of (await openStream(endpoint, contract.read, {}, signal)) as AsyncIterable<Buffer>) chunks.push(chunk)
    expect(Buffer.concat(chunks).toString()).toBe('onetwo')
  })

  test('that is refused carries the status', async () => {
    await using server = await hostile((response) => response.writeHead(404).end('{"message":"gone"}'))
    expect(await failure(openStream(server.endpoint, contract.read, {}, signal))).toMatchObject({ route: 'read', status: 404, said: '{"message":"gone"}' })
  })
})

describe('lines', () => {
  const all = async (at: Endpoint, options: Partial<Parameters<typeof openLines>[3]> = {}, to = 3) => {
    const read: unknown[] = []
    for await (const batch of await openLines(at, contract.count, { query: { to } }, { signal, ...limits, ...options })) {
      expect(batch.length).toBeGreaterThan(0)
      read.push(...batch)
    }
    return read
  }

  test('come parsed and in order, however they are cut on the way', async () => {
    expect(await all(endpoint, {}, 1_000)).toEqual(Array.from({ length: 1_000 }, (_, n) => ({ n })))
    const text = Buffer.from(Array.from({ length: 50 }, (_, n) => `{"n":${n},"other":"é"}\n`).join(''))
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(text.length), { maxLength: 20 }), async (cuts) => {
        const ends = [...new Set([0, ...cuts, text.length])].toSorted((a, b) => a - b)
        await using server = await hostile(async (response) => {
          for (const [at, end] of ends.slice(1).entries()) {
            response.write(text.subarray(ends[at], end))
            await turn()
          }
          response.end()
        })
        expect(await all(server.endpoint)).toEqual(Array.from({ length: 50 }, (_, n) => ({ n })))
      }),
      { numRuns: 20 },
    )
  })

  test('without an end, or too long, are refused', async () => {
    await using server = await hostile((response) => endless(response, 'x'.repeat(300)))
    expect((await failure(all(server.endpoint))).message).toContain('a line has more than 1000 bytes')
  })

  test.each([
    ['{"n":-1}\n', 'n: '],
    ['{"n":0}\n\n', 'not JSON'],
    ['no\n', 'not JSON'],
    [`{"n":0,"m":[${'0,'.repeat(200_000)}0]}\n`, 'values'],
  ])('of another form are refused by the name of the route', async (body, why) => {
    await using server = await hostile((response) => response.end(body))
    const error = await failure(all(server.endpoint, { maxLineBytes: 1_000_000 }))
    expect(error.message).toMatch(/^count \(GET \/count\) gave an answer that the route does not have: /)
    expect(error.message).toContain(why)
  })

  test('are not parsed when the listener refuses their bytes', async () => {
    await using server = await hostile((response) => response.end('no\n'))
    const refuse = () => {
      throw new Error('too much')
    }
    await expect(all(server.endpoint, { onBytes: refuse })).rejects.toThrow('too much')
  })

  test('that a reader leaves end their request', async () => {
    const left = Promise.withResolvers<void>()
    await using server = await hostile((response) => {
      response.on('close', () => left.resolve())
      endless(response, '{"n":1}\n')
    })
    for await (const _ of await openLines(server.endpoint, contract.count, { query: { to: 1 } }, { signal, ...limits })) break
    await within('the request to end', SOON_MS, left.promise)
  })
})

/** Inputs that the routes do not accept do not compile: `npx tsc` fails when one of these compiles. */
export const refusedByTypes = (): unknown[] => [
  // @ts-expect-error no params
  call(endpoint, contract.drop, {}, { signal }),
  // @ts-expect-error a param of another name
  call(endpoint, contract.drop, { params: { name: 'a', id: 'b' } }, { signal }),
  // @ts-expect-error a number where a text belongs
  call(endpoint, contract.echo, { ...input, body: { text: 1 } }, { signal }),
  // @ts-expect-error a query of another type
  call(endpoint, contract.echo, { ...input, query: { at: 'one' } }, { signal }),
  // @ts-expect-error a body for a route that takes none
  call(endpoint, contract.drop, { params: { name: 'a', part: 'b' }, body: {} }, { signal }),
  // @ts-expect-error a route of lines is opened, not called
  call(endpoint, contract.count, {}, { signal }),
]
