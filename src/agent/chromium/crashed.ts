// How Chromium has ended, and the close codes and reasons that clients get then.
import { resultWithin } from '../../base/wait.ts'
import type { CloseReason } from '../../http/splice.ts'
import type { ChromiumRun } from './process.ts'

/** The close code for a browser that crashed; it is restarted under the same URL. */
export const CRASHED = { code: 4003, reason: { reason: 'crashed', message: 'the browser is being started again; connect to the same URL' } } as const

/** The same after a client has closed it, or the user its last window. */
const CLOSED_BY_USER = {
  code: 4003,
  reason: { reason: 'closed', message: 'the browser was closed and is being started again; connect to the same URL' },
} as const

/** For a browser that has been closed for good, to save its profile. */
export const CLOSED = { code: 1000, reason: { reason: 'ended' } } as const

/** A browser that closes its connections ends soon after, or has only closed these. */
export const EXIT_MS = 2_000

/** Chromium ends so when a client or its user has closed it. A crash ends it by a signal. */
export const wasClosed = ({ code }: { code: number | null }): boolean => code === 0

/** What a client is told whose connection the browser has ended. `isFinished`: no other browser follows. */
export async function whyEnded(exited: ChromiumRun['exited'], isFinished: () => boolean): Promise<CloseReason> {
  if (isFinished()) return CLOSED
  const exit = await resultWithin(EXIT_MS, exited)
  return exit && wasClosed(exit) ? CLOSED_BY_USER : CRASHED
}
