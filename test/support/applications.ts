// Shared by the tests of real applications: a service with pages, and waits for visible changes.
import type { Page } from 'playwright-core'
import { expect } from 'vitest'
import { until } from '../../src/base/wait.ts'
import type { Cloud } from './cloud.ts'
import { servePages, type Pages } from './pages.ts'
import type { Box } from './session.ts'
import { shareCloud } from './shared-cloud.ts'

/** Time for a page to react to input. */
export const TAKE_MS = 10_000
/** Time for a menu or a dialog to open or close; GTK loads its icons first. */
export const WINDOW_MS = 20_000
/** Time for a page to load. */
export const LOAD_MS = 20_000

export interface Desk extends AsyncDisposable {
  cloud: Cloud
  pages: Pages
  computer: Cloud['client']['browsers']['computer']
  /** A screenshot of a region of a session's screen. */
  shot(id: string, region: Box): Promise<Buffer>
  /** Runs `action` and waits until this region of the screen changes because a window has opened there. */
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

/** Waits until an expression in the page has this value; the error shows the last value. */
export async function become(page: Page, expression: string, wanted: unknown): Promise<void> {
  const text = JSON.stringify(wanted)
  await page.waitForFunction(`JSON.stringify(${expression}) === ${JSON.stringify(text)}`, undefined, { timeout: TAKE_MS }).catch(() => {})
  expect(await page.evaluate(expression)).toEqual(wanted)
}
