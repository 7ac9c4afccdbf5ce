// The published SDKs with browser pools: every call, what remains in a browser after its release, and how each client handles a 204.
import Kernel, { BadRequestError, ConflictError, NotFoundError } from '@onkernel/sdk'
import { chromium } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { conforms } from '../support/contract.ts'
import { forTests } from '../support/for-tests.ts'
import { servePages } from '../support/pages.ts'
import { runPython } from '../support/python.ts'
import { shareCloud } from '../support/shared-cloud.ts'

/** The limit for two boots on a busy machine. */
const FILL_MS = 60_000
/** With this, `acquire` answers 204 when no browser is free. The TypeScript SDK then returns null, although its types do not say so. */
const AT_ONCE = { acquire_timeout_seconds: 0 }

const pages = forTests(() => servePages())
const cloud = forTests(() => shareCloud({ COB_WARM_BROWSERS: '0' }))

const pool = () => cloud.client.browserPools

/** Resolves when the pool has this many available and acquired browsers. */
const counts = (name: string, available: number, acquired: number) =>
  until(
    'the pool to be filled',
    FILL_MS,
    async () => {
      const { available_count, acquired_count } = await pool().retrieve(name)
      return available_count === available && acquired_count === acquired
    },
    { everyMs: 50 },
  )

/** The address of a session's first page, the mark that a caller left in it, and the names of all cookies. */
async function look(cdpUrl: string): Promise<{ url: string; mark: unknown; cookies: string[] }> {
  const browser = await chromium.connectOverCDP(cdpUrl)
  try {
    const context = browser.contexts()[0]!
    const page = context.pages()[0]!
    return { url: page.url(), mark: await page.evaluate('window.mark'), cookies: (await context.cookies()).map(({ name }) => name) }
  } finally {
    await browser.close()
  }
}

