// Signing in with an identity provider: to it, back from it, and what a person reads when that fails.
import type { OidcSettings } from '../../../base/oidc-settings.ts'
import type { Sealer } from '../../../base/sealed.ts'
import { cookieNamed, OWN_COOKIES } from '../../../http/cookies.ts'
import { fault } from '../../../http/fault.ts'
import type { Bytes, Handlers } from '../../../http/route.ts'
import { callerOf, type Person } from '../members/person.ts'
import { HTML, pageHeaders, type Pages } from '../../service/dashboard/pages.ts'
import type { signIn as contract } from './contract.ts'
import { setCookie, setSession } from './cookie.ts'
import type { Identity, OidcClient, Pending } from './oidc.ts'
import { problemOf, SignInRefused } from './oidc.ts'
import type { WebSessions } from './web-sessions.ts'

/** There is one provider. */
export const PROVIDER = 'default'

const PATH = `/sign-in/oidc/${PROVIDER}`
/** Holds what a sign-in needs that is under way, encrypted: any replica may take the person back, and no other web browser can. */
const COOKIE = `${OWN_COOKIES}oidc`
const PENDING_SECONDS = 600

export interface OidcSignInSettings {
  settings: OidcSettings
  client: OidcClient
  sealer: Sealer
  sessions: WebSessions
  pages: Pick<Pages, 'message'>
  /** The person, or why they do not come in. */
  admit: (identity: Identity) => Promise<Person | { reason: string }>
  countTry: (address: string) => void
}

/** A path of our own pages: never another site, however it is written. */
export function ownPath(given: string, origin: string): string | undefined {
  const url = URL.canParse(given, origin) ? new URL(given, origin) : undefined
  if (!url || url.origin !== new URL(origin).origin || !given.startsWith('/') || /^\/[/\\]/.test(given)) return undefined
  return /^\/(dashboard|authorize)(\/|$)/.test(url.pathname) ? url.pathname + url.search + url.hash : undefined
}

/** Sends the web browser on. */
const redirect = (location: string, cookies: string[]): Bytes => ({
  body: Buffer.alloc(0),
  status: 303,
  headers: { location, 'cache-control': 'no-store', 'referrer-policy': 'no-referrer', 'set-cookie': cookies },
})

type OidcHandlers = Pick<Handlers<typeof contract>, 'beginOidcSignIn' | 'finishOidcSignIn'>

/** Without a provider. */
export const noOidcHandlers: OidcHandlers = {
  beginOidcSignIn: ({ params }) => {
    throw fault.notFound('identity provider', params.provider)
  },
  finishOidcSignIn: ({ params }) => {
    throw fault.notFound('identity provider', params.provider)
  },
}

export function oidcHandlers({ settings, client, sealer, sessions, pages, admit, countTry }: OidcSignInSettings): OidcHandlers {
  const assertProvider = (provider: string) => {
    if (provider !== PROVIDER) throw fault.notFound('identity provider', provider)
  }
  const cookie = (value: string, maxAgeSeconds: number, origin: string) => setCookie(COOKIE, value, { maxAgeSeconds, origin, path: PATH, sameSite: 'Lax' })

  const failed = async (status: number, text: string, returnTo: string, origin: string): Promise<Bytes> => {
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

  function pendingOf(value: string | undefined): (Pending & { returnTo: string }) | undefined {
    if (value === undefined) return undefined
    try {
      const { until, ...pending } = JSON.parse(sealer.open(Buffer.from(value, 'base64url'), COOKIE)) as Pending & { returnTo: string; until: number }
      return until > Date.now() ? pending : undefined
    } catch {
      return undefined // not made by us
    }
  }

  return {
    async beginOidcSignIn({ params, query, origin, address, log }) {
      assertProvider(params.provider)
      countTry(address)
      const returnTo = ownPath(query.return_to, origin)
      if (returnTo === undefined) throw fault.field('return_to', 'must be a path of this service below /dashboard, or /authorize')
      try {
        const { url, pending } = await client.begin(`${origin}${PATH}/callback`)
        const value = sealer.seal(JSON.stringify({ ...pending, returnTo, until: Date.now() + PENDING_SECONDS * 1000 }), COOKIE).toString('base64url')
        return redirect(url, [cookie(value, PENDING_SECONDS, origin)])
      } catch (err) {
        log.warn(problemOf(err), 'the identity provider cannot be used')
        return failed(502, 'The identity provider does not answer, or not as it should. The log of this service says why.', returnTo, origin)
      }
    },
    async finishOidcSignIn({ params, query, headers, origin, address, log, identified }) {
      assertProvider(params.provider)
      countTry(address)
      const pending = pendingOf(cookieNamed(headers, COOKIE))
      if (!pending) return failed(400, 'This sign-in was begun in another browser, or too long ago.', '/dashboard', origin)
      const { returnTo } = pending
      const url = new URL(`${origin}${PATH}/callback`)
      for (const [name, value] of Object.entries(query)) if (typeof value === 'string') url.searchParams.set(name, value)
      let identity: Identity
      try {
        identity = await client.finish(url, pending)
      } catch (err) {
        if (err instanceof SignInRefused) return failed(403, err.message, returnTo, origin)
        log.warn(problemOf(err), 'a sign-in with the identity provider failed')
        return failed(502, 'The answer of the identity provider could not be used. The log of this service says why.', returnTo, origin)
      }
      const person = await admit(identity)
      if ('reason' in person) return failed(403, person.reason, returnTo, origin)
      const { token, maxAgeSeconds } = await sessions.begin({ person: person.id })
      identified({ by: callerOf({ ...person, via: { kind: 'dashboard', id: person.id } }) })
      return redirect(returnTo, [setSession(token, maxAgeSeconds, origin), cookie('', 0, origin)])
    },
  }
}
