// Extensions in a real Chromium: active on the next page without a restart, and again after a crash.
import { chromium, type Page } from 'playwright-core'
import { afterAll, expect, test } from 'vitest'
import { derOf, rsaSigner } from '../support/crx.ts'
import { BLOCKING_MANIFEST, blockingExtension, extensionZip, MANIFEST, markingExtension, policyExtension } from '../support/extensions.ts'
import { forTests } from '../support/for-tests.ts'
import { chromiumOf, killChromium } from '../support/inside.ts'
import { servePages } from '../support/pages.ts'
import { shareCloud } from '../support/shared-cloud.ts'

/** The limit for Chromium and its window to start on a busy machine. */
const RESTART_MS = 60_000
/** The limit for a content script to act, and for a service worker to start. */
const MARK_MS = 15_000

const pages = forTests(() => servePages())
const cloud = forTests(() => shareCloud())
afterAll(async () => {
  for await (const { id } of cloud.client.extensions.list()) await cloud.client.extensions.delete(id)
})

const file = (zip: Buffer) => new File([new Uint8Array(zip)], 'extension.zip')
const connect = async (url: string) => {
  const browser = await chromium.connectOverCDP(url)
  return { browser, page: browser.contexts()[0]!.pages()[0]! }
}
const marks = (page: Page) => page.evaluate('({ ...document.documentElement.dataset })') as Promise<Record<string, string>>
/** Kills the session's Chromium, and connects to the next Chromium when it runs these extensions. */
async function afterCrash({ session_id, cdp_ws_url }: { session_id: string; cdp_ws_url: string }, names: string[]) {
  await killChromium(cloud, session_id)
  const again = await connect(cdp_ws_url)
  const seen = async () => {
    await again.page.goto(pages.url('colours.html?c'))
    return Object.keys(await marks(again.page))
  }
  await expect.poll(seen, { timeout: RESTART_MS }).toEqual(expect.arrayContaining(names))
  return again
}
const refused = (work: Promise<unknown>) =>
  work.then(
    () => [200, ''] as const,
    (error: { status: number; message: string }) => [error.status, error.message] as const,
  )

test('of a new session are active on its first page and the next ones, and again after a crash of Chromium, with what they have stored', async () => {
  const { client } = cloud
  for (const name of ['one', 'two']) await client.extensions.upload({ file: file(markingExtension(name)), name })
  const made = await client.browsers.create({ extensions: [{ name: 'one' }, { name: 'two' }], start_url: pages.url('colours.html?a'), timeout_seconds: 300 })
  const before = chromiumOf(cloud, made.session_id)
  const { browser, page } = await connect(made.cdp_ws_url)
  await page.waitForURL(pages.url('colours.html?a'))
  await expect.poll(() => marks(page), { timeout: MARK_MS }).toEqual({ one: 'marked', oneWorker: 'page 1', two: 'marked', twoWorker: 'page 1' })
  await page.goto(pages.url('colours.html?b'))
  await expect.poll(() => marks(page), { timeout: MARK_MS }).toEqual({ one: 'marked', oneWorker: 'page 2', two: 'marked', twoWorker: 'page 2' })
  expect(chromiumOf(cloud, made.session_id)).toBe(before)
  await browser.close()

  const again = await afterCrash(made, ['one', 'two'])
  await again.page.goto(pages.url('colours.html?d'))
  // Chromium may lose data of the last seconds before a crash. Any page number shows that the extension's worker runs.
  await expect.poll(async () => (await marks(again.page)).oneWorker, { timeout: MARK_MS }).toMatch(/^page \d$/)
  await again.browser.close()
  await client.browsers.deleteByID(made.session_id)
})

