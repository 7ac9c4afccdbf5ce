// The messages between the service and its forwarder over their pipe.
import type { Endpoint } from '../http/endpoint.ts'
import type { Routing } from './routing.ts'

/** The exit of one session to the internet. */
export interface Exit {
  /** The id of the session. */
  id: string
  /** Where the session's agent answers. */
  agent: Endpoint
  /** The key of its links: an agent takes links of its newest key only. */
  key: string
  /** The path of its links at the agent, with the key. */
  path: string
  routing: Routing
}

/** To the forwarder. `use` replaces the session's exit; `allow` changes the list of hosts, and leaves connections to those that may still be reached. */
export type ToForwarder =
  | { type: 'begin'; allowHostLoopback: boolean; logLevel: string }
  | { type: 'use'; exit: Exit }
  | { type: 'allow'; id: string; path: string; hosts: Routing['allowedHosts']; call: number }
  | { type: 'forget'; id: string; path?: string }

/** From the forwarder: an agent has a link of an exit; an agent takes links of another key now; the list of this call applies. */
export type FromForwarder = { type: 'used'; id: string; path: string } | { type: 'replaced'; id: string; path: string } | { type: 'allowed'; call: number }
