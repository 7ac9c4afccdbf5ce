// Something that the service needs is not available at the moment. Callers get 503 and the time to retry (http/fault.ts).

export class Unavailable extends Error {
  readonly retryAfterSeconds: number
  /** `message` is for callers: it names no host and no user. The cause is for the log. */
  constructor(message: string, retryAfterSeconds: number, cause?: unknown) {
    super(message, { cause })
    this.name = 'Unavailable'
    this.retryAfterSeconds = retryAfterSeconds
  }
}
