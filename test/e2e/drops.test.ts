// Drops: every way to release a drag delivers it to its target, as the pages record it. drag.test.ts tests the movement before.
import type { Frame, Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { painted, sitDown, TAKE_MS, type Seat } from '../support/desk.ts'
import { openSession } from '../support/session.ts'

let seat: Seat
let cloud: Seat['cloud']
let pages: Seat['pages']
let session: Seat['session']
let page: Page
let computer: Seat['computer']
beforeAll(async () => {
  seat = await sitDown({ viewport: { width: 1280, height: 800 } })
  ;({ cloud, pages, session, computer } = seat)
  page = session.page
  await page.goto(pages.url('drops'))
})
afterAll(() => seat[Symbol.asyncDispose]())

type Place = [x: number, y: number]
type Action = Parameters<typeof computer.batch>[1]['actions'][number]
const up = ([x, y]: Place): Action => ({ type: 'click_mouse', click_mouse: { x, y, click_type: 'up' } })
const down = ([x, y]: Place): Action => ({ type: 'click_mouse', click_mouse: { x, y, click_type: 'down' } })
const batch = (...actions: Action[]) => computer.batch(session.id, { actions })

/** Every way to drag something from one place to another. */
const WAYS: Record<string, (from: Place, to: Place) => Promise<unknown>> = {
  'a straight drag': (from, to) => computer.dragMouse(session.id, { path: [from, to], smooth: false }),
  'a drag of one step': (from, to) => computer.dragMouse(session.id, { path: [from, to], smooth: false, steps_per_segment: 1 }),
  'a drag with slow steps': (from, to) => computer.dragMouse(session.id, { path: [from, to], smooth: false, step_delay_ms: 200 }),
  'a smooth drag': (from, to) => computer.dragMouse(session.id, { path: [from, to] }),
  'a smooth drag of 50 ms': (from, to) => computer.dragMouse(session.id, { path: [from, to], duration_ms: 50 }),
  'calls of down, move and up': async (from, to) => {
    await computer.clickMouse(session.id, { x: from[0], y: from[1], click_type: 'down' })
    await computer.moveMouse(session.id, { x: to[0], y: to[1], smooth: false })
    await computer.clickMouse(session.id, { x: to[0], y: to[1], click_type: 'up' })
  },
  'calls of down and up': async (from, to) => {
    await computer.clickMouse(session.id, { x: from[0], y: from[1], click_type: 'down' })
    await computer.clickMouse(session.id, { x: to[0], y: to[1], click_type: 'up' })
  },
  'down, a smooth move, and up in a batch': (from, [x, y]) => batch(down(from), { type: 'move_mouse', move_mouse: { x, y } }, up([x, y])),
  'down and up in a batch': (from, to) => batch(down(from), up(to)),
}

/** Records drops on elements with `data-to` in `dropped`, and all drag events in `log`. */
const RECORDING = `<script>
  dropped = []; log = []
  for (const type of ['dragstart', 'dragenter', 'dragover', 'dragend', 'drop']) addEventListener(type, (event) => log.push(type + ' ' + event.target.id), true)
  addEventListener('dragstart', (event) => event.dataTransfer.setData('text/plain', event.target.id))
  addEventListener('dragover', (event) => event.target.closest?.('[data-to]') && event.preventDefault())
  addEventListener('drop', (event) => (event.preventDefault(), dropped.push(event.dataTransfer.getData('text/plain') + ' on ' + event.target.id)))
</script>`
const box = (id: string, [x, y]: Place, [width, height]: Place, more: string) =>
  `<div id=${id} ${more} style="position:absolute;left:${x}px;top:${y}px;width:${width}px;height:${height}px;background:#9df"></div>`
/** Each test places its card elsewhere: a second press at the same place within half a second would be a double click, which starts no drag. */
let shown = 0
const onCard = (): Place => [140 + 10 * (shown % 30), 130]
const card = () => box('card', [onCard()[0] - 40, 100], [80, 60], 'draggable=true')
const target = (at: Place, size: Place) => box('target', at, size, 'data-to')

async function show(html: string, into: Page | Frame = page): Promise<void> {
  await into.setContent(`<!doctype html><style>*{margin:0}</style>${RECORDING}${html}`)
  await painted(into)
}

/** The recorded drops, after a page has seen the end of the drag. */
async function dropped(at: Page | Frame = page, from: Page | Frame = page): Promise<unknown> {
  await until('the end of the drag', TAKE_MS, () => from.evaluate(`log.some((entry) => entry.startsWith('dragend'))`) as Promise<boolean>).catch(() => {})
  return at.evaluate('dropped')
}

beforeEach(() => void shown++)

describe.each(Object.entries(WAYS))('what %s carries', (_way, carry) => {
  test('is dropped on a target that it enters only at its end', async () => {
    await show(card() + target([700, 500], [200, 120]))
    await carry(onCard(), [800, 560])
    expect(await dropped()).toEqual(['card on target'])
  })

  test('is dropped on a target of a few pixels', async () => {
    await show(card() + target([700, 500], [4, 4]))
    await carry(onCard(), [702, 502])
    expect(await dropped()).toEqual(['card on target'])
  })

  test('is dropped where it is let go, when every element on the way takes drops', async () => {
    const items = Array.from({ length: 12 }, (_, index) => box(`item${index}`, [600, 60 + index * 50], [200, 50], 'draggable=true data-to'))
    await show(items.join(''))
    await carry([700 + 3 * (shown % 30), 60 + 11 * 50 + 25], [700, 85])
    expect(await dropped()).toEqual(['item11 on item0'])
  })

  test('is moved by pointer events to where it is let go, also in a page that follows a frame later', async () => {
    await show(`${card()}<script>
      card.draggable = false
      var follow, grabbed
      onpointerdown = ({ target }) => (grabbed = target === card)
      onpointermove = ({ clientX, clientY }) => grabbed && requestAnimationFrame(() => (follow = [clientX, clientY]))
      onpointerup = () => (dropped.push(follow), (grabbed = false))
    </script>`)
    await carry(onCard(), [900, 600])
    await expect.poll(() => page.evaluate('dropped'), { timeout: TAKE_MS }).toEqual([[900, 600]])
  })
})

describe.each(['a drag of one step', 'calls of down and up', 'down and up in a batch'])('what %s carries', (way) => {
  const carry = WAYS[way]!

  test('is dropped on a target that moves away from under other elements while it comes', async () => {
    // The target moves to its final place only when a drag enters the page.
    await show(
      `${card() + target([700, 100], [200, 120])}<script>addEventListener('dragenter', () => (target.style.transition = 'top 100ms', target.style.top = '500px'))</script>`,
    )
    await carry(onCard(), [800, 560])
    expect(await dropped()).toEqual(['card on target'])
  })

  test('is dropped by a page that needs 300 ms to answer', async () => {
    await show(
      `${card() + target([700, 500], [200, 120])}<script>addEventListener('dragover', () => { for (const end = performance.now() + 300; performance.now() < end;); })</script>`,
    )
    await carry(onCard(), [800, 560])
    expect(await dropped()).toEqual(['card on target'])
  })

  test('is dropped in a frame', async () => {
    await show(`${card()}<iframe src="${pages.url('frame')}" style="position:absolute;left:600px;top:300px;width:500px;height:400px;border:0"></iframe>`)
    const frame = await framed(pages.url('frame'))
    await show(target([100, 100], [100, 100]), frame)
    await carry(onCard(), [750, 450])
    expect(await dropped(frame)).toEqual(['card on target'])
  })

  test('is dropped within a frame of another site, whose process is another one', async () => {
    // The frame itself must hold both elements: Chromium does not drag between two sites of one page.
    const url = 'http://frame.example/'
    await page.route(`${url}**`, (route) => route.fulfill({ contentType: 'text/html', body: '' }))
    await show(`<iframe src="${url}" style="position:absolute;left:100px;top:50px;width:1000px;height:700px;border:0"></iframe>`)
    const frame = await framed(url)
    await show(card() + target([700, 500], [100, 100]), frame)
    const [x, y] = onCard()
    await carry([x + 100, y + 50], [850, 600])
    expect(await dropped(frame, frame)).toEqual(['card on target'])
    await page.unroute(`${url}**`)
  })
})

/** The page's only frame, after it has loaded. */
async function framed(url: string): Promise<Frame> {
  const frame = (await (await page.waitForSelector('iframe')).contentFrame())!
  await frame.waitForURL(url)
  return frame
}

test('what is dragged from one window to another is dropped there, in both directions', async () => {
  await using wide = await openSession(cloud, { timeout_seconds: 300, viewport: { width: 1280, height: 800 } })
  const first = wide.page
  const [second] = await Promise.all([first.waitForEvent('popup'), first.evaluate(`void open('about:blank', '', 'popup')`)])
  const place = async (of: Page, bounds: object) => {
    const cdp = await of.context().newCDPSession(of)
    const { windowId } = (await cdp.send('Browser.getWindowForTarget')) as { windowId: number }
    await cdp.send('Browser.setWindowBounds', { windowId, bounds: { windowState: 'normal' } })
    // Chromium gives the window its former size when the X server says that it is not maximized any more.
    await expect
      .poll(async () => ((await cdp.send('Browser.getWindowBounds', { windowId })) as { bounds: { windowState: string } }).bounds.windowState)
      .toBe('normal')
    await cdp.send('Browser.setWindowBounds', { windowId, bounds })
    await expect.poll(() => of.evaluate('({ left: screenX, top: screenY, width: outerWidth, height: outerHeight })'), { timeout: TAKE_MS }).toEqual(bounds)
  }
  await place(first, { left: 0, top: 0, width: 640, height: 800 })
  await place(second, { left: 660, top: 50, width: 600, height: 700 })
  for (const each of [first, second]) await show(card() + target([200, 350], [200, 100]), each)
  const at = (of: Page, [x, y]: Place) => of.evaluate(`[screenX + ${x}, screenY + outerHeight - innerHeight + ${y}]`) as Promise<Place>
  for (const [from, to] of [
    [first, second],
    [second, first],
  ] as const) {
    await cloud.client.browsers.computer.dragMouse(wide.id, { path: [await at(from, onCard()), await at(to, [300, 400])], smooth: false })
    expect(await dropped(to, from)).toEqual(['card on target'])
  }
})

test('a drop that no element takes ends the drag, and the next click arrives', async () => {
  await show(card() + target([700, 500], [200, 120]))
  await page.evaluate(`void addEventListener('click', ({ clientX, clientY }) => dropped.push([clientX, clientY]))`)
  await batch({ type: 'drag_mouse', drag_mouse: { path: [onCard(), [400, 700]] } }, { type: 'click_mouse', click_mouse: { x: 300, y: 300 } })
  await expect.poll(() => page.evaluate('dropped'), { timeout: TAKE_MS }).toEqual([[300, 300]])
})

test('a click on what was just dropped finds it where it was dropped', async () => {
  await show(`${target([700, 500], [200, 120]) + card()}<script>
    addEventListener('drop', () => Object.assign(card.style, { left: '760px', top: '530px' }))
    card.onclick = () => dropped.push('click')
  </script>`)
  await batch({ type: 'drag_mouse', drag_mouse: { path: [onCard(), [800, 560]], smooth: false } }, { type: 'click_mouse', click_mouse: { x: 800, y: 560 } })
  await expect.poll(() => page.evaluate('dropped'), { timeout: TAKE_MS }).toEqual(['card on target', 'click'])
})

test('a second drag from the same place at once is one, too', async () => {
  const list = Array.from({ length: 4 }, (_, index) => box(`item${index}`, [600, 60 + index * 50], [200, 50], 'draggable=true')).join('')
  await show(list + target([100, 300], [200, 120]))
  await page.evaluate(`void addEventListener('drop', ({ dataTransfer }) => document.getElementById(dataTransfer.getData('text/plain')).style.display = 'none')`)
  const drag: Action = {
    type: 'drag_mouse',
    drag_mouse: {
      path: [
        [700, 85],
        [200, 360],
      ],
      smooth: false,
      steps_per_segment: 1,
    },
  }
  await page.evaluate(`void addEventListener('drop', () => item1.style.top = '60px')`)
  await batch({ type: 'click_mouse', click_mouse: { x: 700, y: 85 } }, drag, drag)
  await expect.poll(() => page.evaluate('dropped'), { timeout: TAKE_MS }).toEqual(['item0 on target', 'item1 on target'])
})
