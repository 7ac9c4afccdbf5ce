// What tests at a screen share: a service with pages, a session, the page's record of mouse and keyboard, and waits for visible changes.
import type { Frame, Page } from 'playwright-core'
import { expect } from 'vitest'
import { until } from '../../src/base/wait.ts'
import type { Cloud } from './cloud.ts'
import { servePages, type Pages } from './pages.ts'
import { clearRecord, openSession, recorded, type Box, type Recorded, type Session } from './session.ts'
import { shareCloud } from './shared-cloud.ts'

/** The limit for a page to react to input. */
export const TAKE_MS = 10_000
/** The limit for a menu or a dialog to open or close; GTK loads its icons first. */
export const WINDOW_MS = 20_000
/** The limit for a page to load. */
export const LOAD_MS = 20_000

type Computer = Cloud['client']['browsers']['computer']

export interface Desk extends AsyncDisposable {
  cloud: Cloud
  pages: Pages
  computer: Computer
  /** A screenshot of a region of a session's screen. */
  shot(id: string, region: Box): Promise<Buffer>
  /** Runs `action`, and waits until this region of the screen changes because a window has opened there. */
  comesUp(what: string, id: string, region: Box, action: () => Promise<void>): Promise<void>
}

export async function openDesk(): Promise<Desk> {
  const pages = await servePages()
  const cloud = await shareCloud()
  const { computer } = cloud.client.browsers
  const shot = async (id: string, region: Box): Promise<Buffer> => Buffer.from(await (await computer.captureScreenshot(id, { region })).arrayBuffer())
  return {
    cloud,
    pages,
    computer,
    shot,
    async comesUp(what, id, region, action) {
      const before = await shot(id, region)
      await action()
      await until(what, WINDOW_MS, async () => !before.equals(await shot(id, region)), { everyMs: 50 })
    },
    async [Symbol.asyncDispose]() {
      await cloud[Symbol.asyncDispose]()
      await pages[Symbol.asyncDispose]()
    },
  }
}

export interface Seat extends Desk {
  session: Session
  id: string
}

/** A desk with a session, in full screen unless the options say otherwise. */
export async function sitDown(options: Parameters<typeof openSession>[1] = {}): Promise<Seat> {
  await using scope = new AsyncDisposableStack()
  const desk = scope.use(await openDesk())
  const session = scope.use(await openSession(desk.cloud, { timeout_seconds: 600, headless: true, ...options }))
  const owner = scope.move()
  return { ...desk, session, id: session.id, [Symbol.asyncDispose]: () => owner.disposeAsync() }
}

/** Resolves when the page has been painted. Chromium passes no input to a page before that. */
export const painted = (page: Page | Frame): Promise<unknown> =>
  page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')

export async function openInFront(page: Page, url: string): Promise<void> {
  await page.goto(url)
  await page.bringToFront()
  await painted(page)
}

export const of = (record: Recorded[], ...types: string[]): Recorded[] => record.filter(({ type }) => types.includes(type))

/** Runs `work`, then presses F8. Resolves with the events that the page recorded before F8, including those before this call. */
export async function recordUpToF8(computer: Computer, id: string, page: Page | Frame, work: () => Promise<unknown> = async () => {}): Promise<Recorded[]> {
  await work()
  await computer.pressKey(id, { keys: ['F8'] })
  return until('the end of the record', TAKE_MS, async () => {
    const record = await recorded(page)
    const end = record.findIndex(({ type, key }) => type === 'keydown' && key === 'F8')
    return end >= 0 && record.slice(0, end)
  })
}

/** The events that the page recorded during `work` only. */
export async function recordOf(computer: Computer, id: string, page: Page | Frame, work: () => Promise<unknown>): Promise<Recorded[]> {
  await clearRecord(page)
  return recordUpToF8(computer, id, page, work)
}

/** Waits until an expression in the page has this value; the error shows the last value. */
export async function become(page: Page, expression: string, wanted: unknown): Promise<void> {
  const text = JSON.stringify(wanted)
  await page.waitForFunction(`JSON.stringify(${expression}) === ${JSON.stringify(text)}`, undefined, { timeout: TAKE_MS }).catch(() => {})
  expect(await page.evaluate(expression)).toEqual(wanted)
}

/** Whether sessions are lean (the project "lean" of vitest.config.ts). */
export const areLean = process.env.COB_TEST_LEAN !== undefined
