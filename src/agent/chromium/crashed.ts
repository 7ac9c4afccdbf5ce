// The close code and reason that clients get when the browser crashed.

/** The close code for a browser that crashed; it is restarted under the same URL. */
export const CRASHED = { code: 4003, reason: { reason: 'crashed', message: 'the browser is being started again; connect to the same URL' } } as const
