// Opens the HAR of a session in DevTools: those of Debian's Chromium, whose network panel imports the file as for a person.
import { createServer } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { forTests } from '../support/for-tests.ts'
import { invitePerson, SEEN_MS, type Person } from '../support/person.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { watchedSession } from '../support/telemetry.ts'
import { serveSockets } from '../support/upstreams.ts'

/** Chromium's own DevTools, without a page to inspect. */
const DEVTOOLS = 'devtools://devtools/bundled/devtools_app.html?panel=network'

const PAGE = `<!doctype html><title>shop</title><link rel="icon" href="data:,"><script>
  const all = async () => {
    await fetch('/old')
    await fetch('/order?item=7', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ item: 7 }) })
    await fetch('/missing')
    await fetch('/cut').catch(() => {})
    document.title = 'done'
  }
  all()
</script>`

let person: Person
let site: string
const ended = new AsyncDisposableStack()
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  person = ended.use(await invitePerson())
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url!, 'http://site')
    if (pathname === '/old') response.writeHead(302, { location: '/new' }).end()
    else if (pathname === '/order') response.setHeader('content-type', 'application/json').end('{"order":"taken"}')
    else if (pathname === '/missing') response.writeHead(404).end('none')
    else if (pathname === '/cut') request.socket.destroy()
    else response.setHeader('content-type', 'text/html').end(PAGE)
  })
  const { port } = ended.use(await serveSockets(server))
  site = `http://host.cob.internal:${port}`
})
afterAll(() => ended.disposeAsync())

test('DevTools show every request of the session with its status, the redirect, and the bodies', async () => {
  await using watched = await watchedSession(cloud, ['network'], { headless: true })
  const { session, received } = watched
  await session.page.goto(`${site}/shop`)
  await received.next('network_loading_failed', ({ data }) => String(data.url).endsWith('/cut'))
  // The event of a response comes when its body has been read, which may be after a later request has failed.
  const har = await until('all requests in the archive', SEEN_MS, async () => {
    const answer = await cloud.fetch(`/browsers/${session.id}/har`)
    const text = await answer.text()
    const { log } = JSON.parse(text) as { log: { entries: { request: { url: string }; response: { status: number; _error?: string } }[] } }
    const isDone = ({ response }: (typeof log.entries)[number]) => response.status > 0 || response._error !== undefined
    return log.entries.length >= 6 && log.entries.every(isDone) && text
  })

  const devTools = await person.newPage()
  await devTools.goto(DEVTOOLS)
  await devTools.getByRole('tab', { name: 'Network' }).first().click()
  const chosen = devTools.waitForEvent('filechooser')
  await devTools.locator('[aria-label^="Import HAR"]').first().click()
  await (await chosen).setFiles({ name: 'session.har', mimeType: 'application/json', buffer: Buffer.from(har) })

  const rows = devTools.locator('.network-log-grid tbody tr.data-grid-data-grid-node')
  const shown = async () => (await rows.allTextContents()).map((row) => row.replaceAll(/\s+/g, ' '))
  await until('the requests', SEEN_MS, async () => (await shown()).length >= 6, { everyMs: 50 })
  const all = await shown()
  // DevTools ignore errors in a HAR file, even in their own, so a failed request shows no status.
  for (const row of [/^shop.*200/, /^old.*302/, /^new.*200/, /^order\?item=7.*200/, /^missing.*404/, /^cut.*Finished/])
    expect(all).toContainEqual(expect.stringMatching(row))
  expect(JSON.parse(har)).toMatchObject({
    log: {
      entries: expect.arrayContaining([
        expect.objectContaining({ response: expect.objectContaining({ status: 0, _error: expect.stringMatching(/^net::/) as string }) as object }),
      ]) as object,
    },
  })

  await rows.locator('td.name-column', { hasText: 'order' }).click()
  await devTools.getByRole('tab', { name: 'Payload' }).click()
  await devTools.getByText('"item":7', { exact: false }).or(devTools.getByText('item: 7')).first().waitFor()
  await devTools.getByRole('tab', { name: 'Response', exact: true }).click()
  await devTools.locator('.cm-content', { hasText: 'taken' }).waitFor()
})
