// Looks up the objects that options name (proxies, extensions, destinations): after a body is parsed and before its options are stored or a session gets a
// browser.
import type { Fit } from '../../../../agent/session/contract.ts'
import type { Endpoint } from '../../../../http/endpoint.ts'
import type { CreateBrowser, UpdateBrowser } from '../contract.ts'

/** The options of a create or an update that name an object. */
export type Naming = Pick<CreateBrowser & UpdateBrowser, 'proxy' | 'proxy_id'> &
  Pick<CreateBrowser | UpdateBrowser, 'network' | 'telemetry'> &
  Partial<Pick<CreateBrowser, 'extensions'>>

/** Files and settings that a new browser needs. */
export interface Brought {
  /** The ids of its extensions. */
  ids: string[]
  /**
   * Sends them to the browser. Returns the settings for the later fit. Called again when a browser was replaced.
   * @throws a fault that names the field; CallFailed
   */
  bring(agent: Endpoint, signal: AbortSignal): Promise<Fit>
}

interface Found<T> {
  /** The options, with ids in place of names. */
  options: T
  /** Data that has to be sent to a new browser before it is fitted; undefined when there is none. */
  brought: Brought | undefined
}

/** Looks up the objects that options name. Each of them exists at that time, in this project, and may be used. @throws 400 naming the option */
export type LookUp = <T extends Naming>(project: string, given: T) => Promise<Found<T>>
