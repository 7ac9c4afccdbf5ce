// A session whose Chromium is killed: it starts again, and every setting of the session holds as before.
import { chromium } from 'playwright-core'
import sharp from 'sharp'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Cloud } from '../support/cloud.ts'
import { killChromium } from '../support/inside.ts'
import { servePages, type Pages } from '../support/pages.ts'
import { shareCloud } from '../support/shared-cloud.ts'

/** A start of Chromium on a busy machine, and its window after that. */
const RESTART_MS = 60_000

let cloud: Cloud
let pages: Pages
beforeAll(async () => {
  pages = await servePages()
  cloud = await shareCloud()
})
afterAll(async () => {
  await cloud[Symbol.asyncDispose]()
  await pages[Symbol.asyncDispose]()
})

/** Kills the session's Chromium, and connects to the next one. */
async function killed({ session_id, cdp_ws_url }: { session_id: string; cdp_ws_url: string }) {
  await killChromium(cloud, session_id)
  return chromium.connectOverCDP(cdp_ws_url)
}

/** The sizes of each page, its window and its screen. Pages that Chromium restores behind the one in front keep others until somebody looks at them. */
const sizes = (browser: Awaited<ReturnType<typeof killed>>): Promise<number[][]> =>
  Promise.all(
    browser
      .contexts()[0]!
      .pages()
      .map((page) => page.evaluate('[innerWidth, innerHeight, outerWidth, outerHeight, screen.width, screen.height]') as Promise<number[]>),
  )

test('in full screen, with its viewport and its policies', async () => {
  const made = await cloud.client.browsers.create({
    kiosk_mode: true,
    viewport: { width: 1000, height: 700 },
    chrome_policy: { URLBlocklist: ['host.cob.internal/closed'] },
    timeout_seconds: 300,
  })
  const browser = await killed(made)
  await expect.poll(() => sizes(browser), { timeout: RESTART_MS }).toContainEqual([1000, 700, 1000, 700, 1000, 700])
  expect(await sharp(Buffer.from(await (await cloud.client.browsers.computer.captureScreenshot(made.session_id)).arrayBuffer())).metadata()).toMatchObject({
    width: 1000,
    height: 700,
  })
  await expect(browser.contexts()[0]!.pages()[0]!.goto(pages.url('closed'))).rejects.toThrow('ERR_BLOCKED_BY_ADMINISTRATOR')
  await browser.close()
  await cloud.client.browsers.deleteByID(made.session_id)
})

test('with a viewport that it got later', async () => {
  const made = await cloud.client.browsers.create({ timeout_seconds: 300 })
  await cloud.client.browsers.update(made.session_id, { viewport: { width: 900, height: 650 } })
  const browser = await killed(made)
  // Above the page are the tabs and the address bar.
  const below = expect.toSatisfy((height: number) => height > 0 && height < 650) as number
  await expect.poll(() => sizes(browser), { timeout: RESTART_MS }).toContainEqual([900, below, 900, 650, 900, 650])
  expect((await cloud.client.browsers.retrieve(made.session_id)).viewport).toMatchObject({ width: 900, height: 650 })
  await browser.close()
  await cloud.client.browsers.deleteByID(made.session_id)
})
