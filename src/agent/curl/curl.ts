// HTTP requests by the session's browser, with its cookies, proxy, TLS and headers.
import { Fault, fault } from '../../http/fault.ts'
import { CdpGone } from '../chromium/cdp.ts'
import type { Keeper } from '../chromium/keeper.ts'
import { ended, Exchange, type CurlAnswer, type CurlRequest } from './exchange.ts'
import { MAX_AT_ONCE, Targets } from './targets.ts'

/** Sends requests through the browser. The fake driver's version reaches nothing. */
export interface Curl {
  /**
   * Resolves with the head of the answer. The caller must read the body to its end or destroy it. The request ends when
   * `signal` aborts, or when no piece of the body arrives for `readMs`. @throws a Fault, or the signal's reason
   */
  send(request: CurlRequest, signal: AbortSignal, readMs: number): Promise<CurlAnswer>
}

/** Connects to the browser only at the first request. */
export function makeCurl(browser: Pick<Keeper, 'run'>): Curl {
  const targets = new Targets(browser)
  return {
    async send(request, signal, readMs) {
      for (let pages = 1; ; pages++) {
        let exchange: Exchange | undefined
        try {
          const page = await targets.take(signal)
          exchange = new Exchange(page, request, signal, readMs, (clean) => (clean ? targets.giveBack(page) : targets.discard(page)))
          return await exchange.run()
        } catch (error) {
          if (error instanceof Fault || signal.aborted) throw error
          // A client may just have closed the pages, and Chromium reports that a moment later. If the request was not sent yet, try the next page.
          if (error instanceof CdpGone && !exchange?.isOut && pages <= MAX_AT_ONCE) continue
          throw exchange?.isOut ? ended(error) : fault.unavailable('the browser did not take the request', error)
        }
      }
    },
  }
}
