// Spliced WebSockets: bytes arrive as they were sent, and our close frame comes only between two frames.
import fc from 'fast-check'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { Duplex, duplexPair } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setImmediate as turn } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CRASHED } from '../agent/chromium/crashed.ts'
import { until, within } from '../base/wait.ts'
import { FrameBoundary, closeFrame, splice } from './splice.ts'

const CLOSE = 8
/** A client has a second to receive its close frame. This only limits a splice that never ends. */
const END_MS = 10_000

interface Frame {
  opcode: number
  length: number
  fin: boolean
}

// Lengths around the limits of the three header forms: 7 bits, 16 bits, 64 bits.
const length = fc.oneof(fc.nat(10), fc.constantFrom(0, 1, 125, 126, 127, 65_535, 65_536, 70_000))
const dataFrame = fc.record({ opcode: fc.constantFrom(0, 1, 2, 9, 10), length, fin: fc.boolean() })
const frames = fc.array(dataFrame, { minLength: 1, maxLength: 6 })

/** An unmasked frame whose payload bytes look like headers. */
function frame({ opcode, length: size, fin }: Frame): Buffer {
  const first = (fin ? 0x80 : 0) | opcode
  const header =
    size < 126
      ? [first, size]
      : size < 65_536
        ? [first, 126, size >> 8, size & 0xff]
        : [first, 127, 0, 0, 0, 0, (size >>> 24) & 0xff, (size >> 16) & 0xff, (size >> 8) & 0xff, size & 0xff]
  return Buffer.concat([Buffer.from(header), Buffer.alloc(size, 0x88)])
}

