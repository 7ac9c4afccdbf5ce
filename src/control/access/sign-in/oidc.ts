// The client of an identity provider (OpenID Connect): code flow with PKCE, state and nonce, by openid-client.
import * as oidc from 'openid-client'
import type { OidcSettings } from '../../../base/oidc-settings.ts'

/** Longest time for one request to the provider, in seconds. */
const TIMEOUT_SECONDS = 10
/** How long what the provider says of itself is used. Its keys are looked up more often, by the library. */
const REMEMBER_MS = 600_000

/** What has to be kept in the web browser that begins a sign-in, until it comes back. */
export interface Pending {
  state: string
  nonce: string
  verifier: string
}

/** What the provider says of a person. */
export interface Identity {
  issuer: string
  subject: string
  email: string | undefined
  isEmailVerified: boolean
  name: string | undefined
  /** The values of the claim that says roles. */
  roles: string[]
}

export interface OidcClient {
  /** Where to send the web browser. @throws when the provider does not answer */
  begin(redirectUri: string): Promise<{ url: string; pending: Pending }>
  /** Who came back to `url`. @throws {@link SignInRefused}, and what went wrong with the provider */
  finish(url: URL, pending: Pending): Promise<Identity>
}

/** The provider or the person has refused: not an error of ours. The message is for the person. */
export class SignInRefused extends Error {}

export function makeOidcClient(settings: OidcSettings): OidcClient {
  let known: { config: Promise<oidc.Configuration>; until: number } | undefined

  function configuration(): Promise<oidc.Configuration> {
    if (known && known.until > performance.now()) return known.config
    const { issuer, clientId, clientSecret } = settings
    const config = oidc.discovery(new URL(issuer), clientId, clientSecret, clientSecret === undefined ? oidc.None() : undefined, {
      timeout: TIMEOUT_SECONDS,
      // The library does not check signatures of tokens that came from the provider itself. Who can answer in its place must not say who signs in.
      execute: [oidc.enableNonRepudiationChecks, ...(issuer.startsWith('http:') ? [oidc.allowInsecureRequests] : [])],
    })
    const mine = { config, until: performance.now() + REMEMBER_MS }
    known = mine
    // The next sign-in asks again.
    config.catch(() => known === mine && (known = undefined))
    return config
  }

  return {
    async begin(redirectUri) {
      const config = await configuration()
      const pending = { state: oidc.randomState(), nonce: oidc.randomNonce(), verifier: oidc.randomPKCECodeVerifier() }
      const url = oidc.buildAuthorizationUrl(config, {
        redirect_uri: redirectUri,
        scope: settings.scopes,
        state: pending.state,
        nonce: pending.nonce,
        code_challenge: await oidc.calculatePKCECodeChallenge(pending.verifier),
        code_challenge_method: 'S256',
      })
      return { url: url.href, pending }
    },
    async finish(url, { state, nonce, verifier }) {
      const config = await configuration()
      const tokens = await oidc
        .authorizationCodeGrant(config, url, { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier, idTokenExpected: true })
        .catch((error: unknown) => {
          if (error instanceof oidc.AuthorizationResponseError) throw new SignInRefused(`The identity provider refused: ${error.error}.`, { cause: error })
          // Its keys may have changed: the library looks them up again only after a while.
          known = undefined
          throw error
        })
      const claims: Record<string, unknown> = { ...tokens.claims() }
      const { sub: subject, iss: issuer } = claims as { sub: string; iss: string }
      // Many providers put neither address nor groups into the token.
      const isMissing = claims.email === undefined || claimOf(claims, settings.roleClaim) === undefined
      if (isMissing && config.serverMetadata().userinfo_endpoint !== undefined) {
        const more = await oidc.fetchUserInfo(config, tokens.access_token, subject)
        for (const [name, value] of Object.entries(more)) claims[name] ??= value
      }
      const text = (name: string) => (typeof claims[name] === 'string' && claims[name] !== '' ? claims[name].slice(0, 320) : undefined)
      return {
        issuer,
        subject,
        email: text('email'),
        // Some providers send it as text.
        isEmailVerified: claims.email_verified === true || claims.email_verified === 'true' || (settings.trustsEmail && claims.email_verified === undefined),
        name: text('name') ?? text('preferred_username'),
        roles: [claimOf(claims, settings.roleClaim)].flat().filter((value) => typeof value === 'string'),
      }
    },
  }
}

/** What may be logged of an error: those of the library also hold what the provider has sent, with tokens. */
export function problemOf(error: unknown): { problem: string; code: string | undefined; because: string | undefined } {
  const { message, code, cause } = error as { message?: string; code?: string; cause?: unknown }
  return { problem: message ?? 'unknown', code, because: cause instanceof Error ? cause.message : undefined }
}

/** A claim by its name, or inside others: `realm_access.roles`. */
export function claimOf(claims: Record<string, unknown>, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name]
  let value: unknown = claims
  for (const part of name.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined
    value = (value as Record<string, unknown>)[part]
  }
  return value
}
