// How telemetry attaches to a real browser: to every tab, only while telemetry is on, again after a crash, and without disturbing anyone.
import { expect, test } from 'vitest'
import { openCdp } from '../../bench/cdp.ts'
import { until } from '../../src/base/wait.ts'
import type { Cloud } from '../support/cloud.ts'
import { forTests } from '../support/for-tests.ts'
import { killChromium } from '../support/inside.ts'
import { servePages } from '../support/pages.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { capturing, readTelemetry, watchedSession } from '../support/telemetry.ts'

const cloud = forTests(() => shareCloud())
const pages = forTests(() => servePages())

interface Target {
  targetId: string
  type: string
  url: string
  attached: boolean
}

type Create = Parameters<Cloud['client']['browsers']['create']>[0]
type Update = Parameters<Cloud['client']['browsers']['update']>[1]

test('nobody is attached to pages before a category needs it and after none does any more, and a change restarts nothing', async () => {
  const { browsers } = cloud.client
  const { session_id: id, cdp_ws_url } = await browsers.create({ telemetry: capturing() } as Create)
  try {
    await using received = await readTelemetry(cloud, id)
    using cdp = await openCdp(cdp_ws_url, AbortSignal.timeout(60_000))
    const targets = async () => (await cdp.send<{ targetInfos: Target[] }>('Target.getTargets')).targetInfos.filter(({ type }) => type === 'page')
    const [{ targetId }] = (await targets()) as [Target]
    const isAttached = async () => (await targets()).map(({ attached }) => attached)
    expect(await isAttached()).toEqual([false])
    const update = (telemetry: object) => browsers.update(id, { telemetry } as Update)
    const navigate = async (name: string) => {
      const { sessionId } = await cdp.send<{ sessionId: string }>('Target.attachToTarget', { targetId, flatten: true })
      await cdp.send('Page.navigate', { url: pages.url(name) }, sessionId)
      await until('the page to load', 10_000, async () => {
        const { result } = await cdp.send<{ result: { value: string } }>('Runtime.evaluate', { expression: 'document.readyState + location.href' }, sessionId)
        return result.value === `complete${pages.url(name)}`
      })
      await cdp.send('Target.detachFromTarget', { sessionId })
    }
    await navigate('before')
    expect(received.all.filter(({ type }) => type.startsWith('page_'))).toEqual([])

    await update({ browser: { page: { enabled: true } } })
    expect(await isAttached()).toEqual([true])
    await navigate('during')
    await received.next('page_load', ({ data }) => data.url === pages.url('during'))

    // Add another category; the first one continues without a gap.
    await update({ browser: { interaction: { enabled: true } } })
    await cloud.client.browsers.computer.clickMouse(id, { x: 500, y: 500 })
    const click = await received.next('interaction_click')
    await navigate('again')
    const load = await received.next('page_load', ({ data }) => data.url === pages.url('again'))
    expect([click.data.nav_seq, load.data.nav_seq]).toEqual([2, 3])
    expect(click.data.session_id).toBe(load.data.session_id)

    // Console events come from CDP's Runtime domain, which bindings also need, so switching the console off must not disable bindings.
    await update({ browser: { console: { enabled: true } } })
    await update({ browser: { console: { enabled: false } } })
    for (const [number, next] of ['same', 'next'].entries()) {
      await cloud.client.browsers.computer.clickMouse(id, { x: 500, y: 500 })
      await until('the click', 10_000, () => received.of('interaction_click').length === 2 + number)
      await navigate(next)
    }

    await update({ browser: { page: { enabled: false }, interaction: { enabled: false } } })
    expect(await isAttached()).toEqual([false])
    const last = received.all.length
    await navigate('after')
    await cloud.client.browsers.computer.clickMouse(id, { x: 500, y: 500 })
    expect(received.all.slice(last).filter(({ type }) => /^(page|interaction|monitor)_/.test(type))).toEqual([])
    expect((await targets()).map((target) => target.targetId)).toEqual([targetId])
    expect(received.all.filter(({ type }) => type.startsWith('monitor_'))).toEqual([])
  } finally {
    await browsers.deleteByID(id)
  }
})

