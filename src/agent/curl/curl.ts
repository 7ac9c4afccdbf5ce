// HTTP requests by the session's browser: with its cookies, its proxy, its TLS and its own headers.
import { Fault, fault } from '../../http/fault.ts'
import type { Browser } from '../chromium/keeper.ts'
import { PageGone } from './connection.ts'
import { ended, Exchange, type CurlAnswer, type CurlRequest } from './exchange.ts'
import { MAX_AT_ONCE, Targets } from './targets.ts'

/** Sends requests by the browser; the fake driver has one that reaches nothing. */
export interface Curl {
  /**
   * Resolves with the head of the answer, whose body must be read to its end or destroyed. Aborting `signal` ends the
   * request and its answer; so does `readMs` without a piece of the body. @throws a Fault, or the signal's reason
   */
  send(request: CurlRequest, signal: AbortSignal, readMs: number): Promise<CurlAnswer>
}

/** Opens nothing until the first request. */
export function makeCurl(browser: Pick<Browser, 'run'>): Curl {
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
          // A client may just have closed the pages; Chromium reports it a moment later. A request that was not sent is sent from the next page.
          if (error instanceof PageGone && !exchange?.isOut && pages <= MAX_AT_ONCE) continue
          throw exchange?.isOut ? ended(error) : fault.unavailable('the browser did not take the request', error)
        }
      }
    },
  }
}