/** `bytes`, cut at the given positions. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [0, ...places.map((place) => place % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length]
  return at.slice(1).map((end, index) => bytes.subarray(at[index], end))
}
const places = fc.array(fc.nat(200_000), { maxLength: 12 })

describe('the WebSocket frame boundary', () => {
  test('is found exactly after complete frames, for any chunks', () => {
    fc.assert(
      fc.property(frames, places, (list, at) => {
        const bytes = list.map(frame)
        const ends = new Set(bytes.map((_, index) => bytes.slice(0, index).reduce((sum, { length: size }) => sum + size, 0)))
        const boundary = new FrameBoundary()
        let seen = 0
        const whole = Buffer.concat(bytes)
        for (const chunk of cut(whole, at)) {
          boundary.push(chunk)
          seen += chunk.length
          expect(boundary.isBetweenFrames).toBe(ends.has(seen) || seen === whole.length)
        }
        expect(boundary.isClosed).toBe(false)
      }),
    )
  })

  test('detects a close frame anywhere, and not in a payload that contains its bytes', () => {
    fc.assert(
      fc.property(fc.array(dataFrame, { maxLength: 4 }), fc.nat(125), places, (list, size, at) => {
        const boundary = new FrameBoundary()
        const before = Buffer.concat(list.map(frame))
        for (const chunk of cut(before, at)) boundary.push(chunk)
        expect(boundary.isClosed).toBe(false)
        for (const chunk of cut(frame({ opcode: CLOSE, length: size, fin: true }), at)) boundary.push(chunk)
        expect(boundary.isClosed).toBe(true)
      }),
    )
  })

  test('counts a payload of 8 GiB that is still arriving', () => {
    const boundary = new FrameBoundary()
    boundary.push(Uint8Array.of(0x82, 127, 0, 0, 0, 2, 0, 0, 0, 0))
    boundary.push(new Uint8Array(100_000))
    expect(boundary.isBetweenFrames).toBe(false)
  })
})

describe("the service's close frame", () => {
  test('has the code and the reason as JSON, also the longest reason', () => {
    for (const close of [{ code: 4001, reason: { reason: 'deleted' } }, CRASHED]) {
      const bytes = closeFrame(close)
      expect([bytes[0], bytes[1], bytes.readUInt16BE(2)]).toEqual([0x88, bytes.length - 2, close.code])
      expect(JSON.parse(bytes.toString('utf8', 4))).toEqual(close.reason)
    }
  })

  test('never exceeds the size of a control frame', () => {
    expect(closeFrame({ code: 4003, reason: { message: 'x'.repeat(500) } })).toHaveLength(2 + 125)
  })
})

describe('a relayed WebSocket', () => {
  const why = { code: 4001, reason: { reason: 'deleted' } }
  // Like the sockets of Node's HTTP server: the other side may end its half first.
  const server = createServer({ allowHalfOpen: true })
  beforeAll(async () => {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
  })
  afterAll(() => void server.close())

  /** Both ends of a connection. */
  async function pair(): Promise<[far: Socket, near: Socket]> {
    const accepted = once(server, 'connection') as Promise<[Socket]>
    const far = connect((server.address() as AddressInfo).port, '127.0.0.1')
    far.on('error', () => {})
    return [far, (await accepted)[0]]
  }

  /** A client and an upstream, spliced: `client` and `upstream` are the far ends. */
  async function joined(head = Buffer.alloc(0), signal?: AbortSignal) {
    const [client, near] = await pair()
    const [far, upstream] = await pair()
    upstream.on('error', () => {})
    return { client, upstream, done: splice(near, far, head, () => why, signal) }
  }

  test('gives the client every byte of the upstream, then a close frame only if the last frame was complete and none had closed', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(dataFrame, fc.constant({ opcode: CLOSE, length: 2, fin: true })), { maxLength: 3 }),
        places,
        fc.nat(200_000),
        fc.nat(100),
        async (list, at, end, headSize) => {
          const whole = Buffer.concat(list.map(frame))
          const sent = whole.subarray(0, end % 3 === 0 ? whole.length : end % (whole.length + 1))
          const boundary = new FrameBoundary()
          boundary.push(sent)
          const head = sent.subarray(0, headSize)
          const { client, upstream, done } = await joined(head)
          const received = buffer(client)
          for (const chunk of cut(sent.subarray(headSize), at)) if (chunk.length > 0) upstream.write(chunk)
          upstream.end()
          const ours = boundary.isBetweenFrames && !boundary.isClosed ? closeFrame(why) : Buffer.alloc(0)
          expect((await received).equals(Buffer.concat([sent, ours]))).toBe(true)
          await done
        },
      ),
      { numRuns: 60 },
    )
  })

  test('whose signal aborts tells the client the reason, and disconnects from the upstream', async () => {
    const ending = new AbortController()
    const { client, upstream, done } = await joined(undefined, ending.signal)
    const text = frame({ opcode: 1, length: 5, fin: true })
    upstream.write(text)
    const [first] = (await once(client, 'data')) as [Buffer]
    expect(first.equals(text)).toBe(true)
    const gone = once(upstream, 'end')
    upstream.resume()
    const rest = buffer(client)
    ending.abort()
    expect((await rest).equals(closeFrame(why))).toBe(true)
    await Promise.all([done, gone])
  })

  test.each(['client', 'upstream'] as const)('takes few pieces for a %s that does not read, however small they are, and loses none', async (slow) => {
    const flushed = Promise.withResolvers<void>()
    const taken: Buffer[] = []
    const receiver = new Duplex({
      read() {},
      async write(chunk: Buffer, _, onTaken: () => void) {
        taken.push(chunk)
        await flushed.promise
        onTaken()
      },
    })
    const [far, sender] = duplexPair()
    const [client, upstream] = slow === 'client' ? [receiver, sender] : [sender, receiver]
    const done = splice(client, upstream, Buffer.alloc(0), () => why)
    const sent = Buffer.from(Array.from({ length: 5_000 }, (_, at) => at % 251))
    for (const byte of sent) {
      far.write(Buffer.from([byte]))
      if (byte === 0) await turn()
    }
    await turn()
    expect(receiver.writableLength).toBeGreaterThan(0)
    expect(receiver.writableLength).toBeLessThan(600)
    flushed.resolve()
    await until('the rest', END_MS, () => Buffer.concat(taken).length >= sent.length)
    far.end()
    receiver.push(null)
    await within('the end', END_MS, done)
    expect(Buffer.concat(taken).subarray(0, sent.length).equals(sent)).toBe(true)
  })

  test('whose client leaves closes the upstream', async () => {
    const { client, upstream, done } = await joined()
    upstream.on('end', () => upstream.end()).resume()
    client.destroy()
    await Promise.all([once(upstream, 'close'), done])
  })

  // A browser that hangs closes nothing. Its session must not count as in use for ever after one client has connected.
  test('whose client leaves closes the upstream also if it no longer answers', async () => {
    const { client, upstream, done } = await joined()
    upstream.resume()
    client.destroy()
    await within('the splice to end', END_MS, done)
    upstream.destroy()
  })

  test.each(['client', 'upstream'] as const)('whose %s left before it was joined ends at once', async (who) => {
    const [client, near] = await pair()
    const [far, upstream] = await pair()
    const [leaver, left] = who === 'client' ? [client, near] : [far, upstream]
    for (const socket of [near, upstream]) socket.on('error', () => {})
    const { promise: seen, resolve } = Promise.withResolvers<void>()
    left.resume().once('close', resolve)
    leaver.resetAndDestroy()
    await within('the end to be seen', END_MS, seen)
    const kept = who === 'client' ? far : client
    kept.on('end', () => kept.end()).resume()
    await within(
      'the splice to end',
      END_MS,
      splice(near, upstream, Buffer.alloc(0), () => why),
    )
    kept.destroy()
  })

  test('whose client breaks off closes the upstream', async () => {
    const { client, upstream, done } = await joined()
    upstream.resume()
    client.resetAndDestroy()
    await Promise.all([once(upstream, 'end'), done])
    upstream.destroy()
  })

  test('whose upstream breaks off tells the client', async () => {
    const { client, upstream, done } = await joined()
    const received = buffer(client)
    upstream.resetAndDestroy()
    expect((await received).equals(closeFrame(why))).toBe(true)
    await done
  })

  test('gives a slow upstream everything that the client sent before it left', async () => {
    const { client, upstream, done } = await joined()
    const sent = Buffer.alloc(8 * 1024 * 1024, 'x')
    client.end(sent)
    let received = 0
    for await (const chunk of upstream as AsyncIterable<Buffer>) {
      received += chunk.length
      await turn()
    }
    expect(received).toBe(sent.length)
    upstream.end()
    client.resume()
    await done
  })

  test('passes on what the client sends, byte for byte, until the client leaves', async () => {
    const { client, upstream, done } = await joined()
    const received = buffer(upstream)
    const sent = Array.from({ length: 50 }, (_, index) => Buffer.alloc(index * 997, index))
    for (const chunk of sent) if (chunk.length > 0) client.write(chunk)
    client.end()
    expect((await received).equals(Buffer.concat(sent))).toBe(true)
    upstream.end()
    client.resume()
    await done
  })
})
