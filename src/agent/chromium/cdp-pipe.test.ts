// CDP messages over a pipe: their end, and their largest size.
import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { exceptionsAtTop } from '../../../test/support/fake-cdp.ts'
import { CdpGone } from './cdp.ts'
import { cdpOverPipe } from './cdp-pipe.ts'

function open(maxBytes?: number, maxEventBytes?: number) {
  const [input, output] = [new PassThrough(), new PassThrough()]
  const cdp = cdpOverPipe(input, output, maxBytes, maxEventBytes)
  const say = (...pieces: (Buffer | string)[]) => pieces.forEach((piece) => output.write(piece))
  return { cdp, input, output, say }
}

const answer = (id: number, targetId: string): string => `${JSON.stringify({ id, result: { targetId } })}\0`

test('messages are read whole, whether they come together or in pieces', async () => {
  const { cdp, input, say } = open()
  const all = Promise.all(['a', 'b', 'c'].map((url) => cdp.send('Target.createTarget', { url })))
  expect(String(input.read())).toBe(
    ['a', 'b', 'c'].map((url, i) => `${JSON.stringify({ id: i + 1, method: 'Target.createTarget', params: { url } })}\0`).join(''),
  )
  const bytes = Buffer.from(answer(1, 'ü') + answer(2, 'two') + answer(3, '三'))
  const middle = bytes.indexOf(0xbc)
  say(bytes.subarray(0, middle), bytes.subarray(middle, middle + 1), bytes.subarray(middle + 1))
  expect((await all).map(({ targetId }) => targetId)).toEqual(['ü', 'two', '三'])
})

test('an answer above the limit rejects its own command, and is not held in memory; the messages after it are read', async () => {
  for (const pieces of [1, 7, 400]) {
    const { cdp, say } = open(1_000)
    const [fits, large, next] = ['a', 'b', 'c'].map((url) => cdp.send('Target.createTarget', { url }))
    const room = 1_000 - (answer(1, '').length - 1)
    say(answer(1, 'x'.repeat(room)))
    const bytes = Buffer.from(answer(2, 'x'.repeat(100_000)))
    const step = Math.ceil(bytes.length / pieces)
    for (let from = 0; from < bytes.length; from += step) say(bytes.subarray(from, from + step))
    say(answer(3, 'next'))
    expect((await fits!).targetId).toHaveLength(room)
    await expect(large).rejects.toThrow('the answer is too large')
    expect((await next!).targetId).toBe('next')
  }
})

test('an event above its limit is dropped and told, however often and in however many pieces, and is no exception; the messages after it are read', async () => {
  using top = exceptionsAtTop()
  const { cdp, output, say } = open(5_000, 1_000)
  const received: string[] = []
  const lost: string[] = []
  cdp.on('Target.targetDestroyed', ({ targetId }) => received.push(targetId))
  cdp.onLostEvent((method) => lost.push(method))
  const event = (targetId: string) => `${JSON.stringify({ method: 'Target.targetDestroyed', params: { targetId } })}\0`
  const room = 1_000 - (event('').length - 1)
  say(event('x'.repeat(room)))
  const large = event('x'.repeat(room + 1))
  for (const pieces of [1, 3, 300]) {
    const step = Math.ceil(large.length / pieces)
    for (let from = 0; from < large.length; from += step) say(large.slice(from, from + step))
  }
  say(event('next'))
  // An answer of the same length is allowed, because it was requested.
  const answered = cdp.send('Target.createTarget', { url: 'a' })
  say(answer(1, 'x'.repeat(2_000)))
  expect((await answered).targetId).toHaveLength(2_000)
  expect(received.map((id) => id.length)).toEqual([room, 'next'.length])
  expect(lost).toEqual(Array(3).fill('Target.targetDestroyed'))
  expect(top.thrown).toEqual([])
  output.destroy()
})

test.each(['output', 'input'] as const)('the end of the %s ends the connection', async (which) => {
  const opened = open()
  const pending = opened.cdp.send('Browser.getVersion', {})
  opened[which].destroy(which === 'input' ? new Error('EPIPE') : undefined)
  await expect(pending).rejects.toBeInstanceOf(CdpGone)
  expect(opened.cdp.ended.aborted).toBe(true)
})
