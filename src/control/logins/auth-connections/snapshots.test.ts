// What callers read while a login ends: everything before its end, or everything after it.
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import { until } from '../../../base/wait.ts'
import type { Connection } from './contract.ts'
import { startWorker, type Worker } from './worker.suite.ts'

const WAIT_MS = 20_000

const scope = new AsyncDisposableStack()
let cloud: FastCloud
let worker: Worker
beforeAll(async () => {
  cloud = scope.use(await startFastCloud({ COB_WARM_BROWSERS: '0' }))
  worker = scope.use(startWorker(cloud.paths))
}, 60_000)
afterAll(() => scope.disposeAsync())

test.each(['/auth/connections/', '/auth/connections?query='])('GET %s never shows a success beside a connection that is not logged in', async (path) => {
  const made = await cloud.send('POST', '/auth/connections', { domain: 'site.test', profile_name: `profile${path.length}` })
  const { id } = (await made.json()) as Connection
  await cloud.send('POST', `/auth/connections/${id}/login`, {})
  const flow = await worker.claim(id)
  const read = async () => {
    const answer = (await (await cloud.fetch(path + id)).json()) as Connection | Connection[]
    const { status, flow_status: flowStatus } = Array.isArray(answer) ? answer[0]! : answer
    return `${status} ${flowStatus}`
  }
  const ending = new pg.Client({ host: cloud.paths.postgresSocket, user: 'cob', database: 'postgres' })
  await ending.connect()
  try {
    await ending.query('begin')
    await ending.query('lock table auth_flows in access exclusive mode')
    // The connection is read, and its login is waited for.
    const meanwhile = read()
    await until('a reader to wait', WAIT_MS, async () => {
      const waiting = await cloud.query(`select from pg_stat_activity where wait_event_type = 'Lock' and query like '%lateral%auth_flows%'`)
      return waiting.length > 0
    })
    await ending.query(`update auth_flows set state = 'SUCCESS', step = 'COMPLETED', finished_at = now() where id = $1`, [flow.id])
    await ending.query(`update auth_connections set status = 'AUTHENTICATED' where id = $1`, [id])
    await ending.query('commit')
    expect(await meanwhile).toBe('NEEDS_AUTH IN_PROGRESS')
    expect(await read()).toBe('AUTHENTICATED SUCCESS')
  } finally {
    await ending.end()
  }
})
