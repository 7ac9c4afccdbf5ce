// An identity provider for tests: oidc-provider from npm with the forms of its development mode. Its people need no password.
import { createServer, type RequestListener } from 'node:http'
import Provider from 'oidc-provider'
import { serveSockets } from './upstreams.ts'

export interface IdentityProvider extends AsyncDisposable {
  issuer: string
  /** The settings of a service on this port of 127.0.0.1. */
  settings: Record<string, string>
  /** The claims about each person, by the name that the person types. Tests may change them. */
  people: Record<string, Record<string, unknown>>
  /** Replaces the provider's answer to a request. */
  meddle: ((path: string) => RequestListener | undefined) | undefined
}

const SECRET = 'secret-of-the-client'

/** `port` is the port of the service at which its people sign in. */
export async function startIdentityProvider(port: number): Promise<IdentityProvider> {
  let answer: RequestListener = () => {}
  const server = createServer((request, response) => (idp.meddle?.(request.url!) ?? answer)(request, response))
  const { port: own, ...rest } = await serveSockets(server)
  const issuer = `http://127.0.0.1:${own}`
  const people: IdentityProvider['people'] = {}
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'cob',
        client_secret: SECRET,
        redirect_uris: [`http://127.0.0.1:${port}/sign-in/oidc/default/callback`],
        grant_types: ['authorization_code'],
        response_types: ['code'],
      },
    ],
    scopes: ['openid', 'groups'],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'], groups: ['groups'] },
    cookies: { keys: ['only for tests'] },
    pkce: { required: () => true },
    findAccount: (_context, id) => (people[id] ? { accountId: id, claims: () => ({ sub: id, ...people[id] }) } : undefined),
  })
  const callback = provider.callback()
  answer = (request, response) => void callback(request, response)
  const idp: IdentityProvider = {
    issuer,
    people,
    meddle: undefined,
    settings: {
      COB_PORT: String(port),
      COB_OIDC_ISSUER: issuer,
      COB_OIDC_ALLOW_HTTP: '1',
      COB_OIDC_CLIENT_ID: 'cob',
      COB_OIDC_CLIENT_SECRET: SECRET,
      COB_OIDC_NAME: 'Team login',
      COB_OIDC_SCOPES: 'openid email profile groups',
    },
    ...rest,
  }
  return idp
}
