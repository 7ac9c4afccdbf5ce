// Kills the Chromium of a session: it starts again, and every setting of the session still applies.
import { chromium } from 'playwright-core'
import sharp from 'sharp'
import { expect, test } from 'vitest'
import { forTests } from '../support/for-tests.ts'
import { killChromium } from '../support/inside.ts'
import { servePages } from '../support/pages.ts'
import { shareCloud } from '../support/shared-cloud.ts'

/** The limit for Chromium and its window to start on a busy machine. */
const RESTART_MS = 60_000

const pages = forTests(() => servePages())
const cloud = forTests(() => shareCloud())

/** Kills the session's Chromium, and connects to the next one. */
async function killed({ session_id, cdp_ws_url }: { session_id: string; cdp_ws_url: string }) {
  await killChromium(cloud, session_id)
  return chromium.connectOverCDP(cdp_ws_url)
}

/** The sizes of each page, its window and its screen. A page that Chromium restores in a background tab has other sizes until it is shown. */
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
  // The tabs and the address bar are above the page.
  const below = expect.toSatisfy((height: number) => height > 0 && height < 650) as number
  await expect.poll(() => sizes(browser), { timeout: RESTART_MS }).toContainEqual([900, below, 900, 650, 900, 650])
  expect((await cloud.client.browsers.retrieve(made.session_id)).viewport).toMatchObject({ width: 900, height: 650 })
  await browser.close()
  await cloud.client.browsers.deleteByID(made.session_id)
})
