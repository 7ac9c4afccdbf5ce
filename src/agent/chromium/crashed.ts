// The close codes and reasons that clients get when the browser has ended.

/** The close code for a browser that crashed; it is restarted under the same URL. */
export const CRASHED = { code: 4003, reason: { reason: 'crashed', message: 'the browser is being started again; connect to the same URL' } } as const

/** For a browser that has been closed for good, to save its profile. */
export const CLOSED = { code: 1000, reason: { reason: 'ended' } } as const
