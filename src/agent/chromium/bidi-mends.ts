// Patches for chromium-bidi 17.0.2: its bugs, and facts about this browser that it cannot know. Applied in each mapper's thread. Delete them when a later
// version has fixed the bugs.
import { BrowsingContextImpl } from 'chromium-bidi/out/Default/gen/src/bidiMapper/modules/context/BrowsingContextImpl.js'
import { BrowsingContextProcessor } from 'chromium-bidi/out/Default/gen/src/bidiMapper/modules/context/BrowsingContextProcessor.js'
import { MapperCdpClient } from 'chromium-bidi/out/Default/gen/src/cdp/CdpClient.js'
import { sleep } from '../../base/wait.ts'

type Listener = (...args: unknown[]) => void
interface Listening {
  on(event: string, listener: Listener): unknown
  off(event: string, listener: Listener): unknown
}
type Context = Pick<BrowsingContextImpl, 'dispose'>
type Sending = { sendCommand(method: string, params?: object): Promise<unknown> }

/** Commands of the history. Chromium refuses them, without an effect, while it replaces a page by one from the back/forward cache. */
const HISTORY = ['Page.getNavigationHistory', 'Page.navigateToHistoryEntry']
/** Timeout for this replacement, which takes some 10 ms. */
const SWAP_MS = 2_000
const SWAP_EVERY_MS = 20

/** The isolated worlds in which the agent reads pages. To a client they would be realms without a creator, some with an empty origin. */
const OWN_WORLD = /^cob(-[a-z]+)?$/

/**
 * Five patches:
 * - A command of the history that comes while a page is being replaced is sent again.
 * - When a listener of a CDP event throws, the other listeners still get the event, and `fault` gets the error.
 * - The context of a removed frame stops listening. When the back/forward cache brings the frame back, the old context would create a realm that the mapper
 * does not know.
 * - The agent's own worlds are hidden from clients.
 * - A new tab or window has the focus unless it is asked for in the background, as the specification says. Chromium leaves the focus of an empty window in its
 * address bar.
 */
export function mendMapper(fault: (error: unknown) => void): void {
  const client = MapperCdpClient.prototype as unknown as Listening & Sending
  const { sendCommand } = client
  client.sendCommand = async function (method, params) {
    const end = performance.now() + (HISTORY.includes(method) ? SWAP_MS : 0)
    for (;;) {
      try {
        return await sendCommand.call(this, method, params)
      } catch (error) {
        if (performance.now() >= end || !String((error as Error).message).includes('Not attached to an active page')) throw error
        await sleep(SWAP_EVERY_MS)
      }
    }
  }
  const { on, off } = client
  const safe = new WeakMap<Listener, Listener>()
  /** The listeners that the context under construction has added so far. */
  let begun: (() => void)[] | undefined
  client.on = function (event, listener) {
    const wrapped: Listener =
      safe.get(listener) ??
      ((...args) => {
        if (event === 'Runtime.executionContextCreated' && OWN_WORLD.test((args[0] as { context: { name: string } }).context.name)) return
        try {
          listener(...args)
        } catch (error) {
          fault(error)
        }
      })
    safe.set(listener, wrapped)
    begun?.push(() => off.call(this, event, wrapped))
    return on.call(this, event, wrapped)
  }
  client.off = function (event, listener) {
    return off.call(this, event, safe.get(listener) ?? listener)
  }

  const { create: open } = BrowsingContextProcessor.prototype
  BrowsingContextProcessor.prototype.create = async function (params) {
    const opened = await open.call(this, params)
    if (params.background !== true) await this.activate({ context: opened.context })
    return opened
  }

  const listening = new WeakMap<Context, (() => void)[]>()
  const contexts = BrowsingContextImpl as unknown as { create(...args: unknown[]): Context }
  const create = contexts.create.bind(BrowsingContextImpl)
  contexts.create = (...args) => {
    const own = (begun = [])
    try {
      const context = create(...args)
      listening.set(context, own)
      return context
    } finally {
      begun = undefined
    }
  }
  const { dispose } = BrowsingContextImpl.prototype
  BrowsingContextImpl.prototype.dispose = function (emitContextDestroyed) {
    dispose.call(this, emitContextDestroyed)
    listening.get(this)?.forEach((leave) => leave())
  }
}
