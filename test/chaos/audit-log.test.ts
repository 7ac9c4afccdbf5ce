// The audit log of a service that is killed.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { startCloud, type OwnCloud } from '../support/cloud.ts'

/** What is promised for reads when the service is killed, and for all when its Postgres is killed with it. */
const LOST_AT_MOST_MS = 1_000
/** Fewer calls would show nothing. */
const SOME = 10
/** Time for so many, on a busy machine. */
const SOME_MS = 30_000

let cloud: OwnCloud
beforeAll(async () => {
  cloud = await startCloud({ COB_DRIVER: 'fake', COB_WARM_BROWSERS: '0' })
})
afterAll(() => cloud[Symbol.asyncDispose]())

const paths = async (): Promise<Set<string>> => new Set((await cloud.query<{ path: string }>('select path from audit_log')).map(({ path }) => path))

/** Calls one after the other until the kill, and remembers which were answered, and when. */
async function callUntilKilled(mark: string, group: boolean): Promise<{ changes: string[]; reads: { path: string; at: number }[]; killedAt: number }> {
  const changes: string[] = []
  const reads: { path: string; at: number }[] = []
  const callers = [0, 1, 2, 3].map(async (caller) => {
    for (let i = 0; i < 10_000; i++) {
      const path = `/org/projects/${mark}-${caller}-${i}`
      try {
        await (await cloud.fetch(path, { method: i % 2 ? 'DELETE' : 'GET' })).text()
      } catch {
        return
      }
      if (i % 2) changes.push(path)
      else reads.push({ path, at: performance.now() })
    }
  })
  // Those that it may lose say nothing.
  const old = () => reads.filter(({ at }) => at < performance.now() - LOST_AT_MOST_MS)
  await until('some calls', SOME_MS, () => changes.length > SOME && old().length > SOME)
  const killedAt = performance.now()
  await cloud.kill(group)
  await Promise.all(callers)
  return { changes, reads, killedAt }
}

test('kill -9 of the service loses no change that was answered, and of reads less than a second', async () => {
  const { changes, reads, killedAt } = await callUntilKilled('service', false)
  await cloud.start()
  const stored = await paths()
  expect(changes.filter((path) => !stored.has(path))).toEqual([])
  const old = reads.filter(({ at }) => at < killedAt - LOST_AT_MOST_MS)
  expect(old.filter(({ path }) => !stored.has(path))).toEqual([])
})

test('kill -9 of the service and its Postgres loses less than a second', async () => {
  const { reads, killedAt } = await callUntilKilled('both', true)
  await cloud.start()
  const stored = await paths()
  const old = reads.filter(({ at }) => at < killedAt - LOST_AT_MOST_MS)
  expect(old.filter(({ path }) => !stored.has(path))).toEqual([])
})
