// What the service and its forwarder tell each other over their pipe.
import type { Endpoint } from '../http/endpoint.ts'
import type { Upstream } from './upstream.ts'

/** The way of one session to the internet. */
export interface Exit {
  /** Of the session. */
  id: string
  /** Where the session's agent answers. */
  agent: Endpoint
  /** The path of its links there. It holds a key: an agent takes links of its newest key only. */
  path: string
  upstream: Upstream
}

/** To the forwarder. `use` replaces what the session had. */
export type ToForwarder =
  | { type: 'begin'; allowHostLoopback: boolean; logLevel: string }
  | { type: 'use'; exit: Exit }
  | { type: 'forget'; id: string; path?: string }

/** From the forwarder: an agent has a link of an exit; an agent takes links of another key now. */
export type FromForwarder = { type: 'used'; path: string } | { type: 'replaced'; id: string; path: string }
