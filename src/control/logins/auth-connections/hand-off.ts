// Hands a login to a person: the login's address contains a code, which can be exchanged once for a token of this login.
import { timingSafeEqual } from 'node:crypto'
import { sql } from 'kysely'
import { Bucket } from '../../../base/bucket.ts'
import { makeShortSigner, makeSigner } from '../../../base/signed.ts'
import { fault } from '../../../http/fault.ts'
import type { Db } from '../../../store/db.ts'
import { flowById, hashOfCode, lastLogins } from './flow-rows.ts'
import { connectionById } from './rows.ts'

/** Clients look for this issuer. */
const ISSUER = 'kernel-api'
/** After its end, a login's page may show the result for this time. */
const GRACE_MS = 5 * 60_000
/** Codes cannot be guessed, but attempts must not overload the database. For each connection and replica. */
const ATTEMPTS = { perSecond: 0.5, atOnce: 20 }
/** Most connections whose attempts are counted. */
const MOST_COUNTED = 10_000
const WAIT_SECONDS = 2

/** The content of a token. */
export interface LoginToken {
  flow: string
  connection: string
  project: string
}

export interface HandOff {
  /** The code of a flow: always the same, so that its address can be shown again. Only its hash is stored. */
  codeOf(flowId: string): string
  /** @throws 401 for a code that is wrong, used or too old; 429 */
  exchange(connectionId: string, code: string): Promise<string>
  /** Whether a bearer token has the form of these tokens: keys have no dots. */
  isToken(bearer: string): boolean
  /** @throws 401 when it is wrong, expired or for another connection; 410 when its login was deleted or another one has started */
  check(token: string, connectionId: string): Promise<LoginToken>
}

export function makeHandOff(db: Db, secretKey: Buffer, scope: string): HandOff {
  const codes = makeShortSigner(secretKey, 'login-codes')
  const tokens = makeSigner(secretKey, 'login-tokens')
  const attempts = new Map<string, Bucket>()

  /** @throws 429 */
  function countAttempt(connectionId: string): void {
    if (attempts.size >= MOST_COUNTED) attempts.clear()
    const bucket = attempts.get(connectionId) ?? new Bucket(ATTEMPTS)
    attempts.set(connectionId, bucket)
    if (bucket.take() > 0) throw fault.tooMany('too many codes were tried for this connection', WAIT_SECONDS)
  }

  return {
    codeOf: (flowId) => codes.sign(flowId),
    async exchange(connectionId, code) {
      countAttempt(connectionId)
      const refused = () => fault.unauthorized('this code is wrong, was used already or is too old; start another login')
      // Check it before the database: a code that no service has made is not looked up.
      const flowId = codes.textOf(code)
      const flow = flowId === undefined ? undefined : await flowById(db, flowId)
      if (flow?.connection_id !== connectionId || flow.scope !== scope) throw refused()
      if (flow.code_hash === null || !timingSafeEqual(flow.code_hash, hashOfCode(code)) || flow.code_used_at) throw refused()
      const until = flow.expires_at.getTime() + GRACE_MS
      if (until <= Date.now()) throw refused()
      const used = sql`update auth_flows set code_used_at = now() where id = ${flow.id} and code_used_at is null returning id`
      if ((await used.execute(db)).rows.length === 0) throw refused()
      return tokens.sign(connectionId, { iss: ISSUER, managed_auth_session_id: flow.id, exp: Math.floor(until / 1000) })
    },
    isToken: (bearer) => bearer.split('.').length === 3,
    async check(token, connectionId) {
      const claims = await tokens.read(token)
      const flowId = claims?.managed_auth_session_id
      if (!claims || claims.iss !== ISSUER || typeof claims.exp !== 'number' || typeof flowId !== 'string')
        throw fault.unauthorized('this token is wrong or has expired; start another login')
      if (claims.sub !== connectionId) throw fault.unauthorized('this token is for another connection')
      const [connection, last] = await Promise.all([connectionById(db, connectionId), lastLogins(db, [connectionId])])
      if (!connection || last.get(connectionId)?.id !== flowId) throw fault.gone('the login of this token is gone, or another one has begun')
      return { flow: flowId, connection: connectionId, project: connection.project_id }
    },
  }
}
