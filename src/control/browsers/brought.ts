// What an option names and a browser does not have by itself: looked up before a session gets a browser, and brought to that browser before it is fitted.
import type { Fit } from '../../agent/session/contract.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import type { CreateBrowser } from './contract.ts'

export interface Brought {
  /**
   * Sends the browser what it needs. Returns the settings that it is then fitted to. Called once more when a browser was replaced.
   * @throws a fault that names the field; CallFailed
   */
  bring(agent: Endpoint, signal: AbortSignal): Promise<Fit>
}

/** Looks up what a create names; undefined when it names nothing. @throws 400 that names the field */
export type LookUp = (project: string, wanted: CreateBrowser) => Promise<Brought | undefined>
