// Uses Stagehand as the official template does: uploads its extension into the session and loads it over CDP; the extension connects to the session's own `cdp_ws_url`. A
// function replaces the language model, so the test needs no key and no internet.
import { localBrowser, Stagehand } from '@browserbasehq/stagehand'
import { Kernel } from '@onkernel/sdk'
import { createReadStream } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'

const DIST = dirname(fileURLToPath(import.meta.resolve('@browserbasehq/stagehand')))
const PAGE = 'data:text/html,<title>companies</title><input placeholder="Search box"><p>Team size: 37</p>'

/** Answers as a model would: the text box for an action, the number for an extraction. */
const generate = ({ messages, responseFormat }) => {
  const [seen, wanted] = [JSON.stringify(messages), JSON.stringify(responseFormat?.schema ?? {})]
  const elementId = /\[(\d+-\d+)\] textbox/.exec(seen)?.[1]
  const structuredContent = wanted.includes('teamSize')
    ? { teamSize: /Team size: (\d+)/.exec(seen)?.[1] ?? 'none' }
    : wanted.includes('elementId')
      ? { twoStep: false, action: { elementId, description: 'search box', method: 'fill', arguments: ['kernel'] } }
      : { progress: 'done', completed: true }
  return {
    role: 'assistant',
    content: { type: 'text', text: JSON.stringify(structuredContent) },
    outputFormat: 'json_schema',
    structuredContent,
    stopReason: 'endTurn',
    usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 },
  }
}

const kernel = new Kernel()
kernel.app('stagehand-trial').action('run', async ({ invocation_id }) => {
  const session = await kernel.browsers.create({ invocation_id, stealth: true })
  let browser, stagehand
  try {
    const zip_file = createReadStream(join(DIST, 'assets/stagehand-extension.zip'))
    await kernel.browsers.fs.uploadZip(session.session_id, { dest_path: join(DIST, 'extension'), zip_file })
    browser = await localBrowser.connect({ cdpUrl: session.cdp_ws_url })
    stagehand = await Stagehand.create({ browser, model: { generate: async (request) => generate(request) } })
    const page = await browser.context.activePage()
    await page.goto(PAGE)
    const { data: acted } = await stagehand.act('Type kernel into the search box')
    const typed = await page.evaluate('document.querySelector("input").value')
    const { data } = await stagehand.extract('Extract the team size', z.object({ teamSize: z.string() }))
    return { acted: acted.success, typed, ...data }
  } finally {
    await stagehand?.close()
    await browser?.close()
    await kernel.browsers.deleteByID(session.session_id)
  }
})
