// The dashboard in a real browser of a person: built, signed in, and watched for what it must never do.
import axe from 'axe-core'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core'
import { expect } from 'vitest'
import { isRoot } from '../../src/base/user.ts'
import { buildDashboard } from '../../web/build.ts'
import type { Cloud } from './cloud.ts'

/** Set, pictures of each page are saved there, for somebody to look at. */
const PICTURES = process.env.COB_TEST_PICTURES

export const PHONE = { width: 390, height: 844 }
const DESKTOP = { width: 1280, height: 800 }

export interface Dashboard extends AsyncDisposable {
  page: Page
  /** What has happened that must not: violations of the policy, dialogs, errors of scripts, windows. */
  wrongs: string[]
  /** Opens a page below `/dashboard/`. */
  open(path: string): Promise<void>
}

let browser: Promise<Browser> | undefined
const users = new Set<object>()

/** Builds the dashboard; for `beforeAll` of files whose services serve it. */
export const builtDashboard = (): Promise<string> => buildDashboard()

/** Opens the dashboard and signs in with `key`. Disposing fails when it has done something that it must not. */
export async function openDashboard(
  cloud: Pick<Cloud, 'url' | 'key'>,
  { key = cloud.key, ...options }: BrowserContextOptions & { key?: string | null } = {},
): Promise<Dashboard> {
  const user = {}
  users.add(user)
  browser ??= chromium.launch({ executablePath: '/usr/bin/chromium', chromiumSandbox: !isRoot() })
  const context = await (await browser).newContext({ viewport: DESKTOP, reducedMotion: 'reduce', ...options })
  const page = await context.newPage()
  const wrongs: string[] = []
  page.on('pageerror', (error) => wrongs.push(`error: ${error.message}`))
  page.on('dialog', (dialog) => {
    // The browser's own question whether to leave a page.
    if (dialog.type() === 'beforeunload') return void dialog.accept()
    wrongs.push(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('console', (message) => {
    if (/Content Security Policy|TrustedHTML|TrustedScript/i.test(message.text())) wrongs.push(`policy: ${message.text()}`)
  })
  await page.addInitScript(
    "addEventListener('securitypolicyviolation', (event) => console.error(`Content Security Policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`))",
  )
  const open = async (path: string): Promise<void> => {
    await page.goto(`${cloud.url}/dashboard/${path}`)
  }
  await open('')
  if (key !== null) await signIn(page, key)
  return {
    page,
    wrongs,
    open,
    async [Symbol.asyncDispose]() {
      await context.close()
      users.delete(user)
      if (users.size === 0) {
        const last = await browser!
        browser = undefined
        await last.close()
      }
      expect(wrongs).toEqual([])
    },
  }
}

/** Signs in on the page that asks for it. */
export async function signIn(page: Page, key: string): Promise<void> {
  await page.getByLabel('API key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('navigation', { name: 'Pages' }).waitFor()
}

/** What axe finds in the page as it is. */
export async function problemsOf(page: Page): Promise<string[]> {
  // Trusted types forbid scripts made of text; the test's own are run beside the page's.
  const run = `(async () => { ${axe.source}; return axe.run(document, { resultTypes: ['violations'] }) })()`
  const { violations } = (await page.evaluate(run)) as { violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join('\n')}`)
}

/** Runs axe in light and dark, on a desktop and a phone, and takes a picture of each. The page must not be wider than a phone. */
export async function checkPage(page: Page, name: string): Promise<void> {
  for (const [size, viewport] of Object.entries({ desktop: DESKTOP, phone: PHONE }))
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.setViewportSize(viewport)
      await inColours(page, colorScheme)
      if (PICTURES) {
        mkdirSync(PICTURES, { recursive: true })
        await page.screenshot({ path: join(PICTURES, `${name}-${size}-${colorScheme}.png`) })
      }
      expect(await problemsOf(page), `${name}, ${size}, ${colorScheme}`).toEqual([])
      const wide = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')
      expect(wide, `${name} is wider than a ${size}`).toBe(0)
    }
  await page.setViewportSize(DESKTOP)
  await inColours(page, 'light')
}

/** Chromium may draw a moment with the new colours of some elements and the old ones of others: form controls have transitions of its own. */
async function inColours(page: Page, colorScheme: 'light' | 'dark'): Promise<void> {
  await page.emulateMedia({ colorScheme })
  await page.waitForTimeout(150)
  await page.evaluate(
    'new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))).then(() => Promise.allSettled(document.getAnimations().filter(({ effect }) => effect?.getComputedTiming().endTime < 1000).map(({ finished }) => finished))).then(() => 0)',
  )
}
