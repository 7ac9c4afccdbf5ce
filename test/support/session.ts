// A session under test with its page in reach, over the published SDK and Playwright.
import type Kernel from '@onkernel/sdk'
import { chromium, type Browser, type Page } from 'playwright-core'
import type { Cloud } from './cloud.ts'

type Made = Awaited<ReturnType<Kernel['browsers']['create']>>

export interface Session extends AsyncDisposable {
  id: string
  made: Made
  browser: Browser
  page: Page
}

/** Creates a browser and connects to its first page; disposing deletes it. */
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

/** One line of the recorder page. */
export interface Recorded {
  type: string
  at: number
  x: number
  y: number
  button: number
  buttons: number
  trusted: boolean
  key?: string
  shift: boolean
  ctrl: boolean
  alt: boolean
  meta: boolean
}

/** What test/pages/recorder.html has recorded so far. */
export const recorded = (page: Page): Promise<Recorded[]> => page.evaluate('record')

export const clearRecord = (page: Page): Promise<void> => page.evaluate('void (record.length = 0)')
