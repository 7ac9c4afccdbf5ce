// Which commands of a connection have no answer yet. Tests use the formats of real clients and browsers, cut at any byte.
import { expect, test } from 'vitest'
import { Commands, MessageEnds } from './commands.ts'

/** A frame of a WebSocket; from a client it is masked. */
function frameOf(data: Buffer, first: number, isMasked: boolean): Buffer {
  const length = Buffer.alloc(data.length < 126 ? 1 : data.length < 65_536 ? 3 : 9)
  if (length.length === 1) length[0] = data.length
  else if (length.length === 3) length.writeUIntBE(126 * 65_536 + data.length, 0, 3)
  else {
    length[0] = 127
    length.writeUIntBE(data.length, 3, 6)
  }
  if (!isMasked) return Buffer.concat([Buffer.from([first]), length, data])
  length[0]! |= 0x80
  const mask = Buffer.from([1, 200, 3, 77])
  return Buffer.concat([Buffer.from([first]), length, mask, data.map((byte, at) => byte ^ mask[at & 3]!)])
}

/** A text message in `parts` frames. */
function frame(text: string, isMasked: boolean, parts = 1): Buffer {
  const data = Buffer.from(text)
  const size = Math.ceil(data.length / parts)
  const pieces = Array.from({ length: parts }, (_, at) => data.subarray(at * size, (at + 1) * size))
  return Buffer.concat(pieces.map((piece, at) => frameOf(piece, (at === parts - 1 ? 0x80 : 0) + (at === 0 ? 1 : 0), isMasked)))
}

const long = 'x'.repeat(70_000)
const first = (id: number, more = '') => `{"id":${id},"method":"Runtime.evaluate","params":{"expression":"${more}"},"sessionId":"S${id}"}`
const last = (id: number, more = '') => `{"method":"Runtime.evaluate","params":{"expression":"${more}"},"id":${id},"sessionId":"S${id}"}`

test.each([
  ["Playwright's", first(7), '{"id":7,"result":{},"sessionId":"S7"}'],
  ["Puppeteer's", last(7), '{"id":7,"result":{},"sessionId":"S7"}'],
  ["Puppeteer's to the browser", '{"method":"Browser.getVersion","id":7}', '{"id":7,"result":{}}'],
  ['a long one', first(7, long), `{"id":7,"result":"${long}"}`],
  ['a long one with its id at the end', last(7, long), '{"id":7,"error":{}}'],
  ['one of BiDi', '{"id":7,"method":"session.status","params":{}}', '{"type":"success","id":7,"result":{}}'],
  ['a wrong one of BiDi', '{"id":7,"method":"x","params":{}}', '{"type":"error","id":7,"error":"unknown command"}'],
])('a command has no answer until that comes, in pieces of any size: %s', (_, command, answer) => {
  for (const size of [1, 3, 100, 4096, 1_000_000])
    for (const parts of [1, 3]) {
      const commands = new Commands()
      const sent = frame(command, true, parts)
      for (let at = 0; at < sent.length; at += size) commands.sent(sent.subarray(at, at + size))
      expect(commands.any).toBe(true)
      commands.received(frame('{"method":"Network.dataReceived","params":{"id":7}}', false))
      commands.received(Buffer.from([0x89, 0])) // a ping
      expect(commands.any).toBe(true)
      const received = frame(answer, false, parts)
      for (let at = 0; at < received.length; at += size) commands.received(received.subarray(at, at + size))
      expect(commands.any).toBe(false)
    }
})

test('a command to a page that has gone is not waited for; one to another page is', () => {
  const commands = new Commands()
  for (const id of [1, 2]) commands.sent(frame(first(id), true))
  commands.received(frame('{"method":"Target.detachedFromTarget","params":{"sessionId":"S1","targetId":"T"}}', false))
  expect(commands.any).toBe(true)
  commands.received(frame('{"id":2,"result":{},"sessionId":"S2"}', false))
  expect(commands.any).toBe(false)
})

test('messages that are compressed, or no text, are not read', () => {
  const said: string[] = []
  const ends = new MessageEnds((head) => said.push(head))
  const data = frame('{"id":1}', false)
  for (const bits of [0x40, 0x03]) ends.push(Buffer.concat([Buffer.from([data[0]! ^ bits]), data.subarray(1)]))
  expect(said).toEqual([])
  ends.push(data)
  expect(said).toEqual(['{"id":1}'])
})
