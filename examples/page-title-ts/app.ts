import { Kernel, type KernelContext } from '@onkernel/sdk'
import { chromium } from 'playwright-core'

interface Wanted {
  url: string
}

const kernel = new Kernel()
const app = kernel.app('page-title')

app.action<Wanted, { title: string; url: string }>('get-title', async (ctx: KernelContext, payload) => {
  if (!payload?.url) throw new Error('the payload is {"url": "https://…"}')
  // With invocation_id the browser belongs to this run: it is deleted when the run ends for any reason.
  const session = await kernel.browsers.create({ invocation_id: ctx.invocation_id })
  console.log(`browser ${session.session_id}: ${payload.url}`)
  const browser = await chromium.connectOverCDP(session.cdp_ws_url)
  try {
    const context = browser.contexts()[0] ?? (await browser.newContext())
    const page = context.pages()[0] ?? (await context.newPage())
    await page.goto(payload.url)
    return { title: await page.title(), url: page.url() }
  } finally {
    await browser.close()
    await kernel.browsers.deleteByID(session.session_id)
  }
})