test('tabs and popups that anyone opens are watched from their first document, each once', async () => {
  await using made = await watchedSession(cloud, ['page', 'interaction'])
  const { session, received } = made
  const { page } = session
  await page.goto(pages.url('opener'))
  const popup = page.waitForEvent('popup')
  await page.evaluate(`void window.open(${JSON.stringify(pages.url('popup'))})`)
  await (await popup).waitForLoadState()
  const { data: opened } = await received.next('page_tab_opened')
  const { data: loaded } = await received.next('page_load', ({ data }) => data.url === pages.url('popup'))
  expect(opened).toMatchObject({ target_id: loaded.target_id, target_type: 'page', url: expect.any(String) })
  expect(opened.opener_id).toBe((await received.next('page_load', ({ data }) => data.url === pages.url('opener'))).data.target_id)
  expect(opened).not.toHaveProperty('session_id')

  const names = Array.from({ length: 20 }, (_, number) => `tab-${number}`)
  await Promise.all(
    names.map(async (name) => {
      const tab = await page.context().newPage()
      await tab.goto(pages.url(name))
    }),
  )
  for (const name of names) await received.next('page_load', ({ data }) => data.url === pages.url(name))
  const loads = received.of('page_load').map(({ data }) => data.url)
  expect(loads.toSorted()).toEqual(['opener', 'popup', ...names].map((name) => pages.url(name)).toSorted())
  expect(received.of('page_tab_opened').length).toBe(21)
  // Open a tab as a person does; it shows one of Chromium's own pages first.
  await cloud.client.browsers.computer.pressKey(session.id, { keys: ['Ctrl+t'] })
  await until('the new tab', 10_000, () => received.of('page_tab_opened').length === 22)
  await cloud.client.browsers.computer.typeText(session.id, { text: `${pages.url('by-hand')}\n` })
  await received.next('page_load', ({ data }) => data.url === pages.url('by-hand'))
  expect(received.all.filter(({ type, data }) => type !== 'page_tab_opened' && String(data.url).startsWith('chrome'))).toEqual([])
  expect(received.of('monitor_init_failed')).toEqual([])
})

test.each([[['page']], [['page', 'network', 'console']]])('workers and frames of all kinds run while %j are captured', async (names) => {
  await using made = await watchedSession(cloud, names)
  const { page } = made.session
  await page.context().route('https://*.test/**', (route) => {
    const { pathname } = new URL(route.request().url())
    return route.fulfill({ contentType: 'text/html', body: `<p>${pathname}` })
  })
  await page.goto('https://one.test/')
  const ran = await page.evaluate(`Promise.all([
    new Promise((done) => (new Worker(URL.createObjectURL(new Blob(['postMessage(1)']))).onmessage = () => done('worker'))),
    new Promise((done) => (new Worker(URL.createObjectURL(new Blob(['new Worker(URL.createObjectURL(new Blob(["postMessage(1)"]))).onmessage = () => postMessage(1)']))).onmessage = () => done('worker in a worker'))),
    new Promise((done) => (new SharedWorker(URL.createObjectURL(new Blob(['onconnect = ({ ports: [port] }) => port.postMessage(1)']))).port.onmessage = () => done('shared worker'))),
    new Promise((done) => {
      const frame = document.createElement('iframe')
      frame.src = 'https://two.test/'
      frame.onload = () => done('frame')
      document.body.append(frame)
    }),
  ])`)
  expect(ran).toEqual(['worker', 'worker in a worker', 'shared worker', 'frame'])
  expect(made.received.of('monitor_init_failed')).toEqual([])
})

