// The output that an exec captures, and how it reports missing bytes.
import { expect, test } from 'vitest'
import { Capture, CAPTURED_IN_ALL_BYTES } from './capture.ts'

const text = (base64: string): string => Buffer.from(base64, 'base64').toString()

test('both streams are kept exactly as printed', () => {
  using capture = new Capture({ bytes: 0 })
  for (const part of ['a', 'b', 'c'.repeat(10_000), 'd']) capture.add('stdout', Buffer.from(part))
  capture.add('stderr', Buffer.from('oh'))
  const reply = capture.reply()
  expect(text(reply.stdout_b64)).toBe(`ab${'c'.repeat(10_000)}d`)
  expect(reply).toEqual({ stdout_b64: reply.stdout_b64, stderr_b64: Buffer.from('oh').toString('base64') })
})

test('output over the limit is counted, and the count is in a field and in the last line of stderr', () => {
  using capture = new Capture({ bytes: 0 }, 10)
  capture.add('stdout', Buffer.from('0123456'))
  capture.add('stdout', Buffer.from('789abc'))
  capture.add('stdout', Buffer.from('def'))
  capture.add('stderr', Buffer.from('warning'))
  const reply = capture.reply()
  expect(text(reply.stdout_b64)).toBe('0123456789')
  expect(text(reply.stderr_b64)).toBe('warning\n[stdout was cut after 10 bytes; 6 more were dropped]\n')
  expect(reply.stdout_missed_bytes).toBe(6)
  expect(reply.stderr_missed_bytes).toBeUndefined()
})

test('kept output does not change if the buffer is reused', () => {
  using capture = new Capture({ bytes: 0 })
  const memory = Buffer.alloc(20_000, 'x')
  capture.add('stdout', memory)
  memory.fill('y')
  expect(text(capture.reply().stdout_b64)).toBe('x'.repeat(20_000))
})

test('all captures of a session share one limit, and return their memory at the end', () => {
  const all = { bytes: CAPTURED_IN_ALL_BYTES - 5 }
  {
    using capture = new Capture(all)
    capture.add('stderr', Buffer.from('0123456789'))
    expect(text(capture.reply().stderr_b64)).toBe('01234\n[stderr was cut after 5 bytes; 5 more were dropped]\n')
  }
  expect(all.bytes).toBe(CAPTURED_IN_ALL_BYTES - 5)
})

test('an error contains the end of each stream', () => {
  using capture = new Capture({ bytes: 0 })
  capture.add('stdout', Buffer.from(`${'x'.repeat(10_000)}the end`))
  expect(capture.summary()).toBe('It had printed 10007 bytes to stdout and 0 to stderr.')
  const [tail, ...others] = capture.tails()!
  expect(others).toEqual([])
  expect(tail!.code).toBe('stdout')
  expect(tail!.message).toMatch(/^x{4089}the end$/)
})
