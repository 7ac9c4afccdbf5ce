// One client of CDP: the bytes that pass are unchanged, however they are cut, and its commands make events.
import fc from 'fast-check'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { expect, test, vi } from 'vitest'
import { assertEvent } from '../../../../test/support/telemetry-schemas.ts'
import { FrameBoundary, splice } from '../../../http/splice.ts'
import { TYPES, type Category, type CdpCommand, type SettableCategory, type TelemetryEvent, type TelemetryFit } from '../contract.ts'
import type { NewEvent, Telemetry } from '../telemetry.ts'
import { cdpClient } from './cdp-client.ts'

/** Telemetry that records its events. */
class Received implements Telemetry {
  readonly events: TelemetryEvent[] = []
  readonly #listeners = new Set<(captured: TelemetryFit) => void>()
  excluded: ReadonlySet<string> = new Set()
  floor = 0
  #captured: ReadonlySet<Category>

  constructor(...categories: SettableCategory[]) {
    this.#captured = new Set(categories)
  }

  capture(categories: SettableCategory[], excluded: CdpCommand[] = []): void {
    this.#captured = new Set(categories)
    this.excluded = new Set(excluded)
    for (const listener of this.#listeners) listener({ categories, excluded_methods: excluded })
  }

  get listeners(): number {
    return this.#listeners.size
  }

  captures(category: Category): boolean {
    return this.#captured.has(category)
  }

  emit({ type, source, data }: NewEvent): void {
    if (!this.captures(TYPES[type])) return
    const event = { type, category: TYPES[type], ts: 1, source, data } as TelemetryEvent
    this.events.push(assertEvent(JSON.parse(JSON.stringify({ seq: this.events.length + 1, event }))).event)
  }

  onChange(listener: (captured: TelemetryFit) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** The ids of the commands in its events. */
  get commands(): unknown[] {
    return this.events.flatMap(({ type, data }) => (type === 'cdp_command' ? [data!.command_id] : []))
  }

  get end(): Record<string, unknown> {
    return this.events.find(({ type }) => type === 'cdp_disconnect')!.data!
  }
}

interface Frame {
  opcode?: number
  fin?: boolean
  mask?: number
  reserved?: number
  isMasked?: boolean
}

function frame(payload: Buffer, { opcode = 1, fin = true, mask = 0x12_34_56_78, reserved = 0, isMasked = true }: Frame = {}): Buffer {
  const length = payload.length
  const size = length < 126 ? 0 : length < 65_536 ? 2 : 8
  const head = Buffer.alloc(2 + size + (isMasked ? 4 : 0))
  head[0] = (fin ? 0x80 : 0) | reserved | opcode
  head[1] = (isMasked ? 0x80 : 0) | (size === 0 ? length : size === 2 ? 126 : 127)
  if (size === 2) head.writeUInt16BE(length, 2)
  if (size === 8) head.writeBigUInt64BE(BigInt(length), 2)
  const body = Buffer.from(payload)
  if (isMasked) {
    head.writeUInt32BE(mask, 2 + size)
    for (let at = 0; at < length; at++) body[at]! ^= head[2 + size + (at & 3)]!
  }
  return Buffer.concat([head, body])
}

const text = (message: unknown, how?: Frame) => frame(Buffer.from(typeof message === 'string' ? message : JSON.stringify(message)), how)
const answer = (id: number) => text({ id, result: {} }, { isMasked: false })
const insert = (id: number, typed = 'secret') => ({ id, method: 'Input.insertText', params: { text: typed }, sessionId: 'S' })
const both: SettableCategory[] = ['control', 'connection']

/** Ends a client that closes its connection. */
const left = async () => 'client_close' as const

/** The events of a client that sends these pieces. */
async function receivedBy(pieces: Buffer[], received = new Received(...both)): Promise<Received> {
  const client = cdpClient(received, { messages: 0 })
  for (const piece of pieces) {
    client.sent(piece)
    await Promise.resolve()
  }
  await client.end(left)
  return received
}

/** Cuts bytes into pieces. */
const cut = (bytes: Buffer, lengths: number[]): Buffer[] => {
  const pieces: Buffer[] = []
  for (let at = 0, index = 0; at < bytes.length; index++) {
    const length = lengths.length > 0 ? lengths[index % lengths.length]! : bytes.length
    pieces.push(bytes.subarray(at, at + length))
    at += length
  }
  return pieces
}

/** One message in several frames, with pings between them. */
const framed = (payload: Buffer, parts: number[], mask: number): Buffer => {
  const pieces = cut(payload, parts)
  const frames = pieces.map((piece, index) => frame(piece, { opcode: index === 0 ? 1 : 0, fin: index === pieces.length - 1, mask }))
  return Buffer.concat(frames.flatMap((one, index) => (index % 3 === 1 ? [frame(Buffer.from('ping'), { opcode: 9, mask }), one] : [one])))
}

test('commands are told however frames are cut, fragmented and masked', async () => {
  const message = fc.record({
    typed: fc.oneof(fc.string({ maxLength: 40 }), fc.string({ minLength: 600, maxLength: 2_000 })),
    parts: fc.array(fc.integer({ min: 1, max: 700 }), { minLength: 1, maxLength: 4 }),
    mask: fc.integer({ min: 0, max: 0xffff_ffff }),
    isTold: fc.boolean(),
  })
  const splits = fc.array(fc.integer({ min: 1, max: 900 }), { minLength: 1, maxLength: 6 })
  await fc.assert(
    fc.asyncProperty(fc.array(message, { minLength: 1, maxLength: 6 }), splits, async (messages, lengths) => {
      const said = messages.map(({ typed, isTold }, id) => (isTold ? insert(id, typed) : { id, method: 'Runtime.evaluate', params: { expression: typed } }))
      const bytes = Buffer.concat(said.map((it, index) => framed(Buffer.from(JSON.stringify(it)), messages[index]!.parts, messages[index]!.mask)))
      const received = await receivedBy(cut(bytes, lengths))
      expect(received.commands).toEqual(messages.flatMap(({ isTold }, id) => (isTold ? [id] : [])))
      expect(received.end).toMatchObject({ message_count: messages.length, telemetry_dropped: 0, telemetry_excluded: 0 })
    }),
    { numRuns: 200 },
  )
})

test('whatever bytes come, it goes on, and tells nothing that is no event of the contract', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 20 }), async (pieces) => {
      const received = await receivedBy(pieces.map((piece) => Buffer.from(piece)))
      expect(received.listeners).toBe(0)
    }),
    { numRuns: 300 },
  )
})

