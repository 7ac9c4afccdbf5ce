// Parsing viewers' messages: complete messages from chunks of any size, and no input events among what is passed on.
import { describe, expect, test } from 'vitest'
import { ClientMessages, ProtocolError, type ClientMessage } from './messages.ts'

const HANDSHAKE = Buffer.from('RFB 003.008\n\x01\x01', 'latin1')
const bytes = (...values: number[]): Buffer => Buffer.from(values)
const encodings = (...values: number[]): Buffer => {
  const out = Buffer.alloc(4 + 4 * values.length)
  out[0] = 2
  out.writeUInt16BE(values.length, 2)
  values.forEach((value, index) => out.writeInt32BE(value, 4 + 4 * index))
  return out
}
const PIXEL_FORMAT = bytes(0, 0, 0, 0, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 0, 8, 16, 0, 0, 0)
const UPDATE = bytes(3, 1, 0, 0, 0, 0, 5, 0, 3, 32)
const KEY = bytes(4, 1, 0, 0, 0, 0, 0xff, 0x0d)
const POINTER = bytes(5, 1, 1, 0, 0, 9)
const CUT = Buffer.concat([bytes(6, 0, 0, 0, 0, 0, 0, 3), Buffer.from('abc')])
const EXTENDED_CUT = bytes(6, 0, 0, 0, 0xff, 0xff, 0xff, 0xfc, 1, 2, 3, 4)
const FENCE = bytes(248, 0, 0, 0, 0, 0, 0, 1, 2, 7, 7)
const SIZE = Buffer.concat([bytes(251, 0, 4, 0, 3, 0, 1, 0), Buffer.alloc(16)])
const QEMU = bytes(255, 0, 0, 1, 0, 0, 0, 0x61, 0, 0, 0, 30)
const CONTINUOUS = bytes(150, 1, 0, 0, 0, 0, 5, 0, 3, 32)

const whole = Buffer.concat([HANDSHAKE, PIXEL_FORMAT, encodings(7, 0), UPDATE, KEY, POINTER, CUT, EXTENDED_CUT, FENCE, SIZE, QEMU, CONTINUOUS])
const kinds = ['picture', 'picture', 'picture', 'picture', 'picture', 'picture', 'key', 'pointer', 'dropped', 'dropped', 'picture', 'dropped', 'key', 'picture']
const passed = (messages: ClientMessage[]): Buffer => Buffer.concat(messages.flatMap((message) => ('pass' in message ? [message.pass] : [])))
const read = (stream: Buffer): ClientMessage[] => new ClientMessages().push(Buffer.concat([HANDSHAKE, stream])).slice(3)

describe('the VNC messages of a viewer', () => {
  test.each([1, 2, 3, 7, 1000])('are the same if they arrive in pieces of %i bytes', (size) => {
    const reader = new ClientMessages()
    const found: ClientMessage[] = []
    for (let from = 0; from < whole.length; from += size) found.push(...reader.push(whole.subarray(from, from + size)))
    expect(found.map(({ kind }) => kind)).toEqual(kinds)
    expect(passed(found)).toEqual(Buffer.concat([HANDSHAKE, PIXEL_FORMAT, encodings(7, 0), UPDATE, POINTER, FENCE, CONTINUOUS]))
  })

  test('cost no more if a text comes a byte at a time', () => {
    const reader = new ClientMessages()
    reader.push(HANDSHAKE)
    const length = 8 * 1024 * 1024
    const head = bytes(6, 0, 0, 0, 0, 0, 0, 0)
    head.writeInt32BE(length, 4)
    expect(reader.push(head)).toEqual([{ kind: 'dropped' }])
    const one = bytes(0)
    const tail = 300_000
    expect(reader.push(Buffer.alloc(length - tail))).toEqual([])
    for (let at = 0; at < tail; at++) reader.push(one)
    expect(reader.push(KEY)).toEqual([{ kind: 'key', keysym: 0xff0d, down: true }])
  })

  test('are passed on step by step during the handshake, because each side waits for the other', () => {
    const reader = new ClientMessages()
    expect(passed(reader.push(HANDSHAKE.subarray(0, 12)))).toEqual(HANDSHAKE.subarray(0, 12))
    expect(passed(reader.push(HANDSHAKE.subarray(12, 13)))).toEqual(bytes(1))
    expect(passed(reader.push(HANDSHAKE.subarray(13)))).toEqual(bytes(1))
  })
})

test("a viewer's messages for keys, also in QEMU's format, and for pointers are parsed", () => {
  expect(read(KEY)).toEqual([{ kind: 'key', keysym: 0xff0d, down: true }])
  expect(read(QEMU)).toEqual([{ kind: 'key', keysym: 0x61, down: true }])
  expect(read(POINTER)).toMatchObject([{ kind: 'pointer', x: 256, y: 9, buttons: 1 }])
})

test("a viewer's list of encodings loses those that would carry input in other formats", () => {
  expect(passed(read(encodings(7, -258, -308, 0xc0a1e5ce | 0, -316, -312, -261, -309)))).toEqual(encodings(7, -312))
})

test.each([
  ['another version', Buffer.from('RFB 003.003\n\x01\x01', 'latin1')],
  ['another protocol', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
  ['a message that nobody knows', Buffer.concat([HANDSHAKE, bytes(9)])],
  ['an unknown message of QEMU', Buffer.concat([HANDSHAKE, bytes(255, 1, 0, 0)])],
  ['more encodings than there are', Buffer.concat([HANDSHAKE, bytes(2, 0, 255, 255)])],
  ['a text without end', Buffer.concat([HANDSHAKE, bytes(6, 0, 0, 0, 127, 255, 255, 255)])],
  ['a fence too long', Buffer.concat([HANDSHAKE, bytes(248, 0, 0, 0, 0, 0, 0, 0, 65)])],
])("a viewer's message is refused: %s", (_what, stream) => {
  expect(() => new ClientMessages().push(stream)).toThrow(ProtocolError)
})
