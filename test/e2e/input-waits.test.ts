// When painted.ts sees a navigation in a real Chromium: input waits after each navigation, and otherwise not.
import { chromium } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { connectCdp, type CdpConnection } from '../../src/agent/chromium/cdp-socket.ts'
import { watchPaints } from '../../src/agent/chromium/painted.ts'
import { silentLog } from '../../src/base/log.ts'
import type { Cloud } from '../support/cloud.ts'
import { forTests } from '../support/for-tests.ts'
import { servePages } from '../support/pages.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const forever = new AbortController().signal

let made: Awaited<ReturnType<Cloud['client']['browsers']['create']>>
let cdp: CdpConnection
const pages = forTests(() => servePages())
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  // Not in kiosk mode: there the agent may attach to the page at any time, to keep the window in full screen.
  made = await cloud.client.browsers.create({ timeout_seconds: 300 })
  const { port, pathname, search } = new URL(made.cdp_ws_url)
  cdp = await connectCdp(Number(port), pathname + search)
})
afterAll(async () => {
  cdp.close()
  await cloud.client.browsers.deleteByID(made.session_id)
})

test('ten clicks on a page that was just opened wait for it at most once', async () => {
  const { targetInfos } = await cdp.send('Target.getTargets', {})
  const { targetId } = targetInfos.find(({ type }) => type === 'page')!
  {
    await using page = await cdp.session(targetId)
    await page.send('Page.navigate', { url: pages.url('recorder.html') })
  }
  // No other client attaches to the page, so each attachment is one wait of the agent.
  let waits = 0
  let attached = false
  const end = cdp.on('Target.targetInfoChanged', ({ targetInfo }) => {
    if (targetInfo.targetId !== targetId) return
    // A change of the title also raises this event, so count only changes of `attached`.
    if (targetInfo.attached && !attached) waits++
    ;({ attached } = targetInfo)
  })
  onTestFinished(end)
  await cdp.send('Target.setDiscoverTargets', { discover: true })
  for (let i = 0; i < 10; i++) await cloud.client.browsers.computer.clickMouse(made.session_id, { x: 200 + 20 * i, y: 300 })
  // The answer comes after all earlier events.
  await cdp.send('Target.getTargets', {})
  expect(waits).toBeLessThanOrEqual(1)
})

test('Chromium tells of each navigation, also of one to the same address or within the document, and input then waits once', async () => {
  // Input does not wait when the last navigation is some seconds old, so freeze the clock.
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  let asked = 0
  const counting = { ...cdp, session: (id: string) => (asked++, cdp.session(id)) }
  const painted = await watchPaints(counting, silentLog)
  let events = 0
  onTestFinished(cdp.on('Target.targetInfoChanged', () => void events++))
  const waits = async () => {
    asked = 0
    for (let input = 0; input < 3; input++) await painted(forever)
    return asked
  }
  const browser = await chromium.connectOverCDP(made.cdp_ws_url)
  onTestFinished(() => browser.close())
  const page = browser.contexts()[0]!.pages()[0]!
  await page.goto(pages.url('one'))
  const navigations: Record<string, () => Promise<unknown>> = {
    'to another address': () => page.goto(pages.url('recorder.html')),
    'to the same address': () => page.goto(pages.url('recorder.html')),
    'a reload': () => page.reload(),
    'a reload by the page': () => page.evaluate('location.reload()'),
    'to a part of the page': () => page.evaluate('location.hash = "part"'),
    pushState: () => page.evaluate('history.pushState(1, "", location.href)'),
    replaceState: () => page.evaluate('history.replaceState(2, "")'),
    back: () => page.evaluate('history.back()'),
    'to an empty page': () => page.goto('about:blank'),
    'to an empty page again': () => page.goto('about:blank'),
    'to a page that cannot be opened': () => page.goto('http://127.0.0.1:1/').catch(() => {}),
    'to an empty page after it': () => page.goto('about:blank'),
  }
  await waits()
  for (const [name, navigate] of Object.entries(navigations)) {
    const before = events
    await navigate()
    await expect.poll(() => events, { message: name }).toBeGreaterThan(before)
    expect(await waits(), name).toBe(1)
    // Another client that attaches and detaches is no navigation.
    const other = await page.context().newCDPSession(page)
    await other.detach()
    expect(await waits(), name).toBe(0)
  }
})
