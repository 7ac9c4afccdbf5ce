// What goes wrong with a proxy that a caller has named.

/**
 * - `unreachable`: no connection to the proxy itself, or it does not answer
 * - `credentials`: it does not accept the user name and the password
 * - `refused`: it answers, but does not connect to the target
 */
type UpstreamErrorKind = 'unreachable' | 'credentials' | 'refused'

/** A failed connection through a proxy. The message names no address, user or password: pages and programs of the session read it. */
export class UpstreamError extends Error {
  override name = 'UpstreamError'
  readonly kind: UpstreamErrorKind
  /** The status of an HTTP proxy's answer, or the reply of a SOCKS proxy. */
  readonly status: number | undefined

  constructor(kind: UpstreamErrorKind, message: string, { status, cause }: { status?: number | undefined; cause?: unknown } = {}) {
    super(message, { cause })
    this.kind = kind
    this.status = status
  }
}
