// What clients of a browser that crashed are told.

/** The close code for a browser that crashed; it is being started again behind the same URL. */
export const CRASHED = { code: 4003, reason: { reason: 'crashed', message: 'the browser is being started again; connect to the same URL' } } as const
