// Waits end: with the awaited value, at their limit, or by their caller's signal.
import { getEventListeners, once } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { WaitTimeout, abortable, resultWithin, sleep, until, within } from './wait.ts'

const LONG_MS = 60_000
const never = new Promise<never>(() => {})
const aborted = () => AbortSignal.abort(new Error('the caller left'))

test('within returns the awaited value', async () => {
  expect(await within('an answer', LONG_MS, Promise.resolve(42))).toBe(42)
})

test('within times out with an error that names what it waited for', async () => {
  await expect(within('an answer', 1, never)).rejects.toThrow(WaitTimeout)
  await expect(within('an answer', 1, never)).rejects.toThrow('an answer: nothing within 1 ms')
})

test("within ends with the reason of its caller's signal, also if the signal aborted before", async () => {
  const caller = new AbortController()
  const waiting = within('an answer', LONG_MS, never, caller.signal)
  caller.abort(new Error('the caller left'))
  await expect(waiting).rejects.toThrow('the caller left')
  await expect(within('an answer', LONG_MS, never, aborted())).rejects.toThrow('the caller left')
})

// Node ends a process for an unhandled rejection. A caller that leaves early must not end the service.
test('a failure after the waiter has left is not an unhandled rejection', async () => {
  const unhandled: unknown[] = []
  const note = (reason: unknown) => void unhandled.push(reason)
  process.on('unhandledRejection', note)
  try {
    const failing = Promise.withResolvers<never>()
    expect(await resultWithin(1, failing.promise)).toBeUndefined()
    failing.reject(new Error('failed late'))
    for (const signal of [aborted(), undefined]) {
      const late = Promise.withResolvers<never>()
      const waiting = within('an answer', 1, late.promise, signal)
      await expect(waiting).rejects.toThrow(signal ? 'the caller left' : 'nothing within')
      late.reject(new Error('failed late'))
      await turn()
      await turn()
    }
  } finally {
    process.off('unhandledRejection', note)
  }
  expect(unhandled).toEqual([])
})

test('resultWithin gives undefined at its limit, and when its signal aborts or has aborted', async () => {
  const caller = new AbortController()
  const waiting = resultWithin(undefined, never, caller.signal)
  caller.abort()
  expect(await waiting).toBeUndefined()
  expect(await resultWithin(LONG_MS, never, aborted())).toBeUndefined()
  expect(await resultWithin(1, never)).toBeUndefined()
  expect(await resultWithin(LONG_MS, Promise.resolve(42))).toBe(42)
  await expect(resultWithin(LONG_MS, Promise.reject(new Error('broke')))).rejects.toThrow('broke')
})

test('until repeats its probe until it returns something other than undefined or false', async () => {
  const answers = [undefined, false, 0] as const
  let asked = 0
  expect(await until('an answer', LONG_MS, () => answers[asked++], { everyMs: 0 })).toBe(0)
  expect(asked).toBe(3)
})

test('until ends at its timeout, with its signal, and with an error of its probe', async () => {
  await expect(until('an answer', 1, () => false, { everyMs: 0 })).rejects.toThrow('an answer: nothing within 1 ms')
  await expect(until('an answer', LONG_MS, () => false, { signal: aborted() })).rejects.toThrow('the caller left')
  await expect(until('an answer', LONG_MS, () => Promise.reject(new Error('broke')))).rejects.toThrow('broke')
})

test("sleep ends with the reason of its caller's signal", async () => {
  const caller = new AbortController()
  const sleeping = sleep(LONG_MS, caller.signal)
  caller.abort(new Error('the caller left'))
  await expect(sleeping).rejects.toThrow('the caller left')
})

test('a wait that has ended removes its listener from the signal', async () => {
  const caller = new AbortController()
  await within('an answer', LONG_MS, Promise.resolve(), caller.signal)
  await abortable(Promise.resolve(), caller.signal)
  await resultWithin(LONG_MS, Promise.resolve(), caller.signal)
  await sleep(0, caller.signal)
  expect(getEventListeners(caller.signal, 'abort')).toEqual([])
  const received = once(caller.signal, 'abort')
  caller.abort()
  await received
})
