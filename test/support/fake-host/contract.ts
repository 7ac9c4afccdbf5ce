// What replicas and the farm say to each other, over its Unix socket.
import type { Endpoint } from '../../../src/http/endpoint.ts'
import type { ServerKeys } from '../../../src/base/access.ts'

/** Where the farm of a data directory answers. */
export const farmSocket = (root: string): string => `${root}/farm.sock`

/** Asks for an instance. With `keys` its agent is reached by TCP and TLS, without them by a Unix socket. */
export interface Wanted {
  id: string
  replica: string
  keys?: ServerKeys
}

/** An instance, as the farm keeps it for the next service. */
export interface Kept {
  id: string
  replica: string
  agent: Endpoint
}