/** The two ends of a connection that splice joins, watched by `told`. */
async function joined(received: Received) {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const pair = async (): Promise<[Socket, Socket]> => {
    const accepted = once(server, 'connection')
    const far = connect((server.address() as AddressInfo).port, '127.0.0.1')
    const [near] = (await accepted) as [Socket]
    return [far, near]
  }
  const [client, clientSide] = await pair()
  const [browser, browserSide] = await pair()
  const boundary = new FrameBoundary()
  const watched = cdpClient(received, boundary)
  const ended = splice(clientSide, browserSide, Buffer.alloc(0), () => ({ code: 4003, reason: {} }), undefined, watched, boundary).then(() => watched.end(left))
  return { client, browser, ended, [Symbol.dispose]: () => void server.close() }
}

async function passed(from: Socket, to: Socket, pieces: Buffer[]): Promise<Buffer> {
  const got: Buffer[] = []
  const wanted = pieces.reduce((sum, { length }) => sum + length, 0)
  const all = new Promise<void>((resolve) =>
    to.on('data', (chunk: Buffer) => {
      got.push(chunk)
      if (got.reduce((sum, { length }) => sum + length, 0) >= wanted) resolve()
    }),
  )
  for (const piece of pieces) {
    from.write(piece)
    await new Promise(setImmediate)
  }
  if (wanted > 0) await all
  to.removeAllListeners('data')
  return Buffer.concat(got)
}

test('the bytes that pass are the bytes that came, in both directions, whether it watches or not', async () => {
  const random = fc.uint8Array({ minLength: 1, maxLength: 400 }).map((bytes) => Buffer.from(bytes))
  const command = fc
    .tuple(fc.string(), fc.integer({ min: 1, max: 200 }))
    .map(([typed, part]) => framed(Buffer.from(JSON.stringify(insert(1, typed))), [part], 7))
  const pieces = fc.array(fc.oneof(random, command), { minLength: 1, maxLength: 8 })
  await fc.assert(
    fc.asyncProperty(pieces, pieces, fc.boolean(), async (sent, answers, watches) => {
      using it = await joined(watches ? new Received(...both) : new Received())
      expect((await passed(it.client, it.browser, sent)).equals(Buffer.concat(sent))).toBe(true)
      expect((await passed(it.browser, it.client, answers)).equals(Buffer.concat(answers))).toBe(true)
      it.client.destroy()
      await it.ended
      it.browser.destroy()
    }),
    { numRuns: 40 },
  )
})

test('its connection and end are told, with the messages of both directions', async () => {
  const received = new Received(...both)
  const answers = new FrameBoundary()
  const client = cdpClient(received, answers)
  client.sent(text(insert(1)))
  answers.push(answer(1))
  answers.push(text({ method: 'Page.loadEventFired', params: {} }, { isMasked: false, fin: false }))
  answers.push(text(' ', { isMasked: false, opcode: 0 }))
  answers.push(frame(Buffer.from('x'), { opcode: 10, isMasked: false }))
  await Promise.resolve()
  expect(client.hasClosed).toBe(false)
  client.sent(frame(Buffer.from([3, 232]), { opcode: 8 }))
  await client.end(left)
  expect(client.hasClosed).toBe(true)
  expect(received.events.map(({ type }) => type)).toEqual(['cdp_connect', 'cdp_command', 'cdp_disconnect'])
  expect(received.end).toMatchObject({ message_count: 3, reason: 'client_close', telemetry_dropped: 0, telemetry_excluded: 0 })
  expect(new Set(received.events.map(({ data }) => data!.connection_id)).size).toBe(1)
})

