// The contract of the Managed Auth group: connections keep profiles logged in at sites. A login is a flow, which a client or the hosted page drives.
import * as z from 'zod'
import { isName } from '../../../base/hosts.ts'
import { events, json, none, page, pagingQuery, route } from '../../../http/route.ts'
import { GivenTelemetry } from '../../sessions/telemetry/contract.ts'
import { Connection, FlowEvent, LoginBegun, TIMELINE_TYPES, TimelineItem } from './shown/contract.ts'

export * from './shown/contract.ts'

const group = 'Managed Auth'

/** Default, least and most seconds between two health checks. */
export const CHECK_SECONDS = { usual: 3600, least: 300, most: 86_400 } as const

/** A host name, as callers write it: `https://` and a path are not part of it. Stored in ASCII and lower case. */
const Domain = z
  .string()
  .trim()
  .max(253)
  .transform((text) => (URL.canParse(`http://${text}`) && !/[/?#@\\:\s]/.test(text) ? new URL(`http://${text}`).hostname : text.toLowerCase()))
  .refine((host) => isName(host), 'must be a host name, without scheme, port or path')

/** A host on which values may be typed, with all names below it. A leading `www.` or `*.` has no effect. */
const AllowedDomain = z
  .string()
  .trim()
  .transform((text) => text.replace(/^(\*\.|www\.)/i, ''))
  .pipe(Domain)
const AllowedDomains = z
  .array(AllowedDomain)
  .max(100)
  .transform((hosts) => [...new Set(hosts)])

const LoginUrl = z
  .string()
  .trim()
  .max(2048)
  .refine((text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined
    return url !== undefined && /^https?:$/.test(url.protocol) && !url.username && !url.password
  }, 'must be an http or https URL without a user and password')

const CheckSeconds = z.int().min(CHECK_SECONDS.least).max(CHECK_SECONDS.most)

/** A stored credential by name; or an item of a provider, by its path or found by the domain. */
export const CredentialReference = z
  .strictObject({
    name: z.string().min(1).max(255).optional(),
    provider: z.string().min(1).max(255).optional(),
    path: z.string().min(1).max(1024).optional(),
    auto: z.boolean().optional(),
  })
  .superRefine(({ name, provider, path, auto }, context) => {
    const refuse = (field: string, message: string) => context.addIssue({ code: 'custom', path: [field], message })
    if (name === undefined && provider === undefined) return refuse('name', 'must be given, or provider with path or auto')
    if (name !== undefined) {
      for (const [field, given] of Object.entries({ provider, path, auto })) if (given !== undefined) refuse(field, 'cannot be given together with name')
      return
    }
    if (path !== undefined && auto) refuse('auto', 'cannot be given together with path')
    if (path === undefined && !auto) refuse('path', 'must be given with provider, or auto: true')
  })
export type CredentialReference = z.output<typeof CredentialReference>

const ByIdOrName = { id: z.string().min(1).max(255).optional(), name: z.string().min(1).max(255).optional() }
const exactlyOne = (given: object): boolean => Object.values(given).filter((value) => value !== undefined).length === 1
const Proxy = z.strictObject(ByIdOrName).refine(exactlyOne, 'must have exactly one of id and name')
const ProxyChoice = z
  .strictObject({ ...ByIdOrName, mode: z.enum(['direct', 'default']).optional() })
  .refine(exactlyOne, 'must have exactly one of id, name and mode')

/** The settings of the browsers for its logins and checks. It takes precedence over `proxy` and `browser_telemetry`. */
export const AuthBrowser = z.strictObject({
  proxy: ProxyChoice.optional(),
  region: z.string().min(1).max(64).optional(),
  stealth: z.boolean().optional(),
  telemetry: GivenTelemetry.nullable().optional(),
})
export type AuthBrowser = z.output<typeof AuthBrowser>

/** A caller's settings for the browsers; the last three are deprecated. */
const browserFields = {
  browser: AuthBrowser.optional(),
  browser_telemetry: GivenTelemetry.nullable().optional(),
  proxy: Proxy.optional(),
  proxy_id: z.string().max(255).optional(),
}

const settings = {
  allowed_domains: AllowedDomains.optional(),
  auto_reauth: z.boolean().optional(),
  credential: CredentialReference.optional(),
  health_check_interval: CheckSeconds.optional(),
  health_checks: z.boolean().optional(),
  record_session: z.boolean().optional(),
  save_credentials: z.boolean().optional(),
  ...browserFields,
}

export const CreateConnection = z.strictObject({
  domain: Domain,
  /** Created if there is none. */
  profile_name: z.string().min(1).max(255),
  login_url: LoginUrl.optional(),
  ...settings,
})
export type CreateConnection = z.output<typeof CreateConnection>

export const UpdateConnection = z.strictObject({
  ...settings,
  /** Empty: none. */
  login_url: z.union([z.literal(''), LoginUrl]).optional(),
})
export type UpdateConnection = z.output<typeof UpdateConnection>

export const BeginLogin = z.strictObject({
  record_session: z.boolean().optional(),
  /** There is one method of logging in, without a model: both values mean the same. */
  skill_mode: z.enum(['enabled', 'disabled']).optional(),
  ...browserFields,
})
export type BeginLogin = z.output<typeof BeginLogin>

const Values = z
  .record(z.string().min(1).max(255), z.string().max(16 * 1024))
  .refine((values) => Object.keys(values).length <= 50, 'must have at most 50 values')

/** The answer in exactly one form. Clients send an empty `fields` beside another form, so that is ignored. */
export const Submission = z
  .strictObject({
    field_values: Values.optional(),
    selected_choice_id: z.string().min(1).max(255).optional(),
    fields: Values.optional(),
    /** The type of the method. */
    mfa_option_id: z.string().min(1).max(255).optional(),
    sign_in_option_id: z.string().min(1).max(255).optional(),
    sso_button_selector: z.string().min(1).max(2048).optional(),
    sso_provider: z.string().min(1).max(255).optional(),
    interaction_id: z.string().min(1).max(255).optional(),
  })
  .transform(({ fields, ...rest }) => ({ ...rest, ...(fields !== undefined && Object.keys(fields).length > 0 && { fields }) }))
  .superRefine(({ interaction_id: _, ...ways }, context) => {
    const given = Object.keys(ways).filter((way) => ways[way as keyof typeof ways] !== undefined)
    if (given.length === 0)
      context.addIssue({
        code: 'custom',
        path: ['field_values'],
        message: 'must be given, or one of selected_choice_id, fields, mfa_option_id, sign_in_option_id, sso_button_selector, sso_provider',
      })
    if (given.length > 1) context.addIssue({ code: 'custom', path: [given[1]!], message: `cannot be given together with ${given[0]}` })
  })
export type Submission = z.output<typeof Submission>

const params = z.strictObject({ id: z.string().min(1) })

export const authConnections = {
  createAuthConnection: route({
    method: 'POST',
    path: '/auth/connections',
    id: 'createAuthConnection',
    group,
    summary: 'Create a connection: a profile that is to be logged in at a domain',
    body: CreateConnection,
    reply: json(Connection, 201),
    faults: ['conflict'],
  }),
  listAuthConnections: route({
    method: 'GET',
    path: '/auth/connections',
    id: 'listAuthConnections',
    group,
    summary: 'List connections, newest first',
    query: z.strictObject({
      ...pagingQuery,
      domain: z.string().max(1024).optional(),
      profile_name: z.string().max(1024).optional(),
      /** Part of a domain or of a profile's name, or a whole id. */
      query: z.string().max(1024).optional(),
    }),
    reply: page(Connection),
  }),
  getAuthConnection: route({
    method: 'GET',
    path: '/auth/connections/{id}',
    id: 'getAuthConnection',
    group,
    access: 'login',
    anyOrigin: true,
    summary: 'Get a connection with the state of its last flow',
    params,
    reply: json(Connection),
    faults: ['not_found', 'gone'],
  }),
  updateAuthConnection: route({
    method: 'PATCH',
    path: '/auth/connections/{id}',
    id: 'updateAuthConnection',
    group,
    summary: 'Change a connection; what is not named stays',
    params,
    body: UpdateConnection,
    reply: json(Connection),
    faults: ['not_found', 'conflict'],
  }),
  deleteAuthConnection: route({
    method: 'DELETE',
    path: '/auth/connections/{id}',
    id: 'deleteAuthConnection',
    group,
    summary: 'Delete a connection and cancel its flow; its profile and credential stay',
    params,
    reply: none(),
    faults: ['not_found'],
  }),
  loginAuthConnection: route({
    method: 'POST',
    path: '/auth/connections/{id}/login',
    id: 'loginAuthConnection',
    group,
    summary: 'Begin a login',
    params,
    body: BeginLogin,
    bodyOptional: true,
    reply: json(LoginBegun, 200),
    faults: ['not_found', 'conflict', 'unavailable'],
  }),
  submitAuthConnection: route({
    method: 'POST',
    path: '/auth/connections/{id}/submit',
    id: 'submitAuthConnection',
    group,
    access: 'login',
    anyOrigin: true,
    summary: 'Answer what a login asks for',
    params,
    body: Submission,
    reply: json(z.object({ accepted: z.boolean() }), 202),
    faults: ['not_found', 'conflict', 'gone'],
  }),
  followAuthConnection: route({
    method: 'GET',
    path: '/auth/connections/{id}/events',
    id: 'followAuthConnection',
    group,
    access: 'login',
    anyOrigin: true,
    summary: 'Follow the last login until it has ended',
    params,
    deadlineMs: Infinity,
    reply: events(FlowEvent),
    faults: ['not_found', 'gone'],
  }),
  listAuthConnectionTimeline: route({
    method: 'GET',
    path: '/auth/connections/{id}/timeline',
    id: 'listAuthConnectionTimeline',
    group,
    summary: 'List logins and health checks, newest first',
    params,
    query: z.strictObject({ ...pagingQuery, type: z.enum(TIMELINE_TYPES).optional() }),
    reply: page(TimelineItem),
    faults: ['not_found'],
  }),
  exchangeAuthConnectionCode: route({
    method: 'POST',
    path: '/auth/connections/{id}/exchange',
    id: 'exchangeAuthConnectionCode',
    group,
    summary: 'Exchange the code of a login for a token, once',
    access: 'public',
    anyOrigin: true,
    params,
    body: z.strictObject({ code: z.string().min(1).max(255) }),
    maxBodyBytes: 4096,
    reply: json(z.object({ jwt: z.string() })),
    faults: ['unauthorized', 'too_many_requests'],
  }),
}
