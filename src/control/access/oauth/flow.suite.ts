// For tests: a client of the authorization server, and the person who answers at the consent page.
import { createHash, randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import type { FastCloud } from '../../../../test/support/fast-cloud.ts'
import type { SignedIn } from '../../../../test/support/people.ts'
import { form } from '../../../../test/support/visitor.ts'

/** The default client id of the official command line. */
export const CLI = 'hmFrJn9hKDV2N02M'
export const BACK = 'http://localhost:54321/callback'

export interface Tokens {
  access_token: string
  refresh_token: string
  expires_in: number
  scope?: string
  error?: string
  [field: string]: unknown
}

/** The steps to a token, at the current cloud. */
export function oauthFlow(cloudOf: () => Pick<FastCloud, 'url'>) {
  const pkce = () => {
    const verifier = randomBytes(32).toString('base64url')
    return { verifier, challenge: createHash('sha256').update(verifier).digest('base64url') }
  }
  const requestFor = (challenge: string, more: object = {}) => ({
    client_id: CLI,
    redirect_uri: BACK,
    response_type: 'code',
    state: 'st',
    scope: 'openid email',
    code_challenge: challenge,
    code_challenge_method: 'S256',
    ...more,
  })
  /** Sends the answer of the page, and returns where the web browser is sent. */
  async function answer(by: Pick<SignedIn, 'send'>, request: object, more: object = {}): Promise<{ status: number; to: URL | undefined; message: string }> {
    const response = await by.send('POST', '/authorize', { request, allow: true, ...more })
    const body = (await response.json()) as { redirect_to?: string; message?: string }
    return { status: response.status, to: body.redirect_to === undefined ? undefined : new URL(body.redirect_to), message: body.message ?? '' }
  }
  const tokenCall = async (fields: Record<string, string>, path = '/token') => {
    const response = await fetch(cloudOf().url + path, form(fields))
    return { status: response.status, headers: response.headers, body: (await response.json()) as Tokens }
  }
  const exchange = (code: string, verifier: string, more: Record<string, string> = {}) =>
    tokenCall({ grant_type: 'authorization_code', code, redirect_uri: BACK, client_id: CLI, code_verifier: verifier, ...more })
  const refresh = (token: string, more: Record<string, string> = {}) =>
    tokenCall({ grant_type: 'refresh_token', refresh_token: token, client_id: CLI, ...more })

  async function codeFor(by: Pick<SignedIn, 'send'>, more: object = {}, request: object = {}): Promise<{ code: string; verifier: string }> {
    const { verifier, challenge } = pkce()
    const { to } = await answer(by, requestFor(challenge, request), more)
    return { code: to!.searchParams.get('code')!, verifier }
  }
  async function tokensFor(by: Pick<SignedIn, 'send'>, more: object = {}, request: object = {}): Promise<Tokens> {
    const { code, verifier } = await codeFor(by, more, request)
    const { status, body } = await exchange(code, verifier)
    expect(status).toBe(200)
    return body
  }
  const withToken = (token: string, path: string, init: RequestInit = {}) =>
    fetch(cloudOf().url + path, { ...init, headers: { authorization: `Bearer ${token}`, ...(init.headers as Record<string, string>) } })
  return { pkce, requestFor, answer, tokenCall, exchange, refresh, codeFor, tokensFor, withToken }
}