describe('the TypeScript SDK', () => {
  beforeAll(async () => {
    const made = await pool().create({ size: 2, name: 'Shop', fill_rate_per_minute: 100, timeout_seconds: 300 })
    conforms('BrowserPool', made)
    expect(made).toMatchObject({ name: 'Shop', extension_ids: [], browser_pool_config: { size: 2, name: 'Shop', timeout_seconds: 300, stealth: false } })
    await counts('shop', 2, 0)
  })
  afterAll(() => pool().delete('shop', { force: true }))

  test('finds a pool by id and name, lists it, changes it, and refuses a second one of the name', async () => {
    const found = await pool().retrieve('SHOP')
    conforms('BrowserPool', found)
    expect(found).toMatchObject({ available_count: 2, acquired_count: 0 })
    expect(await pool().retrieve(found.id)).toEqual(found)
    const listed = (await pool().list({ query: 'sho' })).items
    conforms('BrowserPool', listed, true)
    expect(listed).toEqual([found])
    await expect(pool().create({ size: 1, name: 'sHOP' })).rejects.toBeInstanceOf(ConflictError)
    const changed = await pool().update('shop', { timeout_seconds: 200, name: 'Store' })
    conforms('BrowserPool', changed)
    expect(changed).toMatchObject({ id: found.id, name: 'Store', browser_pool_config: { size: 2, timeout_seconds: 200, fill_rate_per_minute: 100 } })
    await expect(pool().retrieve('shop')).rejects.toBeInstanceOf(NotFoundError)
    expect((await pool().update('store', { name: 'Shop' })).name).toBe('Shop')
    await expect(pool().update('shop', { timeout_seconds: 1 })).rejects.toBeInstanceOf(BadRequestError)
  })

  test('gets the same session again after a release, with its page and its cookie, and without its name, tags and URLs', async () => {
    const first = await pool().acquire('shop', { name: 'mine', tags: { job: '17' }, start_url: pages.url('started') })
    conforms('BrowserPoolAcquireResponse', first)
    expect(first).toMatchObject({ name: 'mine', tags: { job: '17' }, timeout_seconds: 300, pool: { name: 'Shop' } })
    conforms('BrowserRetrieveResponse', await cloud.client.browsers.retrieve('mine'))
    const other = await pool().acquire('shop', {})
    expect(other.session_id).not.toBe(first.session_id)
    expect(await pool().acquire('shop', AT_ONCE)).toBeNull()
    await expect(pool().acquire('shop', { ...AT_ONCE, name: 'mine' })).resolves.toBeNull()

    const browser = await chromium.connectOverCDP(first.cdp_ws_url)
    const page = browser.contexts()[0]!.pages()[0]!
    await expect.poll(() => page.url()).toBe(pages.url('started'))
    await page.goto(pages.url('kept'))
    await page.evaluate(`document.cookie = 'a=b; max-age=999'; window.mark = 42`)
    const closed = new Promise((resolve) => browser.on('disconnected', resolve))
    await pool().release('shop', { session_id: first.session_id })
    await closed
    await counts('shop', 1, 1)
    await expect(cloud.client.browsers.retrieve('mine')).rejects.toBeInstanceOf(NotFoundError)
    expect((await cloud.client.browsers.update(other.session_id, { name: 'mine' })).name).toBe('mine')

    const again = await pool().acquire('shop', {})
    conforms('BrowserPoolAcquireResponse', again)
    expect(again).toMatchObject({ session_id: first.session_id, tags: {} })
    expect(again).not.toHaveProperty('name')
    expect(again.cdp_ws_url).not.toBe(first.cdp_ws_url)
    expect(again.browser_live_view_url).not.toBe(first.browser_live_view_url)
    expect(await look(again.cdp_ws_url)).toEqual({ url: pages.url('kept'), mark: 42, cookies: ['a'] })
    await expect(chromium.connectOverCDP(first.cdp_ws_url)).rejects.toThrow(/401/)
    for (const { session_id } of [again, other]) await pool().release('shop', { session_id })
    await counts('shop', 2, 0)
  })

  test('ends a browser instead with reuse: false, and another one comes; a flush ends the idle ones and no other', async () => {
    const one = await pool().acquire('shop', {})
    await pool().release('shop', { session_id: one.session_id, reuse: false })
    await expect(cloud.client.browsers.retrieve(one.session_id)).rejects.toBeInstanceOf(NotFoundError)
    const kept = await pool().acquire('shop', {})
    expect(kept.session_id).not.toBe(one.session_id)
    await counts('shop', 1, 1)
    const idle = (await cloud.query<{ id: string }>(`select id from browsers where state = 'warm' and pool_id is not null`)).map(({ id }) => id)
    await pool().flush('shop')
    await counts('shop', 1, 1)
    const fresh = await pool().acquire('shop', {})
    expect((await cloud.client.browsers.retrieve(kept.session_id)).session_id).toBe(kept.session_id)
    expect(idle).toHaveLength(1)
    expect(idle).not.toContain(fresh.session_id)
    expect(await look(fresh.cdp_ws_url)).toMatchObject({ mark: undefined, cookies: [] })
    await cloud.remove(fresh.session_id)
    await expect(pool().release('shop', { session_id: fresh.session_id })).rejects.toBeInstanceOf(NotFoundError)
    await pool().release('shop', { session_id: kept.session_id })
    await counts('shop', 2, 0)
  })

  test('calls of a session go to its base_url with the token of the present caller, also after the browser was given back in between', async () => {
    const client = new Kernel({ apiKey: cloud.key, baseURL: cloud.url, maxRetries: 0 })
    const first = await client.browserPools.acquire('shop', {})
    expect((await client.browsers.curl(first.session_id, { url: pages.url('a') })).status).toBe(200)
    await client.browserPools.release('shop', { session_id: first.session_id })
    await expect(client.browsers.curl(first.session_id, { url: pages.url('a') })).rejects.toThrow(/404/)
    const [second, third] = [await client.browserPools.acquire('shop', {}), await client.browserPools.acquire('shop', {})]
    expect([second.session_id, third.session_id]).toContain(first.session_id)
    expect((await client.browsers.curl(first.session_id, { url: pages.url('a') })).status).toBe(200)
    for (const { session_id } of [second, third]) await client.browserPools.release('shop', { session_id })
  })

  test('deletes a pool whose browsers callers have only with force, which ends them', async () => {
    await pool().create({ size: 1, name: 'short' })
    await counts('short', 1, 0)
    const { session_id: id } = await pool().acquire('short', {})
    await expect(pool().delete('short')).rejects.toBeInstanceOf(ConflictError)
    await pool().delete('short', { force: true })
    await expect(cloud.client.browsers.retrieve(id)).rejects.toBeInstanceOf(NotFoundError)
    await expect(pool().retrieve('short')).rejects.toBeInstanceOf(NotFoundError)
  })
})

test.each(['0.84.0', '0.93.0', '0.131.0'])('kernel %s for Python makes every call, and acquire returns no browser when none is free', async (release) => {
  await runPython(cloud, release, ['pools.py'])
})
