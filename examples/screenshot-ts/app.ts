import { Kernel, type KernelContext } from '@onkernel/sdk'

interface Wanted {
  url: string
  path?: string
}

const kernel = new Kernel()
const app = kernel.app('screenshot')

app.action<Wanted, { session_id: string; path: string; bytes: number }>('take', async (ctx: KernelContext, payload) => {
  if (!payload?.url) throw new Error('the payload is {"url": "https://…", "path": "/home/kernel/page.png"}')
  const path = payload.path ?? '/home/kernel/page.png'
  // Without invocation_id the browser, and the file in it, outlive the run. The session ends when it has not been used for its timeout.
  const { session_id } = await kernel.browsers.create({ start_url: payload.url, timeout_seconds: 300 })
  console.log(`invocation ${ctx.invocation_id} has browser ${session_id}`)
  await kernel.browsers.playwright.execute(session_id, { code: `await page.waitForLoadState('load')` })
  const picture = await (await kernel.browsers.computer.captureScreenshot(session_id, {})).arrayBuffer()
  await kernel.browsers.fs.writeFile(session_id, new Uint8Array(picture), { path })
  const { size_bytes } = await kernel.browsers.fs.fileInfo(session_id, { path })
  return { session_id, path, bytes: size_bytes }
})
