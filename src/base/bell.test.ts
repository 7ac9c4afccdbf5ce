// Every waiter is woken, and a waiter that has left is not waited for.
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
