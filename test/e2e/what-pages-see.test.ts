// A page learns the same about a session's browser as about a browser that a person started on the same machine.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import { expect, test } from 'vitest'
import { FILLING, startChromium, startDisplay } from '../../bench/bare.ts'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { forTests } from '../support/for-tests.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const cloud = forTests(() => shareCloud())

/** A secure origin that needs no network. */
const ORIGIN = 'https://probe.test'

type Seen = Record<string, unknown>

/** Opens the probe page in a browser's first window, and returns its findings. */
async function probe(cdpUrl: string): Promise<Seen> {
  const browser = await chromium.connectOverCDP(cdpUrl)
  try {
    const page = browser.contexts()[0]!.pages()[0]!
    await page.route(`${ORIGIN}/**`, (route) => {
      const { pathname } = new URL(route.request().url())
      const isPage = pathname === '/'
      const file = isPage ? 'test/pages/probe.html' : pathname.replace(/^\/npm/, 'node_modules')
      return route.fulfill({ contentType: isPage ? 'text/html' : 'text/javascript', body: readFileSync(join(PACKAGE_DIR, file)) })
    })
    await page.goto(ORIGIN)
    return withoutAsync((await page.evaluate('probed')) as Seen)
  } finally {
    await browser.close()
  }
}

/** Removes asynchronous callers from stack traces: which of them are shown depends on what was loaded before. */
const withoutAsync = (seen: Seen): Seen =>
  Object.fromEntries(
    Object.entries(seen).map(([name, value]) => [name, typeof value === 'string' ? value.replaceAll(/(\\n|\n) +at (async|new Promise)[^\n\\"]*/g, '') : value]),
  )

const NOTHING = Symbol('nothing')

/** Properties that may differ: without a window manager a window is one pixel smaller than its screen, and a machine without a sound card has no speakers. */
const MAY_DIFFER = new Set([
  'visualViewport.width',
  'visualViewport.height',
  'window.innerWidth',
  'window.innerHeight',
  'window.outerWidth',
  'window.outerHeight',
  'botd windowSize',
  'devices',
])

test("more than 220 properties and botd's findings are those of a browser that was started by hand", async () => {
  const bare: Seen = await (async () => {
    const signal = AbortSignal.timeout(60_000)
    await using display = await startDisplay(signal)
    // The debugging port sets navigator.webdriver, so switch that off. WebGL runs in software, as in sessions: without a GPU a browser would have no WebGL.
    await using browser = await startChromium(display, [...FILLING, '--enable-unsafe-swiftshader', '--disable-blink-features=AutomationControlled'], signal)
    return await probe(browser.cdpUrl)
  })()
  const made = await cloud.client.browsers.create({ viewport: { width: 1920, height: 1080 } })
  const ours = await probe(made.cdp_ws_url)
  await cloud.client.browsers.deleteByID(made.session_id)
  expect(Object.keys(bare).length).toBeGreaterThan(220)
  const differ = [...new Set([...Object.keys(bare), ...Object.keys(ours)])]
    .filter((name) => !MAY_DIFFER.has(name))
    .flatMap((name) => {
      const [theirs, own] = [name in bare ? bare[name] : NOTHING, name in ours ? ours[name] : NOTHING]
      return JSON.stringify(theirs) === JSON.stringify(own) && typeof theirs === typeof own ? [] : [{ name, bare: theirs, ours: own }]
    })
  expect(differ).toEqual([])
  expect(ours).toMatchObject({ 'window.outerWidth': 1920, 'window.outerHeight': 1080, devices: ['audiooutput'] })
  expect(ours['botd says']).toEqual({ bot: false })
})
