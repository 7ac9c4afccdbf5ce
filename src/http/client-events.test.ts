// Event streams that the client reads: our own, and possible answers of another server.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { silentLog } from '../base/log.ts'
import { within } from '../base/wait.ts'
import { openEvents } from './client.ts'
import type { Endpoint } from './endpoint.ts'
import { mount } from './mount.ts'
import { events, route } from './route.ts'
import { makeServer } from './server.ts'
import { EVENT_ID, EVENT_JSON, EVENT_NAME, eventStream } from './sse.ts'

const SOON_MS = 10_000
const watch = route({ method: 'GET', path: '/watch', id: 'watch', group: 'Test', summary: '', deadlineMs: Infinity, reply: events(z.object({ n: z.int() })) })

async function read(endpoint: Endpoint): Promise<unknown[]> {
  const read: unknown[] = []
  const { signal } = new AbortController()
  for await (const batch of await openEvents(endpoint, watch, {}, { signal, maxLineBytes: 1_000, maxValues: 1_000 })) read.push(...batch)
  return read
}

/** A server that answers with these pieces, one after the other, and then ends the answer or keeps it open. */
async function saying(pieces: string[], isEnding = true): Promise<{ endpoint: Endpoint; left: Promise<unknown> } & AsyncDisposable> {
  const left = Promise.withResolvers<void>()
  const server = createServer((_, response) => {
    response.on('close', () => left.resolve())
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const piece of pieces) response.write(piece)
    if (isEnding) response.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    endpoint: { host: '127.0.0.1', port: (server.address() as AddressInfo).port },
    left: left.promise,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

test('events of a server of ours come parsed and in order, with and without numbers', async () => {
  const context = makeServer({ log: silentLog, authenticate: async () => undefined })
  mount(
    context,
    { watch },
    {
      async *watch() {
        yield { n: 1 }
        yield { [EVENT_ID]: 2, n: 2 }
        yield { [EVENT_ID]: 3, [EVENT_JSON]: '{"n":3}' } as unknown as { n: number }
        // Only an id: there is no event.
        yield { [EVENT_ID]: 4, [EVENT_JSON]: '' } as unknown as { n: number }
      },
    },
  )
  await context.app.listen({ host: '127.0.0.1', port: 0 })
  try {
    expect(await read({ host: '127.0.0.1', port: (context.app.server.address() as AddressInfo).port })).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
  } finally {
    await context.app.close()
  }
})

test('comments and other fields are passed over, however the frames are cut', async () => {
  await using server = await saying([': open\n', '\nid: 1\nda', 'ta: {"n":', '1}\n\n: still here\n\nevent: x\ndata: {"n":2}\n', '\n'])
  expect(await read(server.endpoint)).toEqual([{ n: 1 }, { n: 2 }])
})

test.each([
  ['data: {"n":"x"}\n\n', 'n: '],
  ['data: no\n\n', 'not JSON'],
  [`data: {"n":1,"m":[${'0,'.repeat(5_000)}0]}\n\n`, 'values'],
  ['x'.repeat(2_000), 'a line has more than 1000 bytes'],
])('what is no event is refused by the name of the route', async (text, why) => {
  await using server = await saying([text])
  await expect(read(server.endpoint)).rejects.toThrow(why)
})

test('a reader who leaves ends the request', async () => {
  await using server = await saying(['data: {"n":1}\n\n'], false)
  const leave = new AbortController()
  const reading = async () => {
    for await (const _ of await openEvents(server.endpoint, watch, {}, { signal: leave.signal, maxLineBytes: 1_000, maxValues: 1_000 }))
      leave.abort(new Error('left'))
  }
  await expect(reading()).rejects.toThrow('left')
  await within('the end of the request', SOON_MS, server.left)
  await using other = await saying(['data: {"n":1}\n\n'], false)
  for await (const _ of await openEvents(other.endpoint, watch, {}, { signal: new AbortController().signal, maxLineBytes: 1_000, maxValues: 1_000 })) break
  await within('the end of the request', SOON_MS, other.left)
})

test('an event may have a name for readers that choose by it; its data are the same', async () => {
  async function* named() {
    yield { [EVENT_NAME]: 'state', event: 'state', n: 1 }
    yield { event: 'other' }
  }
  const { signal } = new AbortController()
  expect(await text(eventStream(named(), signal, silentLog))).toBe(': open\n\nevent: state\ndata: {"event":"state","n":1}\n\ndata: {"event":"other"}\n\n')
})
