// Calls by which people sign in, and the description of a caller.
import * as z from 'zod'
import { bytes, json, onlyHeaders, ROLES, route } from '../../../http/route.ts'

const group = 'Sign-in'

const Role = z.enum(ROLES)

const Options = z.object({
  /** API keys are accepted. */
  key: z.boolean(),
  /** Identity providers, for `/sign-in/oidc/{id}`. */
  providers: z.array(z.object({ id: z.string(), name: z.string() })),
})
export type Options = z.output<typeof Options>

const Me = z.object({
  principal: z.object({ type: z.enum(['api_key', 'user']), id: z.string(), name: z.string().nullable(), email: z.string().nullable() }),
  organization: z.object({ id: z.string() }),
  /** In all projects; null: only in the projects of the list. */
  role: Role.nullable(),
  /** The active projects that the caller may name in X-Kernel-Project-Id, oldest first; at most 1000. */
  projects: z.array(z.object({ id: z.string(), name: z.string(), role: Role })),
})
export type Me = z.output<typeof Me>

export const signIn = {
  getSignInOptions: route({
    method: 'GET',
    path: '/sign-in/options',
    id: 'getSignInOptions',
    group,
    summary: 'List the ways to sign in',
    access: 'public',
    reply: json(Options),
  }),
  signInWithKey: route({
    method: 'POST',
    path: '/sign-in/key',
    id: 'signInWithKey',
    group,
    summary: 'Sign a web browser in with an API key; the answer sets a cookie',
    access: 'public',
    body: z.strictObject({ api_key: z.string().min(1).max(512) }),
    maxBodyBytes: 4096,
    reply: onlyHeaders(),
    faults: ['unauthorized', 'forbidden', 'too_many_requests', 'unavailable'],
  }),
  beginOidcSignIn: route({
    method: 'GET',
    path: '/sign-in/oidc/{provider}',
    id: 'beginOidcSignIn',
    group,
    summary: 'Send a web browser to an identity provider',
    access: 'public',
    params: z.strictObject({ provider: z.string().min(1).max(64) }),
    query: z.strictObject({
      /** A path of this service to return to: below /dashboard, or /authorize. */
      return_to: z.string().max(2000).default('/dashboard'),
    }),
    reply: bytes('text/html; charset=utf-8', { others: { 303: { description: 'To the identity provider.', hasBody: false } } }),
    faults: ['not_found', 'too_many_requests', 'bad_gateway'],
  }),
  finishOidcSignIn: route({
    method: 'GET',
    path: '/sign-in/oidc/{provider}/callback',
    id: 'finishOidcSignIn',
    group,
    summary: 'Take a web browser back from an identity provider, and set the cookie',
    access: 'public',
    params: z.strictObject({ provider: z.string().min(1).max(64) }),
    /** Providers add their own parameters. */
    query: z.looseObject({}),
    reply: bytes('text/html; charset=utf-8', { others: { 303: { description: 'Signed in.', hasBody: false } } }),
    faults: ['not_found', 'too_many_requests', 'unavailable'],
  }),
  signOut: route({
    method: 'POST',
    path: '/sign-out',
    id: 'signOut',
    group,
    summary: 'End the sign-in of this web browser',
    access: 'public',
    reply: onlyHeaders(),
    faults: ['unavailable'],
  }),
  getMe: route({
    method: 'GET',
    path: '/me',
    id: 'getMe',
    group,
    summary: 'Tell who the caller is, and which projects it may use',
    reply: json(Me),
    faults: ['forbidden'],
  }),
}
