// The messages between replicas and the fake host, over its Unix socket.
import type { Endpoint } from '../../../src/http/endpoint.ts'
import type { ServerKeys } from '../../../src/base/access.ts'

/** The path of the fake host's socket in a data directory. */
export const fakeHostSocket = (root: string): string => `${root}/fake-host.sock`

/** A request for an instance. With `keys` its agent listens on TCP with TLS, otherwise on a Unix socket. */
export interface Wanted {
  id: string
  replica: string
  keys?: ServerKeys
}

/** An instance as the fake host stores it for the next service. */
export interface Kept {
  id: string
  replica: string
  agent: Endpoint
}
