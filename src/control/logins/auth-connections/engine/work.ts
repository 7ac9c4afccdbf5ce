// Interfaces that the engine needs: rows of flows and connections, credentials, providers, a clock. They are narrow, so that tests can replace each.
import type { PageModel } from '../../../../agent/login/contract.ts'
import type { Log } from '../../../../base/log.ts'
import type { ErrorCode } from '../contract.ts'
import type { FlowRow } from '../flow-rows.ts'
import type { Flows } from '../flows.ts'
import type { ConnectionRow } from '../rows.ts'
import type { LoginBrowsers } from './browser.ts'
import type { Interpretation, PageContext } from './interpretation.ts'
import type { ProxyReads, StoredValues, Totp } from './secrets.ts'

export type Flow = Pick<
  FlowRow,
  'id' | 'connection_id' | 'type' | 'state' | 'step' | 'asked' | 'memory' | 'pause' | 'browser_id' | 'code_hash' | 'expires_at' | 'input_until'
>
export type Connection = Pick<
  ConnectionRow,
  | 'id'
  | 'project_id'
  | 'profile_id'
  | 'domain'
  | 'login_url'
  | 'allowed_domains'
  | 'record_session'
  | 'save_credentials'
  | 'credential_id'
  | 'provider_id'
  | 'provider_path'
  | 'by_project_key'
  | 'proxy_id'
  | 'browser'
  | 'status'
  | 'post_login_url'
  | 'learned'
>

type OfRows =
  | 'giveBack'
  | 'onNews'
  | 'remember'
  | 'ask'
  | 'takeAnswer'
  | 'submitting'
  | 'discovering'
  | 'bind'
  | 'keepTyped'
  | 'keepAddress'
  | 'openTyped'
  | 'finish'
  | 'next'
  | 'expireDue'

/** The methods of flow rows that the engine uses. It reads only some columns of flows and connections, so that tests can replace them. */
export interface FlowRows extends Pick<Flows, OfRows> {
  claimNext(): Promise<Flow | undefined>
  get(id: string): Promise<Flow | undefined>
  connectionOf(flow: Pick<Flow, 'connection_id'>): Promise<Connection | undefined>
}

export interface Tools<T extends Totp = Totp> {
  flows: FlowRows
  browsers: LoginBrowsers
  credentials: {
    open(project: string, id: string): Promise<StoredValues<T> | undefined>
    keep(project: string, what: { into: string | undefined; id: string; name: string; domain: string; values: Record<string, string> }): Promise<string>
  }
  /** Errors for callers have a `code` (provider_unavailable, credential_not_found) and a message without values. */
  providers: {
    resolve(
      id: string,
      by: { path: string; domain: string | undefined } | { domain: string },
      signal: AbortSignal,
    ): Promise<{ values: Record<string, string>; totp: string | undefined; /** Patterns of the hosts that the item is meant for. */ hosts: string[] }>
  }
  /** The part of the traffic that a caller's proxy can read. */
  proxyReads: (project: string, id: string) => Promise<ProxyReads>
  totp: {
    /** Parses a secret in a store's form. */
    read(text: string): T
    code(spec: T, now: Date): { code: string; expiresAt: Date }
  }
  interpret: (page: PageModel, context: PageContext) => Interpretation
  /** A model, if configured, for pages that the rules do not recognise. It never sees values. */
  model: ((page: PageModel, context: PageContext, signal: AbortSignal) => Promise<Interpretation | undefined>) | undefined
  /** The name of a new credential for typed values. */
  credentialName: (connection: Connection) => Promise<string>
  clock: { now(): number; sleep(ms: number, signal: AbortSignal): Promise<void> }
  log: Pick<Log, 'debug' | 'info' | 'warn' | 'error'>
}

/** The flow has ended, or another replica works on it. */
export class NotOurs extends Error {
  override name = 'NotOurs'
}

/** The time of the flow, or of a question, is over. */
export class Expired extends Error {
  override name = 'Expired'
}

/** Ends the flow with a code. Its message is for callers. `isRefusal`: the site has accepted none of the sent values, with or without a message. */
export class FlowFailure extends Error {
  override name = 'FlowFailure'
  readonly code: ErrorCode
  readonly isRefusal: boolean
  constructor(code: ErrorCode, message: string, { isRefusal = code === 'credentials_invalid' }: { isRefusal?: boolean } = {}) {
    super(message)
    this.code = code
    this.isRefusal = isRefusal
  }
}
