// Events of a runner. Untrusted code may send them, so no event may break the store or exceed a limit.
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, test } from 'vitest'
import { session } from '../../../agent/session/contract.ts'
import { within } from '../../../base/wait.ts'
import { MAX_LOG_LINE, type RunnerEvent } from '../../../runner/contract.ts'
import { CALLS } from '../../../runner/limits.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import { paced, runnerEvents } from './runner-events.ts'

const signal = new AbortController().signal

/** A runner that answers every request by `answer`. */
async function runner(answer: (response: ServerResponse) => void): Promise<{ endpoint: Endpoint } & AsyncDisposable> {
  const server = createServer((request, response) => void request.resume().on('end', () => answer(response)))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    endpoint: { host: '127.0.0.1', port: (server.address() as AddressInfo).port },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
async function received(...events: unknown[]): Promise<RunnerEvent[]> {
  await using said = await runner((response) => response.end(events.map((event) => `${JSON.stringify(event)}\n`).join('')))
  const read: RunnerEvent[] = []
  for await (const stretch of runnerEvents(said.endpoint, 0, signal)) read.push(...stretch)
  return read
}
const log = (seq: number, line: string, at = new Date().toISOString()) => ({ seq, at, type: 'log', line })
const failed = (seq: number, reason = 'x') => ({ seq, at: new Date().toISOString(), type: 'failed', reason })

describe('the events of a runner', () => {
  test('arrive as they were sent', async () => {
    const events = [log(1, 'one'), log(2, ''), failed(3)]
    expect(await received(...events)).toEqual(events)
  })

  test.each(['', 'yesterday', '9999-12-31T00:00:00Z', '1970-01-01T00:00:00Z', '+275760-09-13T00:00:00.001Z'])(
    'with the invalid time %j get the current time',
    async (at) => {
      const before = Date.now()
      const [event] = await received(log(1, 'one', at), failed(2))
      expect(Date.parse(event!.at)).toBeGreaterThanOrEqual(before)
      expect(Date.parse(event!.at)).toBeLessThanOrEqual(Date.now())
    },
  )

  test('have lines of 64 KiB at most, cut between characters', async () => {
    const [long, wide, exact] = await received(log(1, 'x'.repeat(100_000)), log(2, `x${'€'.repeat(30_000)}`), log(3, 'y'.repeat(MAX_LOG_LINE)), failed(4))
    expect(long).toMatchObject({ line: 'x'.repeat(MAX_LOG_LINE) })
    expect(wide).toMatchObject({ line: `x${'€'.repeat(21_845)}` })
    expect(exact).toMatchObject({ line: 'y'.repeat(MAX_LOG_LINE) })
  })

  test('lose characters that the database cannot store', async () => {
    expect(await received(log(1, 'a\0b\ud800c'), failed(2, '\0'))).toMatchObject([{ line: 'a\ufffdb\ufffdc' }, { reason: '\ufffd' }])
  })

  test.each([
    ['a gap', [log(1, 'one'), log(3, 'three')]],
    ['a repetition', [log(1, 'one'), log(1, 'one')]],
    ['another shape', [{ seq: 1, type: 'log', line: 5 }]],
    ['no last one', [log(1, 'one')]],
    ['a number that is none', [{ ...log(1, 'one'), seq: 0.5 }]],
    ['a time of 65 characters', [log(1, 'one', '0'.repeat(65))]],
    ['a name of 1,025 characters', [{ ...log(1, ''), type: 'loaded', apps: [{ name: 'n'.repeat(1_025), actions: [] }] }]],
  ])('with %s end in an error', async (_, events) => {
    await expect(received(...events)).rejects.toThrow()
  })
})

test('a runner is watched by the same call as an agent', () => {
  expect(CALLS.watch).toEqual({ method: session.watchSession.method, path: session.watchSession.path })
})

describe('events that come very fast', () => {
  async function* batches(count: number, size: number, after?: Error): AsyncGenerator<RunnerEvent[]> {
    for (let batch = 0; batch < count; batch++) yield Array.from({ length: size }, (_, at) => log(batch * size + at + 1, 'x'.repeat(100)) as RunnerEvent)
    if (after) throw after
  }
  const seqs = (read: RunnerEvent[][]) => read.flat().map(({ seq }) => seq)
  const upTo = (count: number) => Array.from({ length: count }, (_, at) => at + 1)

  test('are handed on in few batches, complete and in order', async () => {
    const read: RunnerEvent[][] = []
    for await (const events of paced(batches(2_000, 10))) read.push(events)
    expect(seqs(read)).toEqual(upTo(20_000))
    // A burst of forty batches, and then 4 MB in batches of half a megabyte.
    expect(read.length).toBeLessThan(60)
  })

  test('that end with an error are handed on before it', async () => {
    const read: RunnerEvent[][] = []
    const all = async () => {
      for await (const events of paced(batches(100, 1, new Error('broke')))) read.push(events)
    }
    await expect(all()).rejects.toThrow('broke')
    expect(seqs(read)).toEqual(upTo(100))
  })

  test.each([1, 60])('do not keep a reader that leaves after batch %i while nothing comes', async (count) => {
    async function* thenNothing(): AsyncGenerator<RunnerEvent[]> {
      yield* batches(count, 1)
      await new Promise(() => {})
    }
    const read = async () => {
      let seen = 0
      for await (const events of paced(thenNothing())) if ((seen += events.length) === count) return
    }
    await within('the reader to leave', 5_000, read())
  })

  test('are no longer asked for when their reader leaves', async () => {
    let ended = false
    async function* endless(): AsyncGenerator<RunnerEvent[]> {
      try {
        for (;;) yield* batches(1, 1)
      } finally {
        ended = true
      }
    }
    for await (const _ of paced(endless())) break
    expect(ended).toBe(true)
  })
})
