// The playground, and the code that pages offer to copy: the tests paste it and run it.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { problemsOf } from '../support/axe.ts'
import type { Actions } from '../support/dashboard-actions.ts'
import { checkPage, openDashboard, type Dashboard } from '../support/dashboard.ts'
import { forTests } from '../support/for-tests.ts'
import { servePages } from '../support/pages.ts'
import { runPasted, type Language } from '../support/pasted.ts'
import { shareCloud } from '../support/shared-cloud.ts'

let dashboard: Dashboard
let page: Page
let actions: Actions

const pages = forTests(() => servePages())
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  dashboard = await openDashboard(cloud)
  ;({ page, actions } = dashboard)
})
afterAll(async () => {
  await dashboard?.[Symbol.asyncDispose]()
})

/** The code to copy in the chosen language. */
async function linesOf(language: Language): Promise<string> {
  await page.getByRole('tab', { name: language, exact: true }).click()
  return (await page.getByRole('region', { name: language, exact: true }).textContent())!
}
const sessions = async () => (await cloud.client.browsers.list()).items

describe('the playground', () => {
  test('starts a browser, runs code and actions in it, shows results and errors, and ends it', async () => {
    await dashboard.open('playground')
    await page.getByLabel('Start page').waitFor()
    await checkPage(page, 'playground-start')
    await page.getByLabel('Start page').fill('nonsense')
    await actions.press('Start')
    await actions.isWrong('Start page')
    await page.getByLabel('Start page').fill(pages.url('first'))
    await page.getByLabel('Ends after').focus()
    await page.keyboard.press('Enter')
    const view = page.frameLocator('iframe[title="Live view of the browser"]')
    await view.locator('[data-state=live]').waitFor()
    const [session] = await sessions()
    expect(session).toMatchObject({ viewport: { width: 1280, height: 800 }, timeout_seconds: 300, tags: { made_by: 'playground' } })
    const tricky =
      'const quote = \'"""\' + "\'" + `\\\\ ${1 + 1} \\n é 😀`\nconsole.log(\'<img src=x onerror=alert(1)>\')\nreturn { title: await page.title(), quote }'
    await page.getByLabel('Code', { exact: true }).fill(tricky)
    await page.keyboard.press('Control+Enter')
    await page.getByRole('region', { name: 'Printed' }).getByText('<img src=x onerror=alert(1)>').waitFor()
    const shown = JSON.parse((await page.getByRole('region', { name: 'Result', exact: true }).textContent())!) as { title: string; quote: string }
    expect(shown).toEqual({ title: 'first', quote: `"""'\\ 2 \n é 😀` })
    await checkPage(page, 'playground')

    // The same code as a program, in both languages: it creates a browser and deletes it.
    for (const language of ['TypeScript', 'Python'] as const) {
      const printed = await runPasted(language, await linesOf(language), cloud.key)
      expect(printed, language).toContain('first')
      expect(printed, language).toContain('2')
      expect(printed, language).toContain('😀')
    }
    expect(JSON.parse(await runPasted('curl', await linesOf('curl'), cloud.key))).toMatchObject({ success: true, result: shown })
    expect((await sessions()).map(({ session_id: id }) => id)).toEqual([session!.session_id])

    await page.getByLabel('Code', { exact: true }).fill("throw new Error('on purpose')")
    await actions.press('Run')
    await actions.heading(/It has failed/, 2).waitFor()
    await page.getByRole('region', { name: 'Error', exact: true }).getByText('on purpose').waitFor()

    await page.getByRole('tab', { name: 'Actions' }).click()
    await page.getByLabel('Actions', { exact: true }).last().fill('[')
    await page.getByText('This is not JSON').waitFor()
    expect(await page.getByRole('button', { name: 'Run' }).isDisabled()).toBe(true)
    await page.getByLabel('Actions', { exact: true }).last().fill('[{"type": "click_mouse", "click_mouse": {"x": -1, "y": 2}}]')
    await actions.press('Run')
    await page.getByText(/actions\.0\.click_mouse\.x/i).waitFor()
    const address = pages.url('second')
    const batch = [
      { type: 'press_key', press_key: { keys: ['ctrl+l'] } },
      { type: 'type_text', type_text: { text: address } },
      { type: 'press_key', press_key: { keys: ['Enter'] } },
    ]
    await page.getByLabel('Actions', { exact: true }).last().fill(JSON.stringify(batch))
    await actions.press('sleep')
    await actions.press('Run')
    await actions.heading(/Done/, 2).waitFor()
    const title = async () => (await cloud.client.browsers.playwright.execute(session!.session_id, { code: 'return page.title()' })).result
    await expect.poll(title).toBe('second')
    await checkPage(page, 'playground-actions')
    for (const language of ['TypeScript', 'Python'] as const) await runPasted(language, await linesOf(language), cloud.key)

    // A reload keeps the same browser. Leaving the page asks first.
    await page.reload()
    await view.locator('[data-state=live]').waitFor()
    await page.getByRole('link', { name: 'Pools' }).click()
    await page.getByRole('heading', { name: 'End the browser of the playground?' }).waitFor()
    expect(await problemsOf(page)).toEqual([])
    await actions.press('Stay')
    expect(page.url()).toContain('/playground')
    await page.getByRole('link', { name: 'Pools' }).click()
    await actions.press('End it')
    await actions.heading('Pools').waitFor()
    await expect.poll(async () => (await sessions()).length).toBe(0)
  })

  test('of a browser that has ended elsewhere it says so and starts another one', async () => {
    const { session_id: id } = await cloud.client.browsers.create({ headless: true })
    await dashboard.open(`playground?session=${id}`)
    await actions.press('End the browser')
    await page.getByLabel('Start page').waitFor()
    expect((await cloud.fetch(`/browsers/${id}`)).status).toBe(404)
    await dashboard.open(`playground?session=${id}`)
    await actions.heading('This browser has ended', 2).waitFor()
    expect(await problemsOf(page)).toEqual([])
    await actions.press('Start another one')
    await page.getByLabel('Start page').waitFor()
  })
})

describe('lines to copy', () => {
  test.each(['TypeScript', 'Python', 'curl'] as const)('of the empty pages of profiles and of pools run as they are: %s', async (language) => {
    await dashboard.open('profiles')
    await actions.heading('No profiles', 2).waitFor()
    await runPasted(language, await linesOf(language), cloud.key)
    await dashboard.open('profiles')
    await actions.row(/shop/).waitFor()
    await dashboard.open('pools')
    await actions.heading('No pools', 2).waitFor()
    await runPasted(language, await linesOf(language), cloud.key)
    await actions.row(/search/).waitFor()
    for (const { session_id: id } of await sessions()) await cloud.remove(id)
    await cloud.client.browserPools.delete('search', { force: true })
    await cloud.client.profiles.delete('shop')
  })
})
