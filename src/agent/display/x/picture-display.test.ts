// The messages that the picture server gets from its display: all of them, except the error that would end it.
import { expect, test } from 'vitest'
import { WithoutImageErrors } from './picture-display.ts'

const SHM = 130

/** The server's answer to a connection, with `more` bytes after its head. */
const setUp = (more = 8) => {
  const answer = Buffer.alloc(8 + more, 0xee)
  answer[0] = 1
  answer.writeUInt16LE(more / 4, 6)
  return answer
}
const error = (code: number, minor: number, major: number, request = 0x1234) => {
  const message = Buffer.alloc(32)
  message[1] = code
  message.writeUInt16LE(request, 2)
  message.writeUInt16LE(minor, 8)
  message[10] = major
  return message
}
const message = (kind: number, more = 0) => {
  const made = Buffer.alloc(32 + more, 0)
  made[0] = kind
  made.writeUInt32LE(more / 4, 4)
  return made
}
/** The output when `sent` arrives in pieces of `size` bytes. */
async function pass(sent: Buffer, size: number): Promise<Buffer> {
  const filter = new WithoutImageErrors()
  for (let at = 0; at < sent.length; at += size) filter.write(sent.subarray(at, at + size))
  filter.end()
  return Buffer.concat((await filter.toArray()) as Buffer[])
}

test.each([1, 7, 32, 33, 4096])('passes every message as it is, in pieces of %i bytes, and answers a refused image with a reply', async (size) => {
  // The content of a reply may look like the error.
  const reply = message(1, 64)
  error(8, 4, SHM).copy(reply, 32)
  const before = [setUp(), message(2), reply, message(35, 96), message(35 | 0x80, 4), error(8, 4, 12), error(8, 3, SHM), error(9, 4, SHM)]
  const refused = error(8, 4, SHM)
  const after = [message(89), message(1), setUp(24)]
  const got = await pass(Buffer.concat([...before, refused, ...after]), size)
  const start = Buffer.concat(before)
  expect(got.subarray(0, start.length).equals(start)).toBe(true)
  const answered = got.subarray(start.length, start.length + 32)
  expect({ kind: answered[0], request: answered.readUInt16LE(2), more: answered.readUInt32LE(4) }).toEqual({ kind: 1, request: 0x1234, more: 0 })
  expect(got.subarray(start.length + 32).equals(Buffer.concat(after))).toBe(true)
})
