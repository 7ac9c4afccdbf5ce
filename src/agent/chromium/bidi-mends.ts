// Faults of chromium-bidi 17.0.2 that are mended from outside, in a mapper's own thread. To be deleted when a later version has mended them.
import { BrowsingContextImpl } from 'chromium-bidi/out/Default/gen/src/bidiMapper/modules/context/BrowsingContextImpl.js'
import { MapperCdpClient } from 'chromium-bidi/out/Default/gen/src/cdp/CdpClient.js'

type Listener = (...args: unknown[]) => void
interface Listening {
  on(event: string, listener: Listener): unknown
  off(event: string, listener: Listener): unknown
}
type Context = Pick<BrowsingContextImpl, 'dispose'>

/**
 * Two mends. A listener of a CDP event that throws leaves the event to the other listeners (`fault` hears of it). And the context of a frame
 * that has gone listens no more: when the back/forward cache brings the frame back, it would make a realm of a context that nobody knows.
 */
export function mendMapper(fault: (error: unknown) => void): void {
  const client = MapperCdpClient.prototype as unknown as Listening
  const { on, off } = client
  const safe = new WeakMap<Listener, Listener>()
  /** What the context that is being made has begun to listen to. */
  let begun: (() => void)[] | undefined
  client.on = function (event, listener) {
    const wrapped: Listener =
      safe.get(listener) ??
      ((...args) => {
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
