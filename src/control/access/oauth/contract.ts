// What the consent page asks the service, as routes of the API. The endpoints of OAuth itself are in endpoints.ts: their forms are those of the RFCs.
import { z } from 'zod'
import { json, none, page, pagingQuery, route } from '../../../http/route.ts'
import { Time } from '../../apps/apps/contract.ts'

const group = 'Sign-in'

const Text = z.string().max(2_000)

/** The parameters of an authorization request (RFC 6749, 7636, 8707). Clients add others, which say nothing to us. */
export const AuthorizationRequest = z.object({
  client_id: Text.min(1),
  redirect_uri: Text.min(1),
  response_type: Text.default(''),
  state: Text.optional(),
  scope: Text.optional(),
  code_challenge: Text.optional(),
  code_challenge_method: Text.optional(),
  resource: z.union([Text, z.array(Text).max(10)]).optional(),
})
export type AuthorizationRequest = z.output<typeof AuthorizationRequest>

const AllowedProgram = z.object({
  id: z.string(),
  /** What the program calls itself. */
  name: z.string(),
  /** The only project that it may use; null: all that the caller may. */
  project_id: z.string().nullable(),
  looks_only: z.boolean(),
  created_at: Time,
  /** When its access ends unless it is used before. */
  expires_at: Time,
})
export type AllowedProgram = z.output<typeof AllowedProgram>

export const oauth = {
  getAuthorizationRequest: route({
    method: 'GET',
    path: '/authorize/request',
    id: 'getAuthorizationRequest',
    group,
    summary: 'Tell which client asks for access, and where its code goes to',
    access: 'public',
    query: AuthorizationRequest,
    reply: json(z.object({ client: z.object({ name: z.string() }), goes_to: z.string(), looks_only: z.boolean() })),
    faults: ['too_many_requests', 'unavailable'],
  }),
  answerAuthorizationRequest: route({
    method: 'POST',
    path: '/authorize',
    id: 'answerAuthorizationRequest',
    // Who may look may also let a program look.
    right: 'view',
    group,
    summary: 'Allow or refuse a client access, for the consent page',
    body: z.strictObject({
      request: AuthorizationRequest,
      allow: z.boolean(),
      /** The only project that the client may use; absent or null: all that the caller may. */
      project_id: z.string().min(1).max(255).optional(),
      /** The client may only look. */
      looks_only: z.boolean().default(false),
    }),
    /** Where the page sends the web browser. */
    reply: json(z.object({ redirect_to: z.string() })),
    faults: ['forbidden', 'unavailable'],
  }),
  listAllowedPrograms: route({
    method: 'GET',
    path: '/oauth/grants',
    id: 'listAllowedPrograms',
    right: 'view',
    group,
    summary: 'List the programs that the caller has allowed access by OAuth, newest first',
    query: z.strictObject(pagingQuery),
    reply: page(AllowedProgram),
    faults: ['forbidden'],
  }),
  endAllowedProgram: route({
    method: 'DELETE',
    path: '/oauth/grants/{id}',
    id: 'endAllowedProgram',
    // Who may allow a program access may end that.
    right: 'view',
    group,
    summary: "End a program's access, its tokens and what it is just doing",
    params: z.strictObject({ id: z.string().min(1).max(255) }),
    reply: none(),
    faults: ['forbidden', 'not_found'],
  }),
}
