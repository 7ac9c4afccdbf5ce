// Something that we need is away for now. Callers hear 503 and when to ask again (http/fault.ts).

export class Unavailable extends Error {
  readonly retryAfterSeconds: number
  /** `message` is for callers: it names no host and no user. The cause is for the log. */
  constructor(message: string, retryAfterSeconds: number, cause?: unknown) {
    super(message, { cause })
    this.name = 'Unavailable'
    this.retryAfterSeconds = retryAfterSeconds
  }
}
