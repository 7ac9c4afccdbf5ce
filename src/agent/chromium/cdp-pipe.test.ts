// CDP messages over a pipe: where one ends, and how large it may be.
import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { exceptionsAtTop } from '../../../test/support/fake-cdp.ts'
import { CdpGone } from './cdp.ts'
import { cdpOverPipe } from './cdp-pipe.ts'

function open(maxBytes?: number) {
  const [input, output] = [new PassThrough(), new PassThrough()]
  const cdp = cdpOverPipe(input, output, maxBytes)
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

test('an event above the limit is an exception at the top, and the messages after it are read', async () => {
  using top = exceptionsAtTop()
  const { cdp, output, say } = open(1_000)
  const heard: string[] = []
  cdp.on('Target.targetDestroyed', ({ targetId }) => heard.push(targetId))
  const event = (targetId: string) => `${JSON.stringify({ method: 'Target.targetDestroyed', params: { targetId } })}\0`
  say(event('x'.repeat(1_000)), event('next'))
  await expect.poll(() => heard).toEqual(['next'])
  expect(top.thrown).toEqual(['Chromium sent an event that is too large'])
  output.destroy()
})

test.each(['output', 'input'] as const)('the end of the %s ends the connection', async (which) => {
  const opened = open()
  const pending = opened.cdp.send('Browser.getVersion', {})
  opened[which].destroy(which === 'input' ? new Error('EPIPE') : undefined)
  await expect(pending).rejects.toBeInstanceOf(CdpGone)
  expect(opened.cdp.ended.aborted).toBe(true)
})
