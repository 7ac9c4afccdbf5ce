// Every waiter is woken, and a waiter that has left is not waited for.
import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { Bell } from './bell.ts'

const never = new AbortController().signal

test('one ring wakes all current waiters, and none that comes later', async () => {
  const bell = new Bell()
  const waiting = [bell.heard(never), bell.heard(never)]
  bell.ring()
  await Promise.all(waiting)
  const late = bell.heard(never)
  expect(await Promise.race([late.then(() => 'woken'), new Promise((resolve) => setTimeout(resolve, 5, 'asleep'))])).toBe('asleep')
  bell.ring()
  await late
})

test('a wait ends with the reason of its signal', async () => {
  const bell = new Bell()
  const leaving = new AbortController()
  const waiting = bell.heard(leaving.signal)
  leaving.abort(new Error('left'))
  await expect(waiting).rejects.toThrow('left')
  await expect(bell.heard(leaving.signal)).rejects.toThrow('left')
})

test('a bell keeps nothing of waiters that have left', async () => {
  const bell = new Bell()
  for (let looks = 0; looks < 1_000; looks++) {
    const tired = new AbortController()
    const heard = bell.heard(tired.signal)
    expect(bell.waiting).toBe(1)
    tired.abort(new Error('tired'))
    await expect(heard).rejects.toThrow('tired')
  }
  expect(bell.waiting).toBe(0)
})

test('a waiter that a ring has woken does not listen to its signal any more', async () => {
  const bell = new Bell()
  const { signal } = new AbortController()
  for (let rings = 0; rings < 20; rings++) {
    const heard = bell.heard(signal)
    bell.ring()
    await heard
  }
  expect([bell.waiting, getEventListeners(signal, 'abort')]).toEqual([0, []])
})
