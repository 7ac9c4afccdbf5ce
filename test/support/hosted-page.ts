// A person on the hosted login page of a real service: reads its questions, and answers with known values.
import type { Locator, Page } from 'playwright-core'
import { until } from '../../src/base/wait.ts'

const LOGIN_MS = 120_000

export interface Knows {
  /** The user's values, by the names that the application uses. */
  user: Record<string, string>
  code: () => string
  /** Called when the page waits for an action elsewhere. */
  onWait?: () => void
  /** Chooses one of several options; without it, the first one is pressed. */
  choose?: (choices: readonly string[]) => string | undefined
}

/** Opens the page, accepts, and answers until the page returns to `successUrl`. Returns the query of that address. @throws with the page's text when the login fails */
export async function driveHostedPage(page: Page, hostedUrl: string, successUrl: string, knows: Knows): Promise<Record<string, string>> {
  const opened = new URL(hostedUrl)
  opened.searchParams.set('success_url', successUrl)
  await page.goto(opened.href)
  await page.getByRole('button', { name: 'Continue', exact: true }).click()
  const card = page.locator('#card')
  const answered = new Set<string>()
  return until(
    'the way back of a login',
    LOGIN_MS,
    async () => {
      if (page.url().startsWith(successUrl.split('?', 1)[0]!)) return Object.fromEntries(new URL(page.url()).searchParams)
      // While the browser leaves the page, the card is gone.
      const step = await card.getAttribute('data-step', { timeout: 1000 }).catch(() => null)
      if (step === 'error' || step === 'expired' || step === 'unusable' || step === 'canceled') throw new Error(`the page says: ${await card.innerText()}`)
      if (step === 'external') knows.onWait?.()
      if (step !== 'input') return undefined
      const question = await card
        .locator('.question')
        .evaluate(markOnce, undefined, { timeout: 1000 })
        .catch(() => undefined)
      if (question === undefined || answered.has(question)) return undefined
      answered.add(question)
      await answerQuestion(page, card, knows)
      return undefined
    },
    { everyMs: 150 },
  )
}

/** Marks a question's element, so that each question is answered once. Runs in the page. */
function markOnce(element: unknown): string {
  const { dataset } = element as { dataset: Record<string, string> }
  return (dataset.mark ??= String(Math.random()))
}

async function answerQuestion(page: Page, card: Locator, knows: Knows): Promise<void> {
  const inputs = await card.locator('form input, form select').all()
  if (inputs.length === 0) {
    const names = await card.locator('button.choice .choice-name').allTextContents()
    const name = knows.choose ? knows.choose(names) : names[0]
    if (name === undefined) throw new Error(`nothing to choose of: ${names.join(', ')}`)
    await card.locator('button.choice').nth(names.indexOf(name)).click()
    return
  }
  for (const input of inputs) {
    const { user } = knows
    const autocomplete = await input.getAttribute('autocomplete')
    const label = await page.locator(`label[for="${await input.getAttribute('id')}"]`).innerText()
    const value = autocomplete === 'current-password' ? user.password : autocomplete === 'one-time-code' ? knows.code() : byLabel(user, label, autocomplete)
    if (value !== undefined) await input.fill(value)
  }
  await card.getByRole('button', { name: 'Continue', exact: true }).click()
}

const byLabel = (user: Record<string, string>, label: string, autocomplete: string | null): string | undefined => {
  const text = label.toLowerCase().replaceAll(/[^a-z]/g, '')
  return (
    Object.entries(user).find(([key]) => text.includes(key.toLowerCase()))?.[1] ??
    (autocomplete === 'username' ? (user.username ?? user.email ?? user.user) : undefined)
  )
}
