// When a watchdog without watchers calls back.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openWatchdog } from './watchdog.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => void vi.useRealTimers())

const MINUTE = 60_000

test('a process that was never watched ends after its grace period', () => {
  const onEnd = vi.fn<() => void>()
  openWatchdog(15 * MINUTE, onEnd)
  vi.advanceTimersByTime(15 * MINUTE - 1)
  expect(onEnd).not.toHaveBeenCalled()
  vi.advanceTimersByTime(1)
  expect(onEnd).toHaveBeenCalledOnce()
})

test('a watched process continues; after the last watcher leaves, it gets its allowed time and its grace period', () => {
  const onEnd = vi.fn<() => void>()
  const watchdog = openWatchdog(15 * MINUTE, onEnd)
  const [leave, leaveLast] = [watchdog.watch(), watchdog.watch()]
  watchdog.allow(60 * MINUTE)
  leave()
  vi.advanceTimersByTime(1000 * MINUTE)
  leaveLast()
  vi.advanceTimersByTime(75 * MINUTE - 1)
  expect(onEnd).not.toHaveBeenCalled()
  watchdog.watch()()
  vi.advanceTimersByTime(75 * MINUTE - 1)
  expect(onEnd).not.toHaveBeenCalled()
  vi.advanceTimersByTime(1)
  expect(onEnd).toHaveBeenCalledOnce()
})

test('allowed time that is set while nobody watches counts from when the last watcher left', () => {
  const onEnd = vi.fn<() => void>()
  const watchdog = openWatchdog(MINUTE, onEnd)
  vi.advanceTimersByTime(MINUTE / 2)
  watchdog.allow(MINUTE)
  vi.advanceTimersByTime((3 * MINUTE) / 2)
  expect(onEnd).toHaveBeenCalledOnce()
})
