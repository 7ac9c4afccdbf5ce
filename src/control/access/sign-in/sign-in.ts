// The rules of signing in with a key, and of signing out. With an identity provider: oidc-sign-in.ts.
import { networkOf } from '../../../base/anonymous.ts'
import { fault } from '../../../http/fault.ts'
import { RateLimit } from '../../../http/rate-limit.ts'
import type { ByKey, Call } from '../../../http/route.ts'
import { callerOf } from '../members/person.ts'
import type { Options } from './contract.ts'
import { clearSession, hasSessionCookie, isFromElsewhere, sessionCookie, setSession } from './cookie.ts'
import { OidcSignIn, PROVIDER, type OidcSignInSettings } from './oidc-sign-in.ts'
import type { WebSessions } from './web-sessions.ts'

/** Sign-in attempts of one address within a minute: enough for an office behind one address, too few to guess a key. */
const TRIES_PER_MINUTE = 60

interface SignInSettings {
  sessions: WebSessions
  /** @throws 401 */
  checkKey: (key: string) => Promise<ByKey>
  /** Undefined without an identity provider. */
  oidc: Omit<OidcSignInSettings, 'countTry' | 'sessions'> | undefined
}

type Asked = Pick<Call<unknown, unknown, unknown>, 'headers' | 'origin' | 'address' | 'identified'>

/** Counts attempts by address, and refuses too many. @throws 429 */
export function limitTries(perMinute: number, what: string): (address: string) => void {
  const limit = new RateLimit(perMinute)
  return (address) => {
    const { retryAfterSeconds } = limit.take(networkOf(address))
    if (retryAfterSeconds !== undefined) throw fault.tooMany(`too many ${what} from your address; at most ${perMinute} within a minute`, retryAfterSeconds)
  }
}

export class SignIn {
  readonly options: Options
  readonly #sessions: WebSessions
  readonly #checkKey: SignInSettings['checkKey']
  readonly #oidc: OidcSignIn | undefined
  readonly #countTry = limitTries(TRIES_PER_MINUTE, 'sign-ins')

  constructor({ sessions, checkKey, oidc }: SignInSettings) {
    this.#sessions = sessions
    this.#checkKey = checkKey
    this.#oidc = oidc && new OidcSignIn({ ...oidc, sessions, countTry: this.#countTry })
    this.options = { key: true, providers: oidc ? [{ id: PROVIDER, name: oidc.settings.name }] : [] }
  }

  /** The headers that set the cookie of a session. @throws 401, 403, 429 */
  async withKey(given: string, { headers, address, origin, identified }: Asked): Promise<Record<string, string>> {
    this.#countTry(address)
    // A page of another origin must not sign a person in as somebody else.
    if (isFromElsewhere(headers, origin)) throw fault.forbidden('a page of another origin cannot sign you in')
    const key = await this.#checkKey(given)
    if (key.deployment !== undefined) throw fault.forbidden("an app's key cannot be used to sign in")
    identified({ by: key, project: key.project })
    const { token, maxAgeSeconds } = await this.#sessions.begin({ key: key.id })
    return { 'set-cookie': setSession(token, maxAgeSeconds, origin), 'cache-control': 'no-store' }
  }

  /** @throws 404 */
  with(provider: string): OidcSignIn {
    if (!this.#oidc || provider !== PROVIDER) throw fault.notFound('identity provider', provider)
    return this.#oidc
  }

  /** The headers that remove the cookie. @throws 403 for a request of another page */
  async end({ headers, origin, identified }: Asked): Promise<Record<string, string>> {
    const token = sessionCookie(headers, origin)
    if (token === undefined && hasSessionCookie(headers)) throw fault.forbidden('sign out with the header X-Cob-Dashboard: 1, from a page of this service')
    const account = token === undefined ? undefined : await this.#sessions.end(token)
    if (account) identified({ by: callerOf(account), project: account.project })
    return { 'set-cookie': clearSession(origin) }
  }
}