test('a crash of Chromium is told, and the capture goes on', async () => {
  const { browsers } = cloud.client
  const { session_id: id } = await browsers.create({ telemetry: capturing('page'), start_url: pages.url('before-crash') } as Create)
  try {
    await using received = await readTelemetry(cloud, id)
    await received.next('page_load', ({ data }) => data.url === pages.url('before-crash'))
    await killChromium(cloud, id)
    expect((await received.next('monitor_disconnected')).data).toEqual({ reason: 'chrome_restarted' })
    const { data } = await received.next('monitor_reconnected')
    expect(data).toEqual({ reconnect_duration_ms: expect.any(Number) })
    await browsers.playwright.execute(id, { code: `await page.goto(${JSON.stringify(pages.url('after-crash'))})` })
    await received.next('page_load', ({ data: { url } }) => url === pages.url('after-crash'))
    expect(received.of('monitor_disconnected').length).toBe(1)
    expect(received.of('monitor_init_failed')).toEqual([])
  } finally {
    await browsers.deleteByID(id)
  }
})

test("a crash of a page's renderer is told", async () => {
  await using made = await watchedSession(cloud, ['page'])
  const { session, received } = made
  await session.page.goto(pages.url('crashing'))
  session.page.goto('chrome://crash').catch(() => {}) // this never answers
  const { data, source } = await received.next('page_crashed')
  expect(data).toEqual({ target_id: expect.any(String), target_type: 'page', url: pages.url('crashing') })
  expect(source.metadata).toEqual({ target_id: data.target_id, session_id: expect.any(String) })
})

test('pictures show the page after it has loaded, and none while a password can be read in it', async () => {
  await using made = await watchedSession(cloud, ['screenshot', 'page'])
  const { session, received } = made
  const { page } = session
  await page.goto(pages.url('picture'))
  const { data } = await received.next('monitor_screenshot')
  const png = Buffer.from(String(data.png), 'base64')
  expect(png.subarray(1, 4).toString()).toBe('PNG')
  expect(png.readUInt32BE(16)).toBeGreaterThan(400)
  await page.setContent('<input type="password" id="a"><input autocomplete="one-time-code" id="b"><p>Shown</p>')
  const taken = async () => {
    const before = received.of('monitor_screenshot').length
    await page.locator('p').click()
    return until('a picture', 5_000, () => received.of('monitor_screenshot').length > before).catch(() => false)
  }
  await page.locator('#a').fill('dots only')
  expect(await taken()).toBe(true)
  await page.locator('#b').fill('123456')
  expect(await taken()).toBe(false)
  await page.locator('#b').fill('')
  expect(await taken()).toBe(true)
})

test('a page that writes a line of 70 MB, and one that adds and removes a thousand frames, end nothing: later pages are told, and new targets go on', async () => {
  await using made = await watchedSession(cloud, ['page', 'console', 'network', 'interaction'])
  const { session, received } = made
  const { page } = session
  await page.goto(pages.url('hostile'))
  await page.evaluate(() => {
    console.log('x'.repeat(70_000_000))
    for (let count = 0; count < 3; count++) console.log('x'.repeat(3_000_000))
  })
  expect((await received.next('monitor_events_lost', ({ data }) => data.reason === 'too_large')).data.count).toBeGreaterThan(0)
  await page.evaluate(`(async () => {
    for (let turn = 0; turn < 10; turn++) {
      const frames = Array.from({ length: 100 }, () => document.body.appendChild(document.createElement('iframe')))
      for (const frame of frames) frame.remove()
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  })()`)
  const tab = await page.context().newPage()
  await tab.goto(pages.url('later'))
  expect(
    await tab.evaluate(`new Promise((resolve) => { new Worker(URL.createObjectURL(new Blob(['postMessage(1)']))).onmessage = ({ data }) => resolve(data) })`),
  ).toBe(1)
  await received.next('page_load', ({ data }) => data.url === pages.url('later'))
  await page.goto(pages.url('after'))
  await received.next('page_load', ({ data }) => data.url === pages.url('after'))
  expect(received.of('monitor_disconnected')).toEqual([])
})
