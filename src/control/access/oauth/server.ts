// The grants of OAuth (RFC 6749, 7636), by @node-oauth/oauth2-server over our tables.
import OAuth2Server from '@node-oauth/oauth2-server'
import { fault } from '../../../http/fault.ts'
import type { Db } from '../../../store/db.ts'
import { findClient, type Client } from './clients.ts'
import type { AuthorizationRequest } from './contract.ts'
import { ACCESS_SECONDS, CODE_SECONDS, newToken, REFRESH_SECONDS, type Grant, type Grants, type NewGrant } from './grants.ts'
import { mayRedirect } from './redirects.ts'

/** Limits a token to reading. It is not in the metadata: clients ask for all scopes that they find there, and would get less. */
export const LOOK_SCOPE = 'cob:view'
/** Scopes that clients usually request. They have no effect, but a client that gets fewer scopes than it requested may fail. */
const HABITUAL = ['openid', 'email', 'profile', 'offline_access']
const SCOPES = [LOOK_SCOPE, ...HABITUAL]

/** A grant in the form in which the library passes it on. `by`: the code or refresh token of the request. */
type Held = Grant & { by: string; wanted?: undefined }
type Asking = { wanted: Omit<NewGrant, 'clientId' | 'scope'> }

const clientOf = (client: Client): OAuth2Server.Client => ({
  id: client.id,
  grants: ['authorization_code', 'refresh_token'],
  redirectUris: client.redirectUris,
  client,
})

/** Checks that the requested token is for this service only (RFC 8707). @throws 400 */
export function assertResource(resource: AuthorizationRequest['resource'], origin: string): void {
  for (const one of [resource ?? []].flat())
    if (!URL.canParse(one) || new URL(one).origin !== new URL(origin).origin) throw fault.field('resource', `must be an address of this service, ${origin}`)
}

export interface OAuthServer {
  /** Checks the client of a request, and that the named address is its own. @throws 400 */
  assertClient(request: Pick<AuthorizationRequest, 'client_id' | 'redirect_uri'>): Promise<Client>
  /** The address for the web browser, with a code or with an error. */
  authorize(request: AuthorizationRequest, allow: boolean, wanted: Asking['wanted']): Promise<string>
  /** The answer to a token request, in the form of its RFC. */
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
    // saveToken revokes the code.
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
      // Other fields become part of the answer, so the code must be left out.
      const { accessToken, accessTokenExpiresAt, refreshToken, refreshTokenExpiresAt, scope } = token
      return {
        accessToken,
        accessTokenExpiresAt,
        refreshToken,
        refreshTokenExpiresAt,
        scope,
        client,
        user,
        // The official command line reads this field.
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
    // All clients are public. They prove themselves by the PKCE verifier, or by the refresh token.
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
        // Errors of the protocol reach the client by the redirect.
        if (!(error instanceof OAuth2Server.OAuthError) || error instanceof OAuth2Server.ServerError || response.get('location') === undefined) throw error
      })
      return response.get('location') as string
    },
    async token(headers, form) {
      const response = new OAuth2Server.Response()
      await server.token(new OAuth2Server.Request({ method: 'POST', headers, query: {}, body: form }), response).catch(async (error: unknown) => {
        if (!(error instanceof OAuth2Server.OAuthError) || error instanceof OAuth2Server.ServerError) throw error
        // Each attempt uses the code up, so that nobody can guess its verifier.
        if (form['code'] !== undefined) await grants.useUp(form['code'])
      })
      return { status: response.status ?? 200, headers: response.headers as Record<string, string>, body: response.body as object }
    },
  }
}
