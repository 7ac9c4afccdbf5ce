// Reads events from a body that arrives in arbitrary pieces.
import { expect, test } from 'vitest'
import { readEvents } from './sse.ts'

const body = (pieces: readonly string[], then?: 'hang'): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(new TextEncoder().encode(piece))
      if (then !== 'hang') controller.close()
    },
  })
const all = async (pieces: readonly string[]) => {
  const found = []
  for await (const frame of readEvents(body(pieces), new AbortController().signal)) found.push(frame)
  return found
}

test('events are the same however their bytes are cut', async () => {
  const text = ': heartbeat\n\nid: 7\ndata: {"a":"ü"}\n\nevent: x\r\ndata: one\r\ndata: two\r\n\r\n'
  const expected = [
    { id: '7', data: '{"a":"ü"}' },
    { id: '7', data: 'one\ntwo' },
  ]
  expect(await all([text])).toEqual(expected)
  expect(await all(Array.from(text))).toEqual(expected)
})

test('an event that is cut off by the end is left out', async () => {
  expect(await all(['data: whole\n\ndata: ha'])).toEqual([{ id: undefined, data: 'whole' }])
})

test('an abort ends the reading, also while nothing comes', async () => {
  const ended = new AbortController()
  const reading = (async () => {
    for await (const _ of readEvents(body(['data: x\n\n'], 'hang'), ended.signal)) setTimeout(() => ended.abort(new Error('left')), 10)
  })()
  await expect(reading).rejects.toThrow('left')
})

test('a line without an end is refused before it fills the memory', async () => {
  await expect(all(Array.from({ length: 10 }, () => 'x'.repeat(1024 * 1024)))).rejects.toThrow('too long')
})
