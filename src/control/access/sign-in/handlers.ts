// Handlers of the Sign-in contract.
import { networkOf } from '../../../base/anonymous.ts'
import { fault } from '../../../http/fault.ts'
import { RateLimit } from '../../../http/rate-limit.ts'
import { known, type ByKey, type Handlers } from '../../../http/route.ts'
import { ORGANIZATION } from '../account/contract.ts'
import { callerOf } from '../members/person.ts'
import type { Me, signIn as contract } from './contract.ts'
import { clearSession, hasSessionCookie, isFromElsewhere, sessionCookie, setSession } from './cookie.ts'
import { noOidcHandlers, oidcHandlers, PROVIDER, type OidcSignInSettings } from './oidc-handlers.ts'
import type { WebSessions } from './web-sessions.ts'

/** Sign-ins that one address may try within a minute: enough for an office behind one address, too few to guess a key. */
const TRIES_PER_MINUTE = 60

export interface SignInSettings {
  sessions: WebSessions
  /** @throws 401 */
  checkKey: (key: string) => Promise<ByKey>
  /** Undefined without an identity provider. */
  oidc: Omit<OidcSignInSettings, 'countTry' | 'sessions'> | undefined
  /** What the caller may use, for `GET /me`. */
  describe: (by: ReturnType<typeof known>['by']) => Promise<Omit<Me, 'organization'>>
}

/** Counts tries by address, and refuses those that are too many. @throws 429 */
export function limitTries(perMinute: number, what: string): (address: string) => void {
  const limit = new RateLimit(perMinute)
  return (address) => {
    const { retryAfterSeconds } = limit.take(networkOf(address))
    if (retryAfterSeconds !== undefined) throw fault.tooMany(`too many ${what} from your address; at most ${perMinute} within a minute`, retryAfterSeconds)
  }
}

export function signInHandlers({ sessions, checkKey, oidc, describe }: SignInSettings): Handlers<typeof contract> {
  const countTry = limitTries(TRIES_PER_MINUTE, 'sign-ins')
  return {
    getSignInOptions: () => ({ key: true, providers: oidc ? [{ id: PROVIDER, name: oidc.settings.name }] : [] }),
    async signInWithKey({ body, headers, address, origin, identified }) {
      countTry(address)
      // A page elsewhere must not sign a person in as somebody else.
      if (isFromElsewhere(headers, origin)) throw fault.forbidden('a page of another origin cannot sign you in')
      const key = await checkKey(body.api_key)
      if (key.deployment !== undefined) throw fault.forbidden("an app's key cannot be used to sign in")
      identified({ by: key, project: key.project })
      const { token, maxAgeSeconds } = await sessions.begin({ key: key.id })
      return { 'set-cookie': setSession(token, maxAgeSeconds, origin), 'cache-control': 'no-store' }
    },
    ...(oidc ? oidcHandlers({ ...oidc, sessions, countTry }) : noOidcHandlers),
    async signOut({ headers, origin, identified }) {
      const token = sessionCookie(headers, origin)
      if (token === undefined && hasSessionCookie(headers)) throw fault.forbidden('sign out with the header X-Cob-Dashboard: 1, from a page of this service')
      const account = token === undefined ? undefined : await sessions.end(token)
      if (account) identified({ by: callerOf(account), project: account.project })
      return { 'set-cookie': clearSession(origin) }
    },
    async getMe({ principal }) {
      return { ...(await describe(known(principal).by)), organization: { id: ORGANIZATION } }
    },
  }
}
