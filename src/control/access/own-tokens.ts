// Tokens of a single session or login, without an account. They open only the paths below it.
import type { Principal } from '../../http/route.ts'
import { hook } from '../module.ts'

export interface OwnToken {
  /** The routes that accept it. */
  access: 'session' | 'login'
  /** The principal of the token in a request; undefined when it has no token of this kind. `id`: the id in the path. @throws 401, 404 */
  read(shown: { query: unknown; bearer: string | undefined; id: string }): Promise<Principal> | undefined
}

export const ownTokens = hook<OwnToken>('tokens of sessions and logins')
