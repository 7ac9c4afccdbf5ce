// The endpoints of OAuth whose forms are defined by its RFCs: metadata (8414, 9728), registration (7591), tokens (6749), revocation (7009). Programs call them,
// also from pages of any origin: so these endpoints accept no cookie.
import type { FastifyReply } from 'fastify'
import * as z from 'zod'
import { readBody, STRANGER_BODY_MS } from '../../../http/body.ts'
import { checked, fault, Fault } from '../../../http/fault.ts'
import { register, type MountContext } from '../../../http/mount.ts'
import { none, route, type Route } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { registerClient } from './clients.ts'
import type { Grants } from './grants.ts'
import { redirectProblem } from './redirects.ts'
import { assertResource, type OAuthServer } from './server.ts'

const MAX_FORM = 16 * 1024
const MAX_REGISTRATION = 32 * 1024
const NO_STORE = { 'cache-control': 'no-store', pragma: 'no-cache' }

/** Attempts of one address within a minute. A client asks for a token once an hour. */
export const TRIES = { register: 20, token: 120 }

export interface EndpointsSettings {
  db: Db
  server: OAuthServer
  grants: Grants
  countRegistration: (address: string) => void
  countToken: (address: string) => void
}

const endpoint = (method: 'GET' | 'POST', path: string, id: string): Route =>
  route({
    method,
    path,
    id,
    group: 'OAuth',
    summary: '',
    access: 'public',
    anyOrigin: true,
    reads: true,
    query: z.looseObject({}),
    reply: none(),
  }) as unknown as Route

/** The fields of a registration. Others are ignored (RFC 7591, 2). */
const Registration = z.object({
  client_name: z.string().max(200).optional(),
  redirect_uris: z.array(z.string()).min(1).max(10),
  grant_types: z.array(z.string().max(100)).max(10).optional(),
  response_types: z.array(z.string().max(100)).max(10).optional(),
})

/** Control characters and those that change the direction of text. The name is shown to the person who decides. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/** The parameters of a form. Each may be given once (RFC 6749, 3.2). @throws 400 */
function formOf(body: Buffer, contentType: string | undefined): Record<string, string> {
  if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(contentType ?? '')) throw fault.field('content-type', 'must be application/x-www-form-urlencoded')
  const fields: Record<string, string> = Object.create(null) as Record<string, string>
  for (const [name, value] of new URLSearchParams(body.toString())) {
    if (name in fields && name !== 'resource') throw fault.field(name, 'is given twice')
    fields[name] = value
  }
  return fields
}

/** Puts our errors into the form of the RFCs; other errors stay unchanged. */
async function inOAuthForm(reply: FastifyReply, code: string, work: () => Promise<unknown>): Promise<unknown> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Fault) || error.status >= 500) throw error
    return reply
      .code(error.status)
      .headers({ ...error.headers, ...NO_STORE })
      .type('application/json')
      .send(JSON.stringify({ error: error.status === 429 ? 'temporarily_unavailable' : code, error_description: error.message }))
  }
}

export function mountOAuthEndpoints(context: MountContext, { db, server, grants, countRegistration, countToken }: EndpointsSettings): void {
  const origin = (request: Parameters<MountContext['origin']>[0]) => context.origin(request, undefined)

  for (const below of ['', '/mcp']) {
    register(context, endpoint('GET', `/.well-known/oauth-protected-resource${below}`, 'oauthResourceMetadata'), async (request, reply) =>
      reply.send({
        resource: origin(request) + below,
        authorization_servers: [origin(request)],
        bearer_methods_supported: ['header'],
        resource_name: 'Cob',
      }),
    )
    register(context, endpoint('GET', `/.well-known/oauth-authorization-server${below}`, 'oauthServerMetadata'), async (request, reply) => {
      const issuer = origin(request)
      return reply.send({
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        registration_endpoint: `${issuer}/register`,
        revocation_endpoint: `${issuer}/revoke`,
        scopes_supported: ['offline_access'],
        response_types_supported: ['code'],
        response_modes_supported: ['query'],
        grant_types_supported: ['authorization_code', 'refresh_token'],
        token_endpoint_auth_methods_supported: ['none'],
        revocation_endpoint_auth_methods_supported: ['none'],
        code_challenge_methods_supported: ['S256'],
      })
    })
  }

  register(context, endpoint('POST', '/register', 'oauthRegister'), async (request, reply, signal) =>
    inOAuthForm(reply, 'invalid_client_metadata', async () => {
      countRegistration(context.address(request))
      const body = await readBody(request.raw, MAX_REGISTRATION, signal, STRANGER_BODY_MS)
      const { data, problems } = checked(Registration, parsed(body, request.headers['content-type']))
      if (!data) throw fault.invalid(problems)
      for (const [index, uri] of data.redirect_uris.entries()) {
        const problem = redirectProblem(uri)
        if (problem !== undefined)
          return reply
            .code(400)
            .headers(NO_STORE)
            .type('application/json')
            .send(JSON.stringify({ error: 'invalid_redirect_uri', error_description: `redirect_uris.${index}: ${problem}` }))
      }
      if (data.grant_types && !data.grant_types.includes('authorization_code')) throw fault.field('grant_types', 'must contain authorization_code')
      if (data.response_types && !data.response_types.includes('code')) throw fault.field('response_types', 'must contain code')
      const name = (data.client_name ?? '').replaceAll(UNPRINTABLE, ' ').trim().slice(0, 100) || 'a program without a name'
      const client = await registerClient(db, name, data.redirect_uris)
      return reply
        .code(201)
        .headers(NO_STORE)
        .send({
          client_id: client.id,
          client_id_issued_at: Math.floor(client.createdAt.getTime() / 1000),
          client_name: client.name,
          redirect_uris: client.redirectUris,
          grant_types: ['authorization_code', 'refresh_token'],
          response_types: ['code'],
          token_endpoint_auth_method: 'none',
        })
    }),
  )

  register(context, endpoint('POST', '/token', 'oauthToken'), async (request, reply, signal) =>
    inOAuthForm(reply, 'invalid_request', async () => {
      countToken(context.address(request))
      const body = await readBody(request.raw, MAX_FORM, signal, STRANGER_BODY_MS)
      const form = formOf(body, request.headers['content-type'])
      assertResource(form.resource, origin(request))
      const headers = { 'content-type': 'application/x-www-form-urlencoded', 'content-length': String(body.length) }
      const answer = await server.token(headers, form)
      return reply
        .code(answer.status)
        .headers({ ...answer.headers, ...NO_STORE })
        .send(answer.body)
    }),
  )

  register(context, endpoint('POST', '/revoke', 'oauthRevoke'), async (request, reply, signal) =>
    inOAuthForm(reply, 'invalid_request', async () => {
      countToken(context.address(request))
      const { token, client_id: client } = formOf(await readBody(request.raw, MAX_FORM, signal, STRANGER_BODY_MS), request.headers['content-type'])
      if (!token) throw fault.field('token', 'is required')
      // An unknown token is answered in the same way (RFC 7009, 2.2).
      await grants.revoke(token, client)
      return reply.code(200).headers(NO_STORE).send({})
    }),
  )
}

function parsed(body: Buffer, contentType: string | undefined): unknown {
  if (!/^application\/json\s*(;|$)/i.test(contentType ?? '')) throw fault.field('content-type', 'must be application/json')
  try {
    return JSON.parse(body.toString())
  } catch {
    throw fault.field('body', 'is not valid JSON')
  }
}
