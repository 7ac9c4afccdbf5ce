// What a person can do in the live view of a login: use the site, but not read the values in its fields.
import { expect, test } from 'vitest'
import { sleep, until } from '../../src/base/wait.ts'
import { forTests } from '../support/for-tests.ts'
import { askAgent } from '../support/inside.ts'
import { shown } from '../support/managed-auth.ts'
import { ownSite } from '../support/own-site.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const STEP_MS = 60_000
/** Developer tools that can open are open after this time. */
const TOOLS_MS = 1500

const cloud = forTests(() => shareCloud())

/** The test types through the agent's keyboard, which the live view uses too. */
test('a person at the live view of a login reads no field by scripts in the address bar, the source of the page or developer tools', async () => {
  await using site = await ownSite(cloud, 'two-step')
  await cloud.client.auth.connections.login(site.id)
  const asked = () => until('a question', STEP_MS, async () => ((now) => (now.flow_step === 'AWAITING_INPUT' ? now : undefined))(await shown(cloud, site.id)))
  const { browser_session_id: id } = await asked()
  const url = site.page.loginUrl ?? site.page.homeUrl
  const press = (...keys: string[]) => askAgent(cloud, id!, '/computer/press_key', { keys })
  const enter = async (address: string) => {
    await press('ctrl+l')
    await askAgent(cloud, id!, '/computer/type', { text: address })
    // Delete removes the text that Chromium completes from its history.
    await press('Delete', 'Return')
  }
  /** The addresses and titles of the browser's pages, and the addresses of developer tools. */
  const seen = async () => {
    const code = `const cdp = await page.context().browser().newBrowserCDPSession()
      const { targetInfos } = await cdp.send('Target.getTargets', { filter: [{}] })
      return {
        pages: await Promise.all(page.context().pages().map(async (one) => ({ url: one.url(), title: await one.title() }))),
        tools: targetInfos.filter(({ type, url }) => type !== 'tab' && url.startsWith('devtools:')).map(({ url }) => url),
      }`
    const { success, result } = JSON.parse((await askAgent(cloud, id!, '/playwright/execute', { code })).toString()) as {
      success: boolean
      result: { pages: { url: string; title: string }[]; tools: string[] }
    }
    expect(success).toBe(true)
    return result
  }
  const isThere = (what: string, is: (one: { url: string; title: string }) => boolean) =>
    until(what, STEP_MS, async () => (await seen()).pages.some(is), { everyMs: 200 })

  // The address bar accepts typed text, here another page of the site.
  await enter(`${url}?again`)
  await isThere('a page from the address bar', (one) => one.url.endsWith('?again'))
  await enter('javascript:void(document.title="run by a viewer")')
  await sleep(TOOLS_MS)
  expect((await seen()).pages.map(({ title }) => title)).not.toContain('run by a viewer')
  // The site's own scripts still run, also in its links.
  await askAgent(cloud, id!, '/playwright/execute', {
    code: `await page.evaluate(() => {
      const link = document.createElement('a')
      link.href = 'javascript:void(document.title = "run by the site")'
      document.body.append(link)
      link.click()
    })`,
  })
  await isThere('the title that the site has set', ({ title }) => title === 'run by the site')

  for (const address of [`view-source:${url}`, 'chrome://inspect', 'chrome://extensions', 'devtools://devtools/bundled/inspector.html', 'file:///etc/passwd']) {
    await enter(address)
    await isThere(`the refusal of ${address}`, (one) => one.url === 'chrome-error://chromewebdata/')
    await enter(url)
    await isThere('the page of the login', (one) => one.url === url)
  }
  for (const keys of ['F12', 'ctrl+shift+i', 'ctrl+shift+j', 'ctrl+shift+c', 'ctrl+u']) {
    await press(keys)
    await sleep(TOOLS_MS)
    // Chromium shows that the action is not allowed; close that message.
    await press('Escape')
  }
  const { pages, tools } = await seen()
  expect([tools, pages.filter((one) => /^(devtools|view-source|chrome|file):/.test(one.url))]).toEqual([[], []])
  // The login can still read its page.
  expect(await asked()).toMatchObject({ flow_status: 'IN_PROGRESS' })
})
