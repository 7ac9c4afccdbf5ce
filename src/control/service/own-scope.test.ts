// The database queries of a service that has its scope alone: it must not pay for the sharing of scopes.
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../test/support/fast-cloud.ts'
import { sleep, until } from '../../base/wait.ts'

const NOTICE_MS = 10_000
/** Work in the background, such as the sweep each second, may fall into a call. It hardly ever falls into all of these. */
const TRIES = 10

/** The statements of all connections in this process. */
const statements: string[] = []
const query = pg.Client.prototype.query as (...given: unknown[]) => unknown
let cloud: FastCloud
beforeAll(async () => {
  pg.Client.prototype.query = function (this: pg.Client, ...given: unknown[]) {
    const [what] = given as [string | { text: string }]
    statements.push(typeof what === 'string' ? what : what.text)
    return query.apply(this, given)
  } as never
  cloud = await startFastCloud({ COB_WARM_BROWSERS: '1', COB_WARM_BROWSERS_MAX: '1' })
})
afterAll(async () => {
  pg.Client.prototype.query = query as never
  await cloud[Symbol.asyncDispose]()
})

const isReady = async () => (await cloud.query<{ id: string }>(`select id from browsers where state = 'warm'`)).length === 1

test('a create takes at most two statements, a click none, a delete two; no notice is sent, and no seat is counted', async () => {
  const least = { create: Infinity, click: Infinity, delete: Infinity }
  const started = statements.length
  const counted = async (call: keyof typeof least, work: () => Promise<Response>) => {
    const before = statements.length
    const response = await work()
    least[call] = Math.min(least[call], statements.length - before)
    expect(response.ok).toBe(true)
    return response
  }
  for (let tries = 0; tries < TRIES; tries++) {
    await until('a ready browser', NOTICE_MS, isReady)
    await sleep(100) // the warm pool has been counted
    const created = await counted('create', () => cloud.send('POST', '/browsers', {}))
    const { session_id: id } = (await created.json()) as { session_id: string }
    await sleep(100)
    await counted('click', () => cloud.send('POST', `/browsers/${id}/computer/click_mouse`, { x: 1, y: 1 }))
    await counted('delete', () => cloud.fetch(`/browsers/${id}`, { method: 'DELETE' }))
  }
  // The claim, and the count of the warm pool, which may come just after the answer.
  expect({ ...least, create: least.create <= 2 }).toEqual({ create: true, click: 0, delete: 2 })
  const ofReplicas = /^\s*select pg_notify|pg_advisory_xact_lock|\bleases\b/
  expect(statements.slice(started).filter((text) => ofReplicas.test(text))).toEqual([])
})
