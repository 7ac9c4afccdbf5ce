// Errors of a session's connections to hosts.

/**
 * - `unreachable`: no connection to the proxy itself, or it does not answer
 * - `credentials`: it does not accept the user name and the password
 * - `refused`: it answers, but does not connect to the target
 * - `network_policy_denied`: the session may not reach the target
 */
type UpstreamErrorKind = 'unreachable' | 'credentials' | 'refused' | 'network_policy_denied'

/** A failed connection to a host. The message names no address, user or password: pages and programs of the session read it. */
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
