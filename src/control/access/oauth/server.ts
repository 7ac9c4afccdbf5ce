// The grants of OAuth (RFC 6749, 7636), by @node-oauth/oauth2-server over our tables.
import OAuth2Server from '@node-oauth/oauth2-server'
import { fault } from '../../../http/fault.ts'
import type { Db } from '../../../store/db.ts'
import { findClient, type Client } from './clients.ts'
import type { AuthorizationRequest } from './contract.ts'
import { ACCESS_SECONDS, CODE_SECONDS, newToken, REFRESH_SECONDS, type Grant, type Grants, type NewGrant } from './grants.ts'
import { mayRedirect } from './redirects.ts'

/** Limits to looking. It is in no metadata: clients ask for all that they find there, and would get less. */
export const LOOK_SCOPE = 'cob:view'
/** What clients ask for out of habit. It changes nothing, but a client that gets less than it has asked for may stop. */
const HABITUAL = ['openid', 'email', 'profile', 'offline_access']
const SCOPES = [LOOK_SCOPE, ...HABITUAL]

/** Ours, in the shape that the library passes on. `by`: the code or refresh token of the request. */
type Held = Grant & { by: string; wanted?: undefined }
type Asking = { wanted: Omit<NewGrant, 'clientId' | 'scope'> }

const clientOf = (client: Client): OAuth2Server.Client => ({
  id: client.id,
  grants: ['authorization_code', 'refresh_token'],
  redirectUris: client.redirectUris,
  client,
})

export interface OAuthServer {
  /** The client of a request, and whether the address that it names is its own. @throws 400 */
  assertClient(request: Pick<AuthorizationRequest, 'client_id' | 'redirect_uri'>): Promise<Client>
  /** Where the web browser goes with a code, or with an error. */
  authorize(request: AuthorizationRequest, allow: boolean, wanted: Asking['wanted']): Promise<string>
  /** The answer to a token request, as its RFC has it. */
  token(headers: Record<string, string>, form: Record<string, string>): Promise<{ status: number; headers: Record<string, string>; body: object }>
}

export function makeOAuthServer(db: Db, grants: Grants, organization: string): OAuthServer {
  const model: OAuth2Server.AuthorizationCodeModel & OAuth2Server.RefreshTokenModel = {
    async getClient(id) {
      const client = await findClient(db, id)
      return client && clientOf(client)
    },
    validateRedirectUri: async (uri, client) => mayRedirect(client.redirectUris as string[], uri),
    generateAuthorizationCode: async () => newToken('code'),
    generateAccessToken: async () => newToken('access'),
    generateRefreshToken: async () => newToken('refresh'),
    validateScope: async (_user, _client, scope = []) => scope.filter((one) => SCOPES.includes(one)),
    async saveAuthorizationCode(code, client, user) {
      const { wanted } = user as Asking
      const { authorizationCode, redirectUri, expiresAt, scope = [], codeChallenge } = code
      if (!codeChallenge) throw new OAuth2Server.InvalidRequestError('Missing parameter: `code_challenge`')
      const looksOnly = wanted.looksOnly || scope.includes(LOOK_SCOPE)
      await grants.begin({ ...wanted, looksOnly, clientId: client.id, scope }, { code: authorizationCode, redirectUri, challenge: codeChallenge, expiresAt })
      return { ...code, client, user }
    },
    async getAuthorizationCode(code) {
      const found = await grants.find('code', code)
      const client = found && (await findClient(db, found.grant.clientId))
      if (!client) return undefined
      return {
        authorizationCode: code,
        expiresAt: found.expiresAt,
        redirectUri: found.redirectUri!,
        scope: found.grant.scope,
        codeChallenge: found.challenge!,
        codeChallengeMethod: 'S256',
        client: clientOf(client),
        user: { ...found.grant, by: code } satisfies Held,
      }
    },
    // saveToken does it.
    revokeAuthorizationCode: async () => true,
    async getRefreshToken(refreshToken) {
      const found = await grants.find('refresh', refreshToken)
      const client = found && (await findClient(db, found.grant.clientId))
      const user = found && ({ ...found.grant, by: refreshToken } satisfies Held)
      return client && { refreshToken, refreshTokenExpiresAt: found.expiresAt, scope: found.grant.scope, client: clientOf(client), user: user! }
    },
    revokeToken: async () => true,
    async saveToken(token, client, user) {
      const grant = user as Held
      const isFirst = await grants.exchange(grant, grant.by, {
        access: token.accessToken,
        accessExpiresAt: token.accessTokenExpiresAt!,
        refresh: token.refreshToken!,
        refreshExpiresAt: token.refreshTokenExpiresAt!,
      })
      if (!isFirst) throw new OAuth2Server.InvalidGrantError('Invalid grant: it was used, or has ended')
      // What is here besides is a part of the answer: not the code.
      const { accessToken, accessTokenExpiresAt, refreshToken, refreshTokenExpiresAt, scope } = token
      return {
        accessToken,
        accessTokenExpiresAt,
        refreshToken,
        refreshTokenExpiresAt,
        scope,
        client,
        user,
        // What the official command line reads.
        org_id: organization,
        access_scope: grant.project === null ? 'organization' : 'project',
        ...(grant.project !== null && { project_id: grant.project }),
      }
    },
    getAccessToken: async () => undefined,
  }
  const server = new OAuth2Server({
    model,
    authorizationCodeLifetime: CODE_SECONDS,
    accessTokenLifetime: ACCESS_SECONDS,
    refreshTokenLifetime: REFRESH_SECONDS,
    allowEmptyState: true,
    allowExtendedTokenAttributes: true,
    // All clients are public. What a client proves is the PKCE verifier, or the refresh token.
    requireClientAuthentication: { authorization_code: false, refresh_token: false },
  })

  return {
    async assertClient({ client_id: id, redirect_uri: uri }) {
      const client = await findClient(db, id)
      if (!client) throw fault.field('client_id', 'is not known here: the program has to register again')
      if (!mayRedirect(client.redirectUris, uri)) throw fault.field('redirect_uri', 'is not one that the client has registered')
      return client
    },
    async authorize(request, allow, wanted) {
      const { resource: _, ...query } = request
      const response = new OAuth2Server.Response()
      const asked = new OAuth2Server.Request({
        method: 'GET',
        headers: {},
        query: {
          ...Object.fromEntries(Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))),
          ...(!allow && { allowed: 'false' }),
        },
      })
      const user: Asking = { wanted }
      await server.authorize(asked, response, { authenticateHandler: { handle: () => user } }).catch((error: unknown) => {
        // The client is told by the redirection.
        if (!(error instanceof OAuth2Server.OAuthError) || error instanceof OAuth2Server.ServerError || response.get('location') === undefined) throw error
      })
      return response.get('location') as string
    },
    async token(headers, form) {
      const response = new OAuth2Server.Response()
      await server.token(new OAuth2Server.Request({ method: 'POST', headers, query: {}, body: form }), response).catch(async (error: unknown) => {
        if (!(error instanceof OAuth2Server.OAuthError) || error instanceof OAuth2Server.ServerError) throw error
        // A code is for one try: nobody guesses its verifier.
        if (form['code'] !== undefined) await grants.useUp(form['code'])
      })
      return { status: response.status ?? 200, headers: response.headers as Record<string, string>, body: response.body as object }
    },
  }
}
