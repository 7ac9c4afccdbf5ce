// There are never more slots than allowed, and none is lost.
import { expect, test } from 'vitest'
import { Slots } from './slots.ts'

const turn = () => new Promise((resolve) => setImmediate(resolve))

test('as many as there are slots are under way at once; the others follow in their order, also after a failure', async () => {
  const slots = new Slots(2)
  const gates = Array.from({ length: 5 }, () => Promise.withResolvers<void>())
  const began: number[] = []
  const runs = gates.map(({ promise }, index) =>
    slots.run(async () => {
      began.push(index)
      await promise
      return index
    }),
  )
  expect([began, slots.areTaken]).toEqual([[0, 1], true])
  gates[1]!.resolve()
  await turn()
  expect(began).toEqual([0, 1, 2])
  gates[0]!.reject(new Error('broken'))
  await expect(runs[0]).rejects.toThrow('broken')
  await turn()
  expect(began).toEqual([0, 1, 2, 3])
  for (const { resolve } of gates) resolve()
  expect(await Promise.all(runs.slice(1))).toEqual([1, 2, 3, 4])
  expect([began, slots.areTaken]).toEqual([[0, 1, 2, 3, 4], false])
})

test('a caller that leaves while it waits takes no slot, also when it is given one in the same moment', async () => {
  const slots = new Slots(1)
  const gate = Promise.withResolvers<void>()
  const first = slots.run(() => gate.promise)
  const [early, late] = [new AbortController(), new AbortController()]
  const ran: string[] = []
  const waiting = [early, late].map(({ signal }, index) => slots.run(async () => void ran.push(`waiting ${index}`), signal))
  early.abort(new Error('left'))
  await expect(waiting[0]).rejects.toThrow('left')
  gate.resolve()
  late.abort(new Error('left as well'))
  await expect(waiting[1]).rejects.toThrow('left as well')
  await first
  await slots.run(async () => void ran.push('next'))
  expect([ran, slots.areTaken]).toEqual([['next'], false])
  await expect(slots.run(async () => {}, AbortSignal.abort(new Error('never came')))).rejects.toThrow('never came')
})

/** Work that ends on request. */
function work(slots: Slots, isUrgent: boolean) {
  const end = Promise.withResolvers<void>()
  const state = { hasBegun: false, end: end.resolve, done: Promise.resolve() }
  state.done = slots.run(
    async () => {
      state.hasBegun = true
      await end.promise
    },
    undefined,
    isUrgent,
  )
  state.done.catch(() => {})
  return state
}

test('urgent work comes before other work, each in its order', async () => {
  const slots = new Slots(1)
  const first = work(slots, true)
  const waiting = [work(slots, false), work(slots, true), work(slots, false), work(slots, true)]
  const order: number[] = []
  first.end()
  for (let n = 0; n < waiting.length; n++) {
    await turn()
    const next = waiting.findIndex(({ hasBegun }, at) => hasBegun && !order.includes(at))
    order.push(next)
    waiting[next]!.end()
  }
  expect(order).toEqual([1, 3, 0, 2])
})