test('are loaded into a running session without a restart, and clients that are connected see them on the next page', async () => {
  const { client } = cloud
  const made = await client.browsers.create({ timeout_seconds: 300 })
  const before = chromiumOf(cloud, made.session_id)
  const { browser, page } = await connect(made.cdp_ws_url)
  await page.goto(pages.url('colours.html?a'))
  await client.browsers.loadExtensions(made.session_id, {
    extensions: ['first', 'second'].map((name) => ({ name, zip_file: file(markingExtension(name)) })),
  })
  expect(await marks(page)).toEqual({})
  await page.goto(pages.url('colours.html?b'))
  await expect.poll(() => marks(page), { timeout: MARK_MS }).toEqual({ first: 'marked', firstWorker: 'page 1', second: 'marked', secondWorker: 'page 1' })
  expect(chromiumOf(cloud, made.session_id)).toBe(before)
  const names = (await client.browsers.fs.listFiles(made.session_id, { path: '/home/kernel/extensions' })).map(({ name }) => name)
  expect(names.toSorted()).toEqual(['first', 'second'])
  await browser.close()
  await client.browsers.deleteByID(made.session_id)
})

test('that Chromium does not take are refused with its reason; the others of that call are out again', async () => {
  const { client } = cloud
  const broken = extensionZip({}, { ...MANIFEST, content_scripts: [{ matches: ['no pattern'], js: ['a.js'] }] })
  const made = await client.browsers.create({ timeout_seconds: 300 })
  const load = client.browsers.loadExtensions(made.session_id, {
    extensions: [
      { name: 'good', zip_file: file(markingExtension('good')) },
      { name: 'broken', zip_file: file(broken) },
    ],
  })
  const [status, message] = await refused(load)
  expect(status).toBe(400)
  expect(message).toContain('extensions: Chromium does not load "broken": ')
  const { browser, page } = await connect(made.cdp_ws_url)
  await page.goto(pages.url('colours.html?a'))
  expect(await marks(page)).toEqual({})
  expect(await client.browsers.fs.listFiles(made.session_id, { path: '/home/kernel/extensions' })).toEqual([])
  await browser.close()
  await client.browsers.deleteByID(made.session_id)

  await client.extensions.upload({ file: file(broken), name: 'broken' })
  const [created, why] = await refused(client.browsers.create({ extensions: [{ name: 'broken' }] }))
  expect([created, why.includes('Chromium does not load "broken"')]).toEqual([400, true])
})

const isBlocked = (page: Page, name: string) =>
  page.evaluate(
    (path) =>
      fetch(path, { mode: 'no-cors' }).then(
        () => false,
        () => true,
      ),
    pages.url(`colours.html?block-${name}`),
  )

/** The worker starts with the extension, but on a busy machine it may register its listeners after the first page. */
const blocks = (page: Page, name: string) => expect.poll(() => isBlocked(page, name), { timeout: MARK_MS }).toBe(true)

test('that a policy installs are on the first page and block requests, beside another one, and again after a crash; nothing restarts, and no address of the update.xml is used', async () => {
  const { client } = cloud
  const update = `<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bbbbbbbb"><!ENTITY c "&b;&b;&b;">]>
<gupdate xmlns="http://www.google.com/update2/response" protocol="2.0"><app appid="${'a'.repeat(32)}"><updatecheck codebase="${pages.local('never.crx')}" version="9"/>&c;</app></gupdate>`
  await client.extensions.upload({ file: file(blockingExtension('blocker', undefined, update)), name: 'blocker' })
  await client.extensions.upload({ file: file(markingExtension('beside')), name: 'beside' })
  const made = await client.browsers.create({
    extensions: [{ name: 'blocker' }, { name: 'beside' }],
    start_url: pages.url('colours.html?a'),
    timeout_seconds: 300,
  })
  const before = chromiumOf(cloud, made.session_id)
  const { browser, page } = await connect(made.cdp_ws_url)
  await page.waitForURL(pages.url('colours.html?a'))
  await expect.poll(() => marks(page), { timeout: MARK_MS }).toMatchObject({ blocker: 'marked', beside: 'marked' })
  await blocks(page, 'blocker')
  expect(await isBlocked(page, 'other')).toBe(false)
  await client.browsers.loadExtensions(made.session_id, { extensions: [{ name: 'second', zip_file: file(blockingExtension('second')) }] })
  await page.goto(pages.url('colours.html?b'))
  expect(await marks(page)).toMatchObject({ blocker: 'marked', second: 'marked' })
  for (const name of ['blocker', 'second']) await blocks(page, name)
  expect(chromiumOf(cloud, made.session_id)).toBe(before)
  const written = await (await client.browsers.fs.readFile(made.session_id, { path: '/home/kernel/extensions/blocker/update.xml' })).text()
  expect(written).toContain(`codebase="file:///home/kernel/extensions/blocker/it's%20&amp;%20an%20%3Cextension%3E.crx" version="1.0"`)
  await browser.close()

  const again = await afterCrash(made, ['blocker', 'second', 'beside'])
  await blocks(again.page, 'blocker')
  await again.browser.close()
  await client.browsers.deleteByID(made.session_id)
  expect(pages.hits('never.crx')).toBe(0)
})

