// Downloads by any client: the file appears in /home/kernel/Downloads under its name, and a file watch reports it.
import type Kernel from '@onkernel/sdk'
import { createServer } from 'node:http'
import { chromium } from 'playwright-core'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { within } from '../../src/base/wait.ts'
import type { Cloud } from '../support/cloud.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { serveSockets } from '../support/upstreams.ts'

const DOWNLOADS = '/home/kernel/Downloads'
const CONTENT = 'content of the file '.repeat(20_000)
const COME_MS = 20_000

let cloud: Cloud
let browsers: Kernel['browsers']
/** The paths of the requested pages. */
const asked = new Set<string>()
/** Serves pages with one link to the file of the same name, or, with `?several`, pages whose script downloads files. /file/… sends a file slowly. */
const site = createServer((request, response) => {
  const { pathname, search } = new URL(request.url ?? '/', 'http://site')
  const name = pathname.split('/').pop()!
  if (pathname.startsWith('/file/')) {
    response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-disposition': `attachment; filename="${name}"` })
    response.write(CONTENT.slice(0, 1_000))
    setTimeout(() => response.end(CONTENT.slice(1_000)), 400)
  } else {
    const itself = `['1.pdf', '2.exe', '3.zip'].forEach((name, index) => setTimeout(() => { const a = document.createElement('a'); a.href = '/file/' + name; document.body.append(a); a.click() }, index * 300))`
    asked.add(name)
    response.writeHead(200, { 'content-type': 'text/html' })
    response.end(
      search === '?several' ? `<body><script>${itself}</script>` : `<a href="/file/${name}" style="position:fixed;inset:0;background:#cfc">${name}</a>`,
    )
  }
})
let port: number
const address = (path: string): string => `http://host.cob.internal:${port}/${path}`

const ended = new AsyncDisposableStack()
beforeAll(async () => {
  port = ended.use(await serveSockets(site)).port
  cloud = ended.use(await shareCloud())
  browsers = cloud.client.browsers
})
afterAll(() => ended.disposeAsync())

/** Resolves when a watch of the downloads has reported all these names. */
async function appeared(id: string, watchId: string, names: readonly string[]): Promise<void> {
  const missing = new Set(names)
  const see = async () => {
    for await (const event of await browsers.fs.watch.events(watchId, { id })) {
      if (event.type === 'CREATE') missing.delete(event.name!)
      if (missing.size === 0) return
    }
  }
  await within(`downloads of ${names.join(', ')}`, COME_MS, see())
}

const contentOf = async (id: string, name: string): Promise<string> => (await browsers.fs.readFile(id, { path: `${DOWNLOADS}/${name}` })).text()
const listed = async (id: string): Promise<string[]> => (await browsers.fs.listFiles(id, { path: DOWNLOADS })).map(({ name }) => name)

/** The colour in the middle of a session's page. */
async function colourOf(id: string): Promise<string> {
  const png = Buffer.from(await (await browsers.computer.captureScreenshot(id, { region: { x: 600, y: 600, width: 1, height: 1 } })).arrayBuffer())
  return (await sharp(png).removeAlpha().raw().toBuffer()).toString('hex')
}

describe('a download', () => {
  test.each(['report.pdf', 'tool.exe', 'table.csv'])('of %s after a mouse click arrives complete, and twice as two files', async (name) => {
    const { session_id: id } = await browsers.create({ start_url: address(`page/${name}`) })
    const { watch_id } = await browsers.fs.watch.start(id, { path: DOWNLOADS })
    await expect.poll(() => asked.has(name), { timeout: COME_MS }).toBe(true)
    await expect.poll(() => colourOf(id), { timeout: COME_MS }).toBe('ccffcc')
    await browsers.computer.clickMouse(id, { x: 500, y: 500 })
    await appeared(id, watch_id!, [name])
    await expect.poll(() => listed(id)).toEqual([name])
    expect(await contentOf(id, name)).toBe(CONTENT)
    await browsers.computer.clickMouse(id, { x: 500, y: 500 })
    await expect.poll(() => listed(id), { timeout: COME_MS }).toEqual([name.replace('.', ' (1).'), name])
    await browsers.deleteByID(id)
  })

  test('of several files that a page starts needs no permission', async () => {
    const { session_id: id } = await browsers.create({ start_url: address('page?several') })
    await expect.poll(() => listed(id), { timeout: COME_MS }).toEqual(['1.pdf', '2.exe', '3.zip'])
    await browsers.deleteByID(id)
  })

  test('by Playwright, which only Playwright can find, is also saved in the usual folder; after it disconnects everything is as before', async () => {
    const { session_id: id, cdp_ws_url } = await browsers.create()
    const { watch_id } = await browsers.fs.watch.start(id, { path: DOWNLOADS })
    const browser = await chromium.connectOverCDP(cdp_ws_url)
    const page = browser.contexts()[0]!.pages()[0]!
    await page.goto(address('page/report.pdf'))
    for (let i = 0; i < 2; i++) {
      const [download] = await Promise.all([page.waitForEvent('download'), page.click('a')])
      expect(download.suggestedFilename()).toBe('report.pdf')
    }
    await appeared(id, watch_id!, ['report.pdf', 'report (1).pdf'])
    expect(await contentOf(id, 'report.pdf')).toBe(CONTENT)
    expect(await contentOf(id, 'report (1).pdf')).toBe(CONTENT)
    await browser.close()
    await browsers.computer.clickMouse(id, { x: 500, y: 500 })
    await expect.poll(() => listed(id), { timeout: COME_MS }).toEqual(['report (1).pdf', 'report (2).pdf', 'report.pdf'])
    await browsers.deleteByID(id)
  })

  test('goes to the folder that a client sets over CDP', async () => {
    const { session_id: id, cdp_ws_url } = await browsers.create()
    const browser = await chromium.connectOverCDP(cdp_ws_url)
    const cdp = await browser.newBrowserCDPSession()
    await cdp.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: '/tmp/mine', eventsEnabled: true })
    const page = browser.contexts()[0]!.pages()[0]!
    await page.goto(address('page/report.pdf'))
    await page.click('a')
    await expect
      .poll(async () => (await browsers.fs.listFiles(id, { path: '/tmp/mine' }).catch(() => [])).map(({ name, size_bytes }) => [name, size_bytes]), {
        timeout: COME_MS,
      })
      .toEqual([['report.pdf', CONTENT.length]])
    expect(await listed(id)).toEqual([])
    await browser.close()
    await browsers.deleteByID(id)
  })
})
