// Telemetry of pages: which events a real browser produces, and that a page cannot notice the capture.
import { describe, expect, test } from 'vitest'
import { forTests } from '../support/for-tests.ts'
import { servePages } from '../support/pages.ts'
import { where, type Session } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { watchedSession } from '../support/telemetry.ts'

const cloud = forTests(() => shareCloud())
const pages = forTests(() => servePages())

const watched = (names: string[], options = {}) => watchedSession(cloud, names, options)

describe('pages', () => {
  test('a navigation is told from its beginning until the page has come to rest, with one context', async () => {
    await using made = await watched(['page'])
    const { session, received } = made
    const url = pages.url('telemetry.html?moves')
    await session.page.goto(url)
    const settled = await received.next('page_navigation_settled', ({ data }) => data.url === url)
    const navigation = await received.next('page_navigation', ({ data }) => data.url === url)
    expect(navigation.data).toMatchObject({ target_type: 'page', frame_id: expect.any(String), loader_id: expect.any(String), session_id: expect.any(String) })
    expect(navigation.data).not.toHaveProperty('nav_seq')
    expect(navigation.data).not.toHaveProperty('parent_frame_id')
    const context = settled.data
    expect(context).toMatchObject({ ...navigation.data, nav_seq: expect.any(Number) })
    expect((await received.next('page_dom_content_loaded', ({ data }) => data.url === url)).data).toMatchObject({
      ...context,
      cdp_timestamp: expect.any(Number),
    })
    expect((await received.next('page_load', ({ data }) => data.url === url)).data).toMatchObject({ ...context, cdp_timestamp: expect.any(Number) })
    expect((await received.next('page_layout_settled', ({ data }) => data.url === url)).data).toEqual(context)
    expect((await received.next('page_lcp', ({ data }) => data.url === url && data.source_frame_id === context.frame_id)).data).toMatchObject({
      ...context,
      source_frame_id: context.frame_id,
      time: expect.any(Number),
      lcp_details: { size: expect.any(Number), render_time: expect.any(Number), element_id: 'largest' },
    })
    const shift = await received.next('page_layout_shift', ({ data }) => data.url === url)
    expect(shift.data).toMatchObject({
      source_frame_id: context.frame_id,
      duration: 0,
      layout_shift_details: { value: expect.any(Number), had_recent_input: false },
    })
    // Each layout shift restarts the wait.
    expect(settled.ts - shift.ts).toBeGreaterThan(900_000)
    // The frame in the page has an event too.
    expect((await received.next('page_navigation', ({ data }) => data.url === pages.url('inside'))).data).toMatchObject({ parent_frame_id: context.frame_id })
    await session.page.goto(pages.url('second'))
    expect((await received.next('page_load', ({ data }) => data.url === pages.url('second'))).data.nav_seq).toBe((context.nav_seq as number) + 1)
    expect(received.of('monitor_init_failed')).toEqual([])
  })
})

describe('what users do', () => {
  test('clicks, keys and scrolling are told, and events that a page makes itself are not', async () => {
    await using made = await watched(['interaction'])
    const { session, received } = made
    const { page } = session
    await page.goto(pages.url('telemetry.html'))
    const { computer } = cloud.client.browsers
    const at = await where(page, '#button')
    await computer.clickMouse(session.id, at)
    const box = (await page.locator('#button').boundingBox())!
    const click = await received.next('interaction_click')
    expect(click.data).toMatchObject({ tag: 'BUTTON', selector: '#button', text: 'Press me', url: pages.url('telemetry.html'), target_type: 'page' })
    expect(click.data.x).toBeCloseTo(Math.round(box.x + box.width / 2), -1)
    await page.locator('#plain').click()
    await computer.typeText(session.id, { text: 'ab' })
    await received.next('interaction_key', ({ data }) => data.key === 'b')
    expect(received.of('interaction_key').map(({ data }) => [data.key, data.tag, data.selector])).toEqual([
      ['a', 'INPUT', '#plain'],
      ['b', 'INPUT', '#plain'],
    ])
    await page.evaluate(`document.querySelector('#button').click(); dispatchEvent(new KeyboardEvent('keydown', { key: 'z' }))`)
    await page.mouse.wheel(0, 300)
    const scroll = await received.next('interaction_scroll_settled')
    expect(scroll.data).toMatchObject({ from_x: 0, from_y: 0, to_x: 0, to_y: 300, target_selector: 'html' })
    expect(received.of('interaction_click').length).toBe(2)
    expect(received.of('interaction_key').length).toBe(2)
  })
})