test('that a policy installs follow their session into a profile that is loaded later', async () => {
  const { client } = cloud
  await client.profiles.create({ name: 'with-extensions' })
  const made = await client.browsers.create({ timeout_seconds: 300 })
  await client.browsers.loadExtensions(made.session_id, { extensions: [{ name: 'moved', zip_file: file(blockingExtension('moved')) }] })
  await client.browsers.update(made.session_id, { profile: { name: 'with-extensions', save_changes: true } })
  const { browser, page } = await connect(made.cdp_ws_url)
  await page.goto(pages.url('colours.html?a'))
  expect(await marks(page)).toEqual({ moved: 'marked' })
  await blocks(page, 'moved')
  await browser.close()
  await client.browsers.deleteByID(made.session_id)
  // The extension belongs to the session, not to the profile.
  const next = await client.browsers.create({ profile: { name: 'with-extensions' }, timeout_seconds: 300 })
  const without = await connect(next.cdp_ws_url)
  await without.page.goto(pages.url('colours.html?b'))
  expect([await marks(without.page), await isBlocked(without.page, 'moved')]).toEqual([{}, false])
  await without.browser.close()
  await client.browsers.deleteByID(next.session_id)
  await client.profiles.delete('with-extensions')
})

test('that a policy installs and Chromium does not take are refused, as those with the key of another one are; the others of that call are out again', async () => {
  const { client } = cloud
  const made = await client.browsers.create({ timeout_seconds: 300 })
  const load = (given: Record<string, Buffer>) =>
    refused(client.browsers.loadExtensions(made.session_id, { extensions: Object.entries(given).map(([name, zip]) => ({ name, zip_file: file(zip) })) }))
  const signer = rsaSigner()
  const sameKey = extensionZip({}, { ...MANIFEST, key: derOf(signer).toString('base64') })
  expect(await load({ held: blockingExtension('held', signer) })).toEqual([200, ''])
  const wrong = { ...BLOCKING_MANIFEST, content_scripts: [{ matches: ['no pattern'], js: ['a.js'] }] }
  const [status, message] = await load({
    plain: markingExtension('plain'),
    good: blockingExtension('good'),
    broken: policyExtension({ 'worker.js': '' }, wrong),
  })
  expect([status, message]).toEqual([400, expect.stringContaining('extensions: Chromium does not install "broken" by policy')])
  const [same, why] = await load({ another: markingExtension('another'), same: sameKey })
  expect([same, why]).toEqual([400, expect.stringMatching(/"same"/)])
  const { browser, page } = await connect(made.cdp_ws_url)
  await page.goto(pages.url('colours.html?a'))
  expect(await marks(page)).toEqual({ held: 'marked' })
  await blocks(page, 'held')
  expect(await isBlocked(page, 'good')).toBe(false)
  expect((await client.browsers.fs.listFiles(made.session_id, { path: '/home/kernel/extensions' })).map(({ name }) => name)).toEqual(['held'])
  await browser.close()
  await client.browsers.deleteByID(made.session_id)
})
