// The lock serves callers in order, one at a time, and drops those that have left.
import fc from 'fast-check'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Mutex, Mutexes } from './mutex.ts'

test('a caller whose work throws gets the error, and the next caller runs', async () => {
  const mutex = new Mutex()
  const broken = mutex.run(() => Promise.reject(new Error('broke')))
  const next = mutex.run(async () => 'served')
  await expect(broken).rejects.toThrow('broke')
  expect(await next).toBe('served')
})

test('callers run one at a time, in the order in which they came', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(3), { minLength: 1, maxLength: 12 }), async (waits) => {
      const mutex = new Mutex()
      const served: number[] = []
      let inside = 0
      const work = waits.map((turns, index) =>
        mutex.run(async () => {
          expect(++inside).toBe(1)
          for (let i = 0; i < turns; i++) await turn()
          served.push(index)
          inside--
          return index
        }),
      )
      expect(await Promise.all(work)).toEqual(waits.map((_, index) => index))
      expect(served).toEqual(waits.map((_, index) => index))
    }),
  )
})

test('a caller that leaves while it waits never runs, and later callers still wait for earlier ones', async () => {
  const mutex = new Mutex()
  const first = Promise.withResolvers<void>()
  const caller = new AbortController()
  const seen: string[] = []
  const before = mutex.run(() => first.promise.then(() => void seen.push('first')))
  const left = mutex.run(async () => void seen.push('left'), caller.signal).catch((error: Error) => error.message)
  const behind = mutex.run(async () => void seen.push('behind'))
  caller.abort(new Error('left'))
  for (let i = 0; i < 5; i++) await turn()
  expect(seen).toEqual([])
  first.resolve()
  expect(await left).toBe('left')
  await Promise.all([before, behind])
  expect(seen).toEqual(['first', 'behind'])
})

test('callers with different keys do not wait for each other', async () => {
  const mutexes = new Mutexes()
  const hold = Promise.withResolvers<void>()
  const order: string[] = []
  const first = mutexes.run('a', () => hold.promise.then(() => void order.push('a')))
  const second = mutexes.run('a', async () => void order.push('a again'))
  await mutexes.run('b', async () => void order.push('b'))
  hold.resolve()
  await Promise.all([first, second])
  expect(order).toEqual(['b', 'a', 'a again'])
})
