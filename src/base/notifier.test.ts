// Every waiter is woken, and a waiter that has left is removed.
import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { Notifier } from './notifier.ts'

const never = new AbortController().signal

test('one notification wakes all current waiters, and none that comes later', async () => {
  const notifier = new Notifier()
  const waiting = [notifier.next(never), notifier.next(never)]
  notifier.notify()
  await Promise.all(waiting)
  const late = notifier.next(never)
  expect(await Promise.race([late.then(() => 'woken'), new Promise((resolve) => setTimeout(resolve, 5, 'asleep'))])).toBe('asleep')
  notifier.notify()
  await late
})

test('a wait ends with the reason of its signal', async () => {
  const notifier = new Notifier()
  const leaving = new AbortController()
  const waiting = notifier.next(leaving.signal)
  leaving.abort(new Error('left'))
  await expect(waiting).rejects.toThrow('left')
  await expect(notifier.next(leaving.signal)).rejects.toThrow('left')
})

test('a notifier keeps nothing of waiters that have left', async () => {
  const notifier = new Notifier()
  for (let looks = 0; looks < 1_000; looks++) {
    const tired = new AbortController()
    const next = notifier.next(tired.signal)
    expect(notifier.waiting).toBe(1)
    tired.abort(new Error('tired'))
    await expect(next).rejects.toThrow('tired')
  }
  expect(notifier.waiting).toBe(0)
})

test('a waiter that a notification has woken does not listen to its signal any more', async () => {
  const notifier = new Notifier()
  const { signal } = new AbortController()
  for (let count = 0; count < 20; count++) {
    const next = notifier.next(signal)
    notifier.notify()
    await next
  }
  expect([notifier.waiting, getEventListeners(signal, 'abort')]).toEqual([0, []])
})
