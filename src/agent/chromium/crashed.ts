// The reason for Chromium's end, and the close codes and reasons for its clients.
import { resultWithin } from '../../base/wait.ts'
import type { CloseReason } from '../../http/splice.ts'
import type { ChromiumRun } from './process.ts'

/** The close code for a browser that crashed; it is restarted under the same URL. */
export const CRASHED = { code: 4003, reason: { reason: 'crashed', message: 'the browser is being started again; connect to the same URL' } } as const

/** The same after a client has closed it, or the user has closed its last window. */
const CLOSED_BY_USER = {
  code: 4003,
  reason: { reason: 'closed', message: 'the browser was closed and is being started again; connect to the same URL' },
} as const

/** For a browser that has been closed for good, to save its profile. */
export const CLOSED = { code: 1000, reason: { reason: 'ended' } } as const

/** After a browser closes its connections, it exits within this time, unless it has closed only these. */
export const EXIT_MS = 2_000

/** Whether a client or the user has closed Chromium. After a crash it ends by a signal. */
export const wasClosed = ({ code }: { code: number | null }): boolean => code === 0

/** The close reason for a client whose connection the browser has ended. `isFinished`: no other browser follows. */
export async function whyEnded(exited: ChromiumRun['exited'], isFinished: () => boolean): Promise<CloseReason> {
  if (isFinished()) return CLOSED
  const exit = await resultWithin(EXIT_MS, exited)
  return exit && wasClosed(exit) ? CLOSED_BY_USER : CRASHED
}
