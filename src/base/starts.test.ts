// The queue before the sandboxes: how many at once, in which order, and callers that leave.
import { expect, test } from 'vitest'
import { Starts } from './starts.ts'

const signal = new AbortController().signal

/** Work that ends on request. */
function work(starts: Starts, isUrgent: boolean, of = signal) {
  const end = Promise.withResolvers<void>()
  const state = { hasBegun: false, end: end.resolve, done: Promise.resolve() }
  state.done = starts.run(isUrgent, of, async () => {
    state.hasBegun = true
    await end.promise
  })
  state.done.catch(() => {})
  return state
}
const settle = () => new Promise((resolve) => setImmediate(resolve))

test('at most the allowed number of runs starts, and each end starts the next', async () => {
  const starts = new Starts(2)
  const all = Array.from({ length: 4 }, () => work(starts, true))
  await settle()
  expect(all.map(({ hasBegun }) => hasBegun)).toEqual([true, true, false, false])
  all[1]!.end()
  await settle()
  expect(all.map(({ hasBegun }) => hasBegun)).toEqual([true, true, true, false])
})

test('synchronous runs start before async ones, each kind in order', async () => {
  const starts = new Starts(1)
  const first = work(starts, true)
  const waiting = [work(starts, false), work(starts, true), work(starts, false), work(starts, true)]
  const order: number[] = []
  first.end()
  for (let n = 0; n < waiting.length; n++) {
    await settle()
    const next = waiting.findIndex(({ hasBegun }, at) => hasBegun && !order.includes(at))
    order.push(next)
    waiting[next]!.end()
  }
  expect(order).toEqual([1, 3, 0, 2])
})

test('a run that leaves the queue takes no place, and work that fails returns its place', async () => {
  const starts = new Starts(1)
  const first = work(starts, true)
  const leaving = new AbortController()
  const left = work(starts, true, leaving.signal)
  const last = work(starts, true)
  leaving.abort(new Error('enough'))
  await expect(left.done).rejects.toThrow('enough')
  first.end()
  await settle()
  expect([left.hasBegun, last.hasBegun]).toEqual([false, true])
  last.end()
  await expect(starts.run(true, signal, async () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  await expect(starts.run(true, signal, async () => 7)).resolves.toBe(7)
  await expect(starts.run(true, AbortSignal.abort(new Error('late')), async () => 7)).rejects.toThrow('late')
})
