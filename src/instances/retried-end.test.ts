// Ends that fail, and what becomes of them when the service stops.
import { expect, test } from 'vitest'
import { silentLog } from '../base/log.ts'
import { lastAttempts, RetriedEnd, type FailedEnds } from './retried-end.ts'

/** An end that fails while `state.isStuck`. */
function stuckEnd() {
  const stop = new AbortController()
  const failedEnds: FailedEnds = new Set()
  const state = { attempts: 0, isStuck: true }
  const end = async () => {
    state.attempts++
    if (state.isStuck) throw new Error('stuck')
  }
  return { end: new RetriedEnd(end, { log: silentLog, signal: stop.signal, failedEnds }), failedEnds, state, stop }
}

test('an end that has failed has one more attempt when the service stops', async () => {
  const { end, failedEnds, state, stop } = stuckEnd()
  await expect(end.run()).rejects.toThrow('stuck')
  stop.abort()
  await lastAttempts(failedEnds)
  expect([state.attempts, failedEnds.size]).toEqual([2, 1])
  state.isStuck = false
  await lastAttempts(failedEnds)
  expect([state.attempts, failedEnds.size]).toEqual([3, 0])
})

test('an end that has succeeded is not repeated', async () => {
  const { end, failedEnds, state } = stuckEnd()
  state.isStuck = false
  await Promise.all([end.run(), end.run()])
  await lastAttempts(failedEnds)
  await end.run()
  expect(state.attempts).toBe(1)
})
