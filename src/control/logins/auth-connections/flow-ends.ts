// The end of a flow: the move to its last state and, in the same transaction, the effects on its connection.
import { sql, type RawBuilder, type SqlBool } from 'kysely'
import type { Sealer } from '../../../base/sealed.ts'
import type { Db } from '../../../store/db.ts'
import { afterCheck, afterFailure, afterLogin, resultOf, type Moment } from './check-rules.ts'
import type { ErrorCode } from './contract.ts'
import type { Learned } from './flow.ts'
import { flowById, insertFlow, type FlowRow } from './flow-rows.ts'
import { FORGET, flowLifecycle, moveFlow } from './lifecycle.ts'
import { lockConnection, setConnection, type ConnectionRow } from './rows.ts'

interface Success {
  state: 'SUCCESS'
  /** In the form that may be shown. The whole address is stored encrypted in the flow's row. */
  postLoginUrl: string | undefined
  learned: Learned
  /** The credential with the typed values. */
  credentialId?: string | undefined
}

interface Failure {
  state: 'FAILED'
  errorCode: ErrorCode
  errorMessage: string
  websiteError?: string | undefined
  /** The version of the stored values that the site has refused. */
  refused?: string | undefined
}

export type FlowEnd =
  | Success
  | Failure
  | { state: 'EXPIRED' | 'CANCELED'; errorMessage: string }
  /** For health checks. An inconclusive one is FAILED. */
  | { state: 'AUTHENTICATED' | 'NEEDS_AUTH'; postLoginUrl?: string | undefined }

export interface FlowEndsSettings {
  db: Db
  scope: string
  /** For addresses; the owner is the flow, or the connection. */
  sealer: Sealer
  /** Whether the service could log in again without a person. */
  canReauth: (connection: ConnectionRow) => Promise<boolean>
  now?: () => number
  random?: () => number
}

/** Moves a flow to its end, in a transaction. False when it was not in progress, or `only` does not hold. */
export async function endFlow(tx: Db, id: string, end: FlowEnd, only: RawBuilder<SqlBool>): Promise<boolean> {
  const columns = {
    ...FORGET,
    step: 'COMPLETED',
    updated_at: sql`now()`,
    finished_at: sql`now()`,
    pause: null,
    ...('errorCode' in end && { error_code: end.errorCode, website_error: end.websiteError ?? null }),
    ...('errorMessage' in end && { error_message: end.errorMessage }),
    ...(end.state === 'SUCCESS' && { website_error: null }),
    ...('postLoginUrl' in end && { post_login_url: end.postLoginUrl ?? null }),
  }
  return (await moveFlow(tx, id, end.state, 'errorCode' in end ? end.errorCode : null, columns, only)) !== undefined
}

export class FlowEnds {
  readonly #settings: Required<FlowEndsSettings>

  constructor({ db, scope, sealer, canReauth, now = Date.now, random = Math.random }: FlowEndsSettings) {
    this.#settings = { db, scope, sealer, canReauth, now, random }
  }

  /** Ends a flow if `only` holds, with the effects on its connection. @returns whether it was in progress */
  async finish(id: string, end: FlowEnd, only: RawBuilder<SqlBool>): Promise<boolean> {
    const { db } = this.#settings
    const before = await flowById(db, id)
    if (!before || flowLifecycle.isTerminal(before.state)) return false
    return db.transaction().execute(async (tx) => {
      // Lock the connection first, in the same order as its deletion.
      const connection = await lockConnection(tx, before.connection_id)
      if (!connection || !(await endFlow(tx, id, end, only))) return false
      if (end.state === 'SUCCESS') await this.#afterLogin(tx, connection, before, end)
      else if (before.type === 'health_check') await this.#afterCheck(tx, connection, end)
      else await this.#afterFailedLogin(tx, connection, before, end)
      return true
    })
  }

  async #afterLogin(tx: Db, connection: ConnectionRow, flow: FlowRow, { postLoginUrl, learned, credentialId }: Success): Promise<void> {
    const { sealer } = this.#settings
    const hasNone = connection.credential_id === null && connection.provider_id === null
    await setConnection(tx, connection.id, {
      ...afterLogin(connection, this.#moment()),
      status: 'AUTHENTICATED',
      checked_at: sql`now()`,
      post_login_url: postLoginUrl ?? null,
      landing: flow.landing === null ? null : sealer.seal(sealer.open(flow.landing, flow.id), connection.id),
      learned: JSON.stringify(learned),
      // If a caller has named a credential meanwhile, that one stays. The new credential may have been deleted since the login wrote it.
      ...(credentialId !== undefined && hasNone && { credential_id: sql`(select id from credentials where id = ${credentialId} for key share)` }),
    })
  }

  async #afterCheck(tx: Db, connection: ConnectionRow, end: Exclude<FlowEnd, Success>): Promise<void> {
    if (end.state === 'CANCELED') return
    const { scope, canReauth } = this.#settings
    const { reauth, isCheck, ...columns } = afterCheck(connection, resultOf(end), await canReauth(connection), this.#moment())
    await setConnection(tx, connection.id, { ...columns, checks: JSON.stringify(columns.checks), ...(isCheck && { checked_at: sql`now()` }) })
    if (reauth) await insertFlow(tx, { connection, scope, type: 'reauth', asked: {} })
  }

  async #afterFailedLogin(tx: Db, connection: ConnectionRow, flow: FlowRow, end: Exclude<FlowEnd, Success>): Promise<void> {
    const refused = end.state === 'FAILED' ? end.refused : undefined
    const isOwn = flow.type === 'reauth' && flow.code_hash === null
    if (isOwn && end.state !== 'CANCELED') {
      // The service itself started this login. Its next attempt comes later each time.
      const { checks, ...columns } = afterFailure(connection, this.#moment(), refused)
      await setConnection(tx, connection.id, { ...columns, checks: JSON.stringify(checks) })
    } else if (refused !== undefined) await setConnection(tx, connection.id, { checks: JSON.stringify({ ...connection.checks, refused }) })
  }

  #moment(): Moment {
    return { at: this.#settings.now(), random: this.#settings.random() }
  }
}
