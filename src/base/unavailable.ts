// Something that the service needs is not available at the moment. Callers get 503 and the time to retry (http/fault.ts).

/** Retry-After for problems that usually pass at once. */
export const RETRY_SECONDS = 2

export class Unavailable extends Error {
  readonly retryAfterSeconds: number
  /** Nothing was done, and no partial result is left: clients may repeat any call automatically. */
  readonly isUndone: boolean
  /** `message` is for callers: it names no host and no user. The cause is for the log. */
  constructor(message: string, retryAfterSeconds: number, cause?: unknown, isUndone = false) {
    super(message, { cause })
    this.name = 'Unavailable'
    this.retryAfterSeconds = retryAfterSeconds
    this.isUndone = isUndone
  }
}

/** For a call that a service has not begun, because it stops. Another replica, or the next service, can do it. */
export const serviceStops = (): Unavailable => new Unavailable('the service stops; try again', RETRY_SECONDS, undefined, true)
