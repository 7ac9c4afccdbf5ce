// A session under test and its page, through the published SDK and Playwright.
import type Kernel from '@onkernel/sdk'
import { chromium, type Browser, type Frame, type Page } from 'playwright-core'
import type { Cloud } from './cloud.ts'

type Made = Awaited<ReturnType<Kernel['browsers']['create']>>

export interface Session extends AsyncDisposable {
  id: string
  made: Made
  browser: Browser
  page: Page
}

/** Creates a browser and connects to its first page. Disposing deletes it. */
export async function openSession(cloud: Cloud, options: Parameters<Kernel['browsers']['create']>[0] = {}): Promise<Session> {
  const made = await cloud.client.browsers.create(options)
  const browser = await chromium.connectOverCDP(made.cdp_ws_url)
  const page = browser.contexts()[0]!.pages()[0]!
  return {
    id: made.session_id,
    made,
    browser,
    page,
    async [Symbol.asyncDispose]() {
      await browser.close()
      await cloud.client.browsers.deleteByID(made.session_id)
    },
  }
}

/** One event of the recorder page. A field that the event does not have is undefined. */
export interface Recorded {
  type: string
  /** Milliseconds since the page was opened. */
  at: number
  /** The time of the input, which Chromium may handle a moment later. */
  inputAt: number
  /** The id of the element or its nearest ancestor with an id; otherwise its tag. */
  target: string
  /** For pointer, mouse, wheel and drag events: the position, in screen pixels. */
  x: number
  y: number
  button: number
  buttons: number
  trusted: boolean
  shift: boolean
  ctrl: boolean
  alt: boolean
  meta: boolean
  altGraph?: boolean
  capsLock?: boolean
  key?: string
  code?: string
  /** 0 standard, 1 left, 2 right, 3 number pad. */
  location?: number
  repeat?: boolean
  /** For clicks: its number in a series of clicks. */
  detail?: number
  deltaX?: number
  deltaY?: number
  /** 0 pixels, 1 lines, 2 pages. */
  deltaMode?: number
  /** The inserted text, and how it was inserted. */
  data?: string | null
  inputType?: string
  isComposing?: boolean
  pointerType?: string
  pressure?: number
  /** For copy, cut, paste and drop. */
  text?: string
  /** For scroll: the element's position after the scroll. */
  left?: number
  top?: number
}

/** The events that test/pages/recorder.html has recorded so far. */
export const recorded = (page: Page | Frame): Promise<Recorded[]> => page.evaluate('record')

export const clearRecord = (page: Page | Frame): Promise<void> => page.evaluate('void (record.length = 0)')

export interface Box {
  x: number
  y: number
  width: number
  height: number
}

/** The element's box in screen pixels. The page is below the tabs and the address bar, if the window has them. */
export async function boxOf(page: Page, selector: string): Promise<Box> {
  const box = (await page.locator(selector).boundingBox())!
  const [left, top] = (await page.evaluate('[screenX, screenY + outerHeight - innerHeight]')) as [number, number]
  return { ...box, x: box.x + left, y: box.y + top }
}

/** The screen pixel in the middle of the element. */
export async function where(page: Page, selector: string): Promise<{ x: number; y: number }> {
  const { x, y, width, height } = await boxOf(page, selector)
  return { x: Math.round(x + width / 2), y: Math.round(y + height / 2) }
}
