// Tokens that are no account's: they belong to one session or login, and open only what is below its path.
import type { Principal } from '../../http/route.ts'
import { hook } from '../module.ts'

export interface OwnToken {
  /** The routes that take it. */
  access: 'session' | 'login'
  /** Whose token a request shows; undefined when it shows none of this kind. `id`: what its path names. @throws 401, 404 */
  read(shown: { query: unknown; bearer: string | undefined; id: string }): Promise<Principal> | undefined
}

export const ownTokens = hook<OwnToken>('tokens of sessions and logins')