/** A page with every kind of field that holds a secret, and one field that does not. */
const SECRETS: Record<string, string> = {
  '/': `<!doctype html><title>Login</title><style>body > * { margin: 2px }</style>
<input id="plain"><input id="normal" type="password"><input id="shown" type="password"><button id="show" onclick="shown.type = shown.type === 'text' ? 'password' : 'text'">Show</button>
<input id="otp1" maxlength="1" inputmode="numeric"><input id="otp2" maxlength="1" inputmode="numeric"><input id="otp3" maxlength="1" inputmode="numeric"><input id="otp4" maxlength="1" inputmode="numeric"><input id="code" autocomplete="one-time-code"><input id="cardCvv"><label>Your secret word <input id="word"></label>
<input id="dots" style="-webkit-text-security: disc"><div id="editable" contenteditable aria-label="PIN" style="width: 100px; height: 20px; border: 1px solid"></div>
<open-field></open-field><closed-field></closed-field><div class="pinpad"><button id="digit">7</button></div>
<form id="form" method="get" action="/after"><input id="scripted" name="q" type="password"></form>
<iframe src="https://two.test/inside" width="300" height="60"></iframe><iframe src="/inside" width="300" height="60"></iframe><p id="echo">nothing</p>
<script>
  for (const mode of ['open', 'closed']) customElements.define(mode + '-field', class extends HTMLElement {
    constructor() { super(); this.attachShadow({ mode }).innerHTML = '<input type="password" style="width:100px">' }
  })
</script>`,
  '/inside': '<!doctype html><body style="margin:0"><input type="password" id="normal">',
  '/after': '<!doctype html><title>after</title><h1>after</h1>',
}
async function serveSecrets({ page }: Session): Promise<void> {
  await page
    .context()
    .route(/^https:\/\/(one|two)\.test\//, (route) => route.fulfill({ contentType: 'text/html', body: SECRETS[new URL(route.request().url()).pathname] ?? '' }))
  await page.goto('https://one.test/')
}

describe('secrets', () => {
  test('what is typed into password-like fields is told nowhere, neither as keys nor as text, whoever types it', async () => {
    await using made = await watched(['page', 'interaction', 'network', 'console'])
    const { session, received } = made
    const { page } = session
    await serveSecrets(session)
    const { computer } = cloud.client.browsers
    const type = async (selector: string, text: string) => {
      await computer.clickMouse(session.id, await where(page, selector))
      await computer.typeText(session.id, { text })
    }
    await type('#plain', 'x')
    await type('#normal', 'qwJKcanary1')
    await page.locator('#normal').fill('qwJKcanary2')
    // Show the password before the first key.
    await page.locator('#show').click()
    await type('#shown', 'qwJKcanary3')
    for (const [at, digit] of ['9', '3', '7', '1'].entries()) await type(`#otp${at + 1}`, digit)
    for (const selector of ['#code', '#cardCvv', '#word', '#dots', '#editable', 'open-field']) await type(selector, 'qwJKcanary0')
    await type('closed-field', 'qwJKcanary4')
    for (const frame of page.frames().slice(1)) {
      await frame.locator('#normal').click()
      await page.keyboard.type('qwJKcanary5')
    }
    await page.locator('#digit').click()
    // The page shows, sends and prints the typed values.
    await page.evaluate(`document.querySelector('#echo').textContent = 'You typed qwJKcanary1'; console.log('typed qwJKcanary2')`)
    await page.locator('#echo').click()
    await page.evaluate(`fetch('/after?echo=' + document.querySelector('#shown').value)`)
    // This value was typed into a closed shadow root. Scripts cannot read its field; they learn the value from its events.
    await page.evaluate(`history.replaceState(null, '', '/?q=' + 'qwJKcanary4' + '&c=9371')`)
    await type('#plain', 'y')
    await received.next('interaction_key', ({ data }) => data.key === 'y')
    // A script fills in a form and submits it, without an input event.
    await page.evaluate(`document.querySelector('#scripted').value = 'qwJKcanary6'; document.querySelector('#form').submit()`)
    await received.next('page_navigation', ({ data }) => String(data.url).includes('/after'))
    await received.next('page_load', ({ data }) => String(data.url).includes('/after'))

    expect(JSON.stringify(received.all)).not.toMatch(/qwJK|canary|c=9371/)
    // There were events that could have contained the secrets.
    expect(received.of('console_log').map(({ data }) => data.text)).toEqual([expect.stringMatching(/^typed .+/)])
    expect(received.of('network_request').filter(({ data }) => String(data.url).includes('/after?')).length).toBe(2)
    expect(received.of('interaction_key').map(({ data }) => [data.key, data.selector])).toEqual([
      ['x', '#plain'],
      ['y', '#plain'],
    ])
    const clicks = received.of('interaction_click')
    // Clicks on such fields are reported, without a selector.
    expect(clicks.filter(({ data }) => data.tag === 'INPUT' && data.selector === undefined).length).toBeGreaterThanOrEqual(6)
    expect(clicks.some(({ data }) => data.text === '7')).toBe(false)
    expect(clicks.some(({ data }) => data.tag === 'P' && data.text !== undefined)).toBe(false)
    // Both frames report their clicks; one of them runs in its own process.
    expect(clicks.filter(({ data }) => data.target_type === 'iframe').length).toBe(1)
    expect(received.of('monitor_init_failed')).toEqual([])
  })
})
