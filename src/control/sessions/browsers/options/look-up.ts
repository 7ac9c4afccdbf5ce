// What options name and something else keeps: looked up once, between the parsing of a body and the storing of its options, and before a session gets a browser.
import type { Fit } from '../../../../agent/session/contract.ts'
import type { Endpoint } from '../../../../http/endpoint.ts'
import type { CreateBrowser, UpdateBrowser } from '../contract.ts'

/** The options of a create or an update that name something. */
export type Naming = Pick<CreateBrowser & UpdateBrowser, 'proxy' | 'proxy_id'> &
  Pick<CreateBrowser | UpdateBrowser, 'network' | 'telemetry'> &
  Partial<Pick<CreateBrowser, 'extensions'>>

/** What a browser does not have by itself. */
export interface Brought {
  /** Of its extensions. */
  ids: string[]
  /**
   * Sends the browser what it needs. Returns the settings that it is then fitted to. Called once more when a browser was replaced.
   * @throws a fault that names the field; CallFailed
   */
  bring(agent: Endpoint, signal: AbortSignal): Promise<Fit>
}

interface Found<T> {
  /** The options, with ids in place of names. */
  options: T
  /** What has to be brought to a new browser before it is fitted; undefined when nothing has. */
  brought: Brought | undefined
}

/** Looks up what options name. It exists then, in this project, and may be used. @throws 400 naming the option */
export type LookUp = <T extends Naming>(project: string, given: T) => Promise<Found<T>>
