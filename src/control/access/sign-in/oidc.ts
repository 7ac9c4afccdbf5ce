// The client of an identity provider (OpenID Connect): code flow with PKCE, state and nonce, by openid-client.
import * as oidc from 'openid-client'
import type { OidcSettings } from '../../../base/oidc-settings.ts'

/** Longest time for one request to the provider, in seconds. */
const TIMEOUT_SECONDS = 10
/** How long the provider's metadata is cached. The library reads its keys more often. */
const REMEMBER_MS = 600_000

/** The state that the web browser keeps during a sign-in. */
export interface Pending {
  state: string
  nonce: string
  verifier: string
}

/** A person's identity as the provider gives it. */
export interface Identity {
  issuer: string
  subject: string
  email: string | undefined
  isEmailVerified: boolean
  name: string | undefined
  /** The values of the claim with roles. */
  roles: string[]
}

export interface OidcClient {
  /** The address to which the web browser is sent. @throws when the provider does not answer */
  begin(redirectUri: string): Promise<{ url: string; pending: Pending }>
  /** The identity of the person who came back to `url`. @throws {@link SignInRefused}, and errors of the provider */
  finish(url: URL, pending: Pending): Promise<Identity>
}

/** The provider or the person has refused: this is not our error. The message is for the person. */
export class SignInRefused extends Error {}

export function makeOidcClient(settings: OidcSettings): OidcClient {
  let known: { config: Promise<oidc.Configuration>; until: number } | undefined

  function configuration(): Promise<oidc.Configuration> {
    if (known && known.until > performance.now()) return known.config
    const { issuer, clientId, clientSecret } = settings
    const config = oidc.discovery(new URL(issuer), clientId, clientSecret, clientSecret === undefined ? oidc.None() : undefined, {
      timeout: TIMEOUT_SECONDS,
      // By default the library does not check signatures of tokens that came directly from the provider. Check them: a server that can answer in its place must
      // not decide who signs in.
      execute: [oidc.enableNonRepudiationChecks, ...(issuer.startsWith('http:') ? [oidc.allowInsecureRequests] : [])],
    })
    const mine = { config, until: performance.now() + REMEMBER_MS }
    known = mine
    // After a failure, the next sign-in tries again.
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
          // The provider's keys may have changed: without this, the library would read them again only after a while.
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

/** The part of an error that may be logged: the library's errors also contain the provider's answer, with tokens. */
export function problemOf(error: unknown): { problem: string; code: string | undefined; because: string | undefined } {
  const { message, code, cause } = error as { message?: string; code?: string; cause?: unknown }
  return { problem: message ?? 'unknown', code, because: cause instanceof Error ? cause.message : undefined }
}

/** A claim by its name, also nested: `realm_access.roles`. */
export function claimOf(claims: Record<string, unknown>, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name]
  let value: unknown = claims
  for (const part of name.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined
    value = (value as Record<string, unknown>)[part]
  }
  return value
}
