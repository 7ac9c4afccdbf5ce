// The calls of the consent page, as routes of the API. The endpoints of OAuth itself are in endpoints.ts: the RFCs define their forms.
import * as z from 'zod'
import { json, none, page, pagingQuery, route } from '../../../http/route.ts'
import { Time } from '../../apps/apps/contract.ts'

const group = 'Sign-in'

const Text = z.string().max(2_000)

/** The parameters of an authorization request (RFC 6749, 7636, 8707). Others are ignored. */
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

/** What the page shows to a person: the client, and where its code is sent. */
const ShownRequest = z.object({ client: z.object({ name: z.string() }), goes_to: z.string(), looks_only: z.boolean() })
export type ShownRequest = z.output<typeof ShownRequest>

const Answer = z.strictObject({
  request: AuthorizationRequest,
  allow: z.boolean(),
  /** The only project that the client may use; absent or null: all projects of the caller. */
  project_id: z.string().min(1).max(255).optional(),
  /** The client may only read. */
  looks_only: z.boolean().default(false),
})
export type Answer = z.output<typeof Answer>

const AllowedProgram = z.object({
  id: z.string(),
  /** The name that the program gives itself. */
  name: z.string(),
  /** The only project that it may use; null: all projects of the caller. */
  project_id: z.string().nullable(),
  looks_only: z.boolean(),
  created_at: Time,
  /** When its access expires if it is not used before. */
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
    reply: json(ShownRequest),
    faults: ['too_many_requests', 'unavailable'],
  }),
  answerAuthorizationRequest: route({
    method: 'POST',
    path: '/authorize',
    id: 'answerAuthorizationRequest',
    // A caller who may read may also let a program read.
    right: 'view',
    group,
    summary: 'Allow or refuse a client access, for the consent page',
    body: Answer,
    /** The address to which the page sends the web browser. */
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
    // A caller who may allow a program access may also end that.
    right: 'view',
    group,
    summary: "End a program's access, its tokens and what it is just doing",
    params: z.strictObject({ id: z.string().min(1).max(255) }),
    reply: none(),
    faults: ['forbidden', 'not_found'],
  }),
}
