// Connects Playwright to a CDP URL, as clients do.
import { chromium, type Browser, type Page } from 'playwright-core'

const CONNECT_MS = 60_000

export interface Driven extends AsyncDisposable {
  page: Page
}

/** Connects to a running browser and takes its first page. Disposing disconnects; the browser continues to run. */
export async function drive(cdpUrl: string): Promise<Driven> {
  const browser: Browser = await chromium.connectOverCDP(cdpUrl, { timeout: CONNECT_MS })
  return { page: browser.contexts()[0]!.pages()[0]!, [Symbol.asyncDispose]: () => browser.close() }
}

/** Opens a page and disconnects. */
export async function openPage(cdpUrl: string, address: string): Promise<void> {
  await using driven = await drive(cdpUrl)
  await driven.page.goto(address)
}
