// Queued input is bounded, refused with a message, and accepted completely or not at all.
import { closeSync, openSync } from 'node:fs'
import { expect, test } from 'vitest'
import { Input, QUEUED_BYTES, terminalSink, Waiting, type Sink } from './input.ts'

const never = new AbortController().signal
const stuck: Sink = () => new Promise(() => {})

test('input that the program reads immediately is written immediately', async () => {
  const got: string[] = []
  const input = new Input(async (data) => void got.push(data.toString()), new Waiting())
  await Promise.all(['a', 'b', 'c'].map((text) => input.write(Buffer.from(text), never)))
  expect(got).toEqual(['a', 'b', 'c'])
})

test('a program that does not read gets a limited amount of input, then the call is refused', async () => {
  const waiting = new Waiting()
  const input = new Input(stuck, waiting, 50)
  await input.write(Buffer.alloc(QUEUED_BYTES), never)
  await expect(input.write(Buffer.alloc(1), never)).rejects.toMatchObject({ code: 'conflict', headers: { 'x-should-retry': 'false' } })
  expect(waiting.bytes).toBe(QUEUED_BYTES)
})

test('a call that waits for room continues when there is room', async () => {
  const releases: (() => void)[] = []
  const input = new Input(() => new Promise((resolve) => releases.push(resolve)), new Waiting())
  await input.write(Buffer.alloc(QUEUED_BYTES), never)
  const second = input.write(Buffer.alloc(QUEUED_BYTES), never)
  setTimeout(() => releases[0]!(), 20)
  await second
  expect(releases).toHaveLength(2)
})

test('pending input of one program reduces the room for others', async () => {
  const waiting = new Waiting()
  waiting.bytes = 32 * 1024 * 1024
  await expect(new Input(stuck, waiting, 20).write(Buffer.alloc(1), never)).rejects.toMatchObject({ code: 'conflict' })
})

test('a caller that leaves stops waiting immediately, and nothing of its call is written', async () => {
  const waiting = new Waiting()
  const input = new Input(stuck, waiting)
  await input.write(Buffer.alloc(QUEUED_BYTES), never)
  const leaving = new AbortController()
  const write = input.write(Buffer.alloc(1), leaving.signal)
  leaving.abort(new Error('left'))
  await expect(write).rejects.toThrow('left')
  expect(waiting.bytes).toBe(QUEUED_BYTES)
})

test('writing to a closed input is a conflict with its reason, also for calls that wait', async () => {
  const input = new Input(stuck, new Waiting())
  await input.write(Buffer.alloc(QUEUED_BYTES), never)
  const write = input.write(Buffer.alloc(1), never)
  input.close('it has ended')
  await expect(write).rejects.toMatchObject({ code: 'conflict', message: 'it has ended' })
  const broken = new Input(() => Promise.reject(new Error('EPIPE')), new Waiting())
  await expect(broken.write(Buffer.from('x'), never)).rejects.toMatchObject({ code: 'conflict' })
})

test('nothing is written to the file descriptor of a closed terminal', async () => {
  const fd = openSync('/dev/null', 'w')
  await terminalSink(fd, () => false)(Buffer.alloc(100_000))
  closeSync(fd)
  await expect(terminalSink(fd, () => true)(Buffer.from('x'))).rejects.toThrow('closed')
})