test('what a client of the caller before does is not told when the browser has gone to the next one', async () => {
  const received = new Received(...both)
  const client = cdpClient(received, { messages: 0 })
  const why = Promise.withResolvers<'upstream_error'>()
  const ending = client.end(() => why.promise)
  received.floor = 7
  why.resolve('upstream_error')
  await ending
  expect(received.events.map(({ type }) => type)).toEqual(['cdp_connect'])
})

test('of one second about eight megabytes of commands are read, the others are counted', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  try {
    const received = await receivedBy(Array.from({ length: 30 }, (_, id) => text(insert(id, 'x'.repeat(1_000_000)))))
    expect(received.commands).toHaveLength(9)
    expect(received.end.telemetry_dropped).toBe(21)
  } finally {
    vi.useRealTimers()
  }
})

test.each([
  ['longer than a megabyte', text(insert(1, 'x'.repeat(1024 * 1024)))],
  ['compressed', text(insert(1), { reserved: 0x40 })],
  ['binary', text(insert(1), { opcode: 2 })],
  ['no JSON', text('{"id":1,"method":"Input.insertText","params":{')],
  ['without an argument that it needs', text({ id: 1, method: 'Input.insertText', params: {} })],
  ['with its method far behind', text({ id: 1, params: { text: 'x'.repeat(600) }, method: 'Input.insertText' })],
])('a command that is %s is counted as dropped, and those after it are told', async (_what, bytes) => {
  const received = await receivedBy([...cut(bytes, [65_536]), text(insert(2))])
  expect(received.commands).toEqual([2])
  expect(received.end).toMatchObject({ message_count: 2, telemetry_dropped: 1 })
})

test.each([
  ['spaces, as Python writes JSON', '{"id": 1, "method": "Input.insertText", "params": {"text": "x"}}'],
  ['its id at the end, as Puppeteer writes it', '{"method":"Input.insertText","params":{"text":"x"},"id":1}'],
  ['an argument before that looks like a method', '{"params":{"text":"x","method":"Runtime.evaluate"},"method":"Input.insertText","id":1}'],
])('a command with %s is told', async (_what, message) => {
  expect((await receivedBy([text(message)])).commands).toEqual([1])
})

test('an argument that looks like a method makes no event', async () => {
  const received = await receivedBy([
    text({ id: 1, method: 'Foo.bar', params: { method: 'Page.reload' } }),
    text({ id: 2, params: JSON.stringify(insert(3)), method: 'Foo.bar' }),
  ])
  expect(received.commands).toEqual([])
  expect(received.end).toMatchObject({ telemetry_dropped: 0 })
})

test('a client that is connected already is told of from the next message on that can be read', async () => {
  const received = new Received()
  const answers = new FrameBoundary()
  const client = cdpClient(received, answers)
  const bytes = text(insert(1, 'x'.repeat(400)))
  client.sent(bytes.subarray(0, 200))
  answers.push(answer(0))
  received.capture(both)
  client.sent(bytes.subarray(200))
  client.sent(Buffer.concat([text(insert(2)), text(insert(3))]))
  answers.push(answer(3))
  await Promise.resolve()
  received.capture([])
  client.sent(text(insert(4)))
  answers.push(answer(4))
  received.capture(both)
  client.sent(text(insert(5)))
  await client.end(left)
  expect(received.commands).toEqual([2, 3, 5])
  expect(received.events.map(({ type }) => type)).not.toContain('cdp_connect')
  expect(received.end).toMatchObject({ message_count: 4, telemetry_dropped: 1 })
})

test('only one of the two categories: commands without the connection, and the connection without commands', async () => {
  const control = await receivedBy([text(insert(1))], new Received('control'))
  expect(control.events.map(({ type }) => type)).toEqual(['cdp_command'])
  const connection = await receivedBy([text(insert(1)), text(insert(2, 'x'.repeat(1024 * 1024)))], new Received('connection'))
  expect(connection.events.map(({ type }) => type)).toEqual(['cdp_connect', 'cdp_disconnect'])
  expect(connection.end).toMatchObject({ message_count: 2, telemetry_dropped: 0 })
})

test('while nothing is captured nothing is told, and nothing of what passes is kept', async () => {
  const received = await receivedBy([text(insert(1)), text(insert(2))], new Received('system'))
  expect(received.events).toEqual([])
  expect(received.listeners).toBe(0)
})
