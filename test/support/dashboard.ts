// The dashboard in a real browser: built, signed in, and checked for violations.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core'
import { expect } from 'vitest'
import { isRoot } from '../../src/base/user.ts'
import { buildDashboard } from '../../web/build.ts'
import { problemsOf } from './axe.ts'
import { actionsOn, type Actions } from './dashboard-actions.ts'
import type { Cloud } from './cloud.ts'

/** When set, a picture of each page is saved in this folder, for a person to look at. */
const PICTURES = process.env.COB_TEST_PICTURES

export const PHONE = { width: 390, height: 844 }
const DESKTOP = { width: 1280, height: 800 }
const LOOKS = [
  { size: 'phone', viewport: PHONE, colorScheme: 'dark' },
  { size: 'desktop', viewport: DESKTOP, colorScheme: 'light' },
] as const

export interface Dashboard extends AsyncDisposable {
  page: Page
  actions: Actions
  /** Violations of the security policy, dialogs, script errors and new windows. */
  wrongs: string[]
  /** Opens a page below `/dashboard/`. */
  open(path: string): Promise<void>
}

let browser: Promise<Browser> | undefined
const users = new Set<object>()

let built: Promise<string> | undefined

/** Builds the dashboard, opens it and signs in with `key`. Disposing fails when there were violations. */
export async function openDashboard(
  cloud: Pick<Cloud, 'url' | 'key'>,
  { key = cloud.key, ...options }: BrowserContextOptions & { key?: string | null } = {},
): Promise<Dashboard> {
  await (built ??= buildDashboard())
  const user = {}
  users.add(user)
  browser ??= chromium.launch({ executablePath: '/usr/bin/chromium', chromiumSandbox: !isRoot() })
  const context = await (await browser).newContext({ viewport: DESKTOP, reducedMotion: 'reduce', ...options })
  const page = await context.newPage()
  const wrongs: string[] = []
  page.on('pageerror', (error) => wrongs.push(`error: ${error.message}`))
  page.on('dialog', (dialog) => {
    // The browser itself asks whether to leave the page.
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
    actions: actionsOn(page),
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

/** Runs axe on a phone in dark colours and on a desktop in light colours, and takes a picture of each. The page must not be wider than its screen. */
export async function checkPage(page: Page, name: string): Promise<void> {
  for (const { size, viewport, colorScheme } of LOOKS) {
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
}

/** Waits for the new colours: form controls have their own transitions, so Chromium may draw old and new colours together for a moment. */
async function inColours(page: Page, colorScheme: 'light' | 'dark'): Promise<void> {
  await page.emulateMedia({ colorScheme })
  await page.waitForTimeout(150)
  await page.evaluate(
    'new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))).then(() => Promise.allSettled(document.getAnimations().filter(({ effect }) => effect?.getComputedTiming().endTime < 1000).map(({ finished }) => finished))).then(() => 0)',
  )
}
