// Reads pages without their notice. A page can replace what an expression reads or calls, `requestAnimationFrame` for example, and would detect a program.
import type { CdpSession, SendOptions } from './cdp.ts'

/** The name that clients see in lists of worlds. */
const WORLD = 'cob'

/**
 * The value of an expression that only reads. Chromium stops it before it changes anything, so a page that has installed a getter does not notice. @throws as
 * {@link CdpSession.send}
 */
export async function read(page: CdpSession, expression: string, options: SendOptions = {}): Promise<unknown> {
  const { result, exceptionDetails } = await page.send('Runtime.evaluate', { expression, returnByValue: true, throwOnSideEffect: true }, options)
  return exceptionDetails ? evaluateApart(page, expression, options) : result.value
}

/**
 * The value of an expression, or of its promise, in a world that has the page's document and none of its JavaScript. Each call leaves such a world of some 80
 * kB until the page is navigated, so do not use it for frequent reads. @throws as {@link CdpSession.send}
 */
export async function evaluateApart(page: CdpSession, expression: string, options: SendOptions = {}): Promise<unknown> {
  // The main frame of a target has the target's id, because flags.ts switches prerendering off.
  const { executionContextId: contextId } = await page.send('Page.createIsolatedWorld', { frameId: page.targetId, worldName: WORLD }, options)
  const { result } = await page.send('Runtime.evaluate', { expression, contextId, awaitPromise: true, returnByValue: true }, options)
  return result.value
}
