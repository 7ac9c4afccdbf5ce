// What replicas and the fake host say to each other, over its Unix socket.
import type { Endpoint } from '../../../src/http/endpoint.ts'
import type { ServerKeys } from '../../../src/base/access.ts'

/** Where the fake host of a data directory answers. */
export const fakeHostSocket = (root: string): string => `${root}/fake-host.sock`

/** Asks for an instance. With `keys` its agent is reached by TCP and TLS, without them by a Unix socket. */
export interface Wanted {
  id: string
  replica: string
  keys?: ServerKeys
}

/** An instance, as the fake host keeps it for the next service. */
export interface Kept {
  id: string
  replica: string
  agent: Endpoint
}
