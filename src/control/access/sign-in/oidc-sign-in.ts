// The rules of signing in with an identity provider: the redirect to it, the return, and the texts for a person when that fails.
import type { OidcSettings } from '../../../base/oidc-settings.ts'
import type { Sealer } from '../../../base/sealed.ts'
import { cookieNamed, OWN_COOKIES } from '../../../http/cookies.ts'
import { fault } from '../../../http/fault.ts'
import type { Bytes, Call } from '../../../http/route.ts'
import { callerOf, type Person } from '../members/person.ts'
import { HTML, pageHeaders, type Pages } from '../../service/dashboard/pages.ts'
import { setCookie, setSession } from './cookie.ts'
import { problemOf, SignInRefused, type Identity, type OidcClient, type Pending } from './oidc.ts'
import type { WebSessions } from './web-sessions.ts'

/** The id of the only provider. */
export const PROVIDER = 'default'

const PATH = `/sign-in/oidc/${PROVIDER}`
/** Contains the state of a sign-in that is under way, encrypted: any replica can complete it, but only for the same web browser. */
const COOKIE = `${OWN_COOKIES}oidc`
const PENDING_SECONDS = 600

export interface OidcSignInSettings {
  settings: OidcSettings
  client: OidcClient
  sealer: Sealer
  sessions: WebSessions
  pages: Pick<Pages, 'message'>
  /** The person, or the reason why they are not admitted. */
  admit: (identity: Identity) => Promise<Person | { reason: string }>
  countTry: (address: string) => void
}

/** A path of our own pages. Undefined for any form of another site's address. */
export function ownPath(given: string, origin: string): string | undefined {
  const url = URL.canParse(given, origin) ? new URL(given, origin) : undefined
  if (!url || url.origin !== new URL(origin).origin || !given.startsWith('/') || /^\/[/\\]/.test(given)) return undefined
  return /^\/(dashboard|authorize)(\/|$)/.test(url.pathname) ? url.pathname + url.search + url.hash : undefined
}

/** Redirects the web browser. */
const redirect = (location: string, cookies: string[]): Bytes => ({
  body: Buffer.alloc(0),
  status: 303,
  headers: { location, 'cache-control': 'no-store', 'referrer-policy': 'no-referrer', 'set-cookie': cookies },
})

type Asked = Pick<Call<unknown, unknown, unknown>, 'origin' | 'address' | 'log'>
type Returned = Asked & Pick<Call<unknown, unknown, unknown>, 'headers' | 'identified'>

const cookie = (value: string, maxAgeSeconds: number, origin: string): string =>
  setCookie(COOKIE, value, { maxAgeSeconds, origin, path: PATH, sameSite: 'Lax' })

export class OidcSignIn {
  readonly #settings: OidcSignInSettings

  constructor(settings: OidcSignInSettings) {
    this.#settings = settings
  }

  /** Sends the web browser to the provider. @throws 400, 429 */
  async begin(given: string, { origin, address, log }: Asked): Promise<Bytes> {
    const { client, sealer, countTry } = this.#settings
    countTry(address)
    const returnTo = ownPath(given, origin)
    if (returnTo === undefined) throw fault.field('return_to', 'must be a path of this service below /dashboard, or /authorize')
    try {
      const { url, pending } = await client.begin(`${origin}${PATH}/callback`)
      const value = sealer.seal(JSON.stringify({ ...pending, returnTo, until: Date.now() + PENDING_SECONDS * 1000 }), COOKIE).toString('base64url')
      return redirect(url, [cookie(value, PENDING_SECONDS, origin)])
    } catch (err) {
      log.warn(problemOf(err), 'the identity provider cannot be used')
      return this.#failed(502, 'The identity provider does not answer, or not as it should. The log of this service says why.', returnTo, origin)
    }
  }

  /** Handles the return from the provider, and sets the cookie of the session. @throws 429 */
  async finish(query: Record<string, unknown>, { headers, identified, ...asked }: Returned): Promise<Bytes> {
    const { admit, sessions, countTry } = this.#settings
    const { origin, address } = asked
    countTry(address)
    const pending = this.#pendingOf(cookieNamed(headers, COOKIE))
    if (!pending) return this.#failed(400, 'This sign-in was begun in another browser, or too long ago.', '/dashboard', origin)
    const { returnTo } = pending
    const identity = await this.#identityOf(query, pending, asked)
    if ('status' in identity) return this.#failed(identity.status, identity.reason, returnTo, origin)
    const person = await admit(identity)
    if ('reason' in person) return this.#failed(403, person.reason, returnTo, origin)
    const { token, maxAgeSeconds } = await sessions.begin({ person: person.id })
    identified({ by: callerOf({ ...person, via: { kind: 'dashboard', id: person.id } }) })
    return redirect(returnTo, [setSession(token, maxAgeSeconds, origin), cookie('', 0, origin)])
  }

  /** The person's identity from the provider; or the reason why it cannot be used, for the page. */
  async #identityOf(query: Record<string, unknown>, pending: Pending, { origin, log }: Asked): Promise<Identity | { status: number; reason: string }> {
    const url = new URL(`${origin}${PATH}/callback`)
    for (const [name, value] of Object.entries(query)) if (typeof value === 'string') url.searchParams.set(name, value)
    try {
      return await this.#settings.client.finish(url, pending)
    } catch (err) {
      if (err instanceof SignInRefused) return { status: 403, reason: err.message }
      log.warn(problemOf(err), 'a sign-in with the identity provider failed')
      return { status: 502, reason: 'The answer of the identity provider could not be used. The log of this service says why.' }
    }
  }

  #pendingOf(value: string | undefined): (Pending & { returnTo: string }) | undefined {
    if (value === undefined) return undefined
    try {
      const text = this.#settings.sealer.open(Buffer.from(value, 'base64url'), COOKIE)
      const { until, ...pending } = JSON.parse(text) as Pending & { returnTo: string; until: number }
      return until > Date.now() ? pending : undefined
    } catch {
      return undefined // not made by us
    }
  }

  async #failed(status: number, text: string, returnTo: string, origin: string): Promise<Bytes> {
    const { settings, pages } = this.#settings
    const again = `${PATH}?${new URLSearchParams({ return_to: returnTo }).toString()}`
    const links = [
      { href: again, text: `Try again with ${settings.name}` },
      { href: '/dashboard', text: 'Sign in another way' },
    ]
    return {
      status,
      headers: { ...pageHeaders('none'), 'content-type': HTML, 'set-cookie': [cookie('', 0, origin)] },
      body: Buffer.from(await pages.message({ title: 'You are not signed in', text, links })),
    }
  }
}
