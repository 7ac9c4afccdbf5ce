// The service with pods: what its callers get when the cluster has no room, and what they keep when the service is killed.
import { chromium } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { startCloud, type OwnCloud } from '../support/cloud.ts'
import { kubectl } from './cluster.ts'

const READY_MS = 120_000

let cloud: OwnCloud
beforeAll(async () => {
  cloud = await startCloud({ COB_DRIVER: 'kubernetes', COB_WARM_BROWSERS: '0', COB_SCOPE: 'service' })
}, READY_MS)
afterAll(async () => {
  await cloud[Symbol.asyncDispose]()
  expect(kubectl('get', 'pods', '--selector', 'cob.scope=service', '--output', 'name')).toBe('')
})

test('a quota that is used up is 429 with the reason, and the next create works when there is room', async () => {
  kubectl('create', 'quota', 'full', '--hard=pods=0')
  try {
    await expect(cloud.client.browsers.create({}, { maxRetries: 0 })).rejects.toMatchObject({ status: 429, message: expect.stringMatching(/quota.*full/) })
  } finally {
    kubectl('delete', 'quota', 'full')
  }
  const { session_id: id } = await cloud.client.browsers.create({})
  await cloud.client.browsers.deleteByID(id)
})

test('a session outlives a killed service, with its page', async () => {
  const { session_id: id, cdp_ws_url: url } = await cloud.client.browsers.create({})
  const connected = await chromium.connectOverCDP(url)
  const page = await connected.contexts()[0]!.newPage()
  await page.setContent('<title>kept</title>')
  await cloud.kill()
  await cloud.start()
  const again = await chromium.connectOverCDP((await cloud.client.browsers.retrieve(id)).cdp_ws_url)
  const titles = await Promise.all(
    again
      .contexts()[0]!
      .pages()
      .map((one) => one.title()),
  )
  expect(titles).toContain('kept')
  await again.close()
  await connected.close().catch(() => {}) // the killed service has closed it
  await cloud.client.browsers.deleteByID(id)
  await until('the pod to be gone', READY_MS, () => kubectl('get', 'pods', '--selector', `cob.id=${id}`, '--output', 'name') === '', { everyMs: 500 })
})
