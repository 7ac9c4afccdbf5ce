// A person with a browser who opens live views of sessions.
import { isRoot } from '../../src/base/user.ts'
import { chromium, type BrowserContext, type BrowserContextOptions, type Page } from 'playwright-core'
import { until } from '../../src/base/wait.ts'
import { buildDashboard } from '../../web/build.ts'

/** The limit for an action in one place to be visible in the other. */
export const SEEN_MS = 10_000
/** The limit for a page to reconnect. */
const BACK_MS = 40_000

export interface Person extends AsyncDisposable {
  newPage(options?: BrowserContextOptions): Promise<Page>
  /** Opens a live view and waits for its picture. */
  look(url: string, options?: BrowserContextOptions): Promise<Page>
  /** Closes every page. */
  leave(): Promise<void>
}

/** Chromium's sandbox refuses to run as root. This is the person's own browser, and it opens only our pages, so root runs it without a sandbox. */
export async function invitePerson(): Promise<Person> {
  // Build the pages from the present sources.
  await buildDashboard()
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', chromiumSandbox: !isRoot() })
  let contexts: BrowserContext[] = []
  const person: Person = {
    async newPage(options = {}) {
      const context = await browser.newContext({ viewport: { width: 1100, height: 860 }, ...options })
      contexts.push(context)
      return context.newPage()
    },
    async look(url, options) {
      const page = await person.newPage(options)
      await page.goto(url)
      await live(page)
      return page
    },
    async leave() {
      for (const context of contexts) await context.close()
      contexts = []
    },
    [Symbol.asyncDispose]: () => browser.close(),
  }
  return person
}

/** Resolves when a live view shows a picture. */
export async function live(page: Page): Promise<void> {
  await page.waitForSelector('[data-state=live]', { timeout: BACK_MS })
  await until('a picture', SEEN_MS, async () => (await pixel(page, 20, 20)).some((value) => value > 0), { everyMs: 50 })
}

/** The colour of a session's pixel in the live view; empty while the view has no picture yet. */
const pixel = (page: Page, x: number, y: number): Promise<number[]> =>
  page.evaluate(`[...(document.querySelector('#screen canvas')?.getContext('2d').getImageData(${x}, ${y}, 1, 1).data ?? [])].slice(0, 3)`)

/** JPEG changes a colour by no more than this. */
const NEAR = 4

/** Resolves when the live view shows the session's pixel at `x`, `y` in this colour. */
export async function sees(page: Page, colour: number[], x = 900, y = 600): Promise<void> {
  const isSeen = async () => {
    const seen = await pixel(page, x, y)
    return seen.length === 3 && seen.every((value, index) => Math.abs(value - colour[index]!) <= NEAR)
  }
  await until(`the colour ${String(colour)}`, SEEN_MS, isSeen, { everyMs: 20 })
}

/** The position of a session's pixel in the live view. */
export async function spot(page: Page, x: number, y: number): Promise<[number, number]> {
  const box = (await page.locator('#screen canvas').boundingBox())!
  const width = (await page.evaluate("document.querySelector('#screen canvas').width")) as number
  return [box.x + (x * box.width) / width, box.y + (y * box.width) / width]
}
