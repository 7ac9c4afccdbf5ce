// Turns an error of a flow into its ending, with the message for callers.
import { BrowserGone } from './browser.ts'
import type { Ending, Memory } from './memory.ts'
import type { Scrubber } from './scrub.ts'
import { Expired, FlowFailure } from './work.ts'

/** `isLate`: the flow's time is over. The code `internal` is for unexpected errors. */
export function endingOf(error: unknown, { websiteError, sentVersion }: Memory, isLate: boolean, scrubber: Scrubber): Ending {
  if (error instanceof FlowFailure) {
    // The message may contain a host, or a text of the page.
    const errorMessage = scrubber.scrub(error.message)
    return { state: 'FAILED', errorCode: error.code, errorMessage, websiteError, ...(error.isRefusal && { refused: sentVersion }) }
  }
  if (error instanceof Expired || isLate)
    return { state: 'EXPIRED', errorMessage: error instanceof Expired ? error.message : 'the time for this login is over' }
  if (error instanceof BrowserGone) return { state: 'FAILED', errorCode: 'browser_error', errorMessage: 'the browser has ended', websiteError }
  return { state: 'FAILED', errorCode: 'internal', errorMessage: 'the login failed inside the service', websiteError }
}
