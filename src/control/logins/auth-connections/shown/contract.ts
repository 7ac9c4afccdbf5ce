// The answers of managed auth: connections with their last login, its events, the timeline.
import * as z from 'zod'
import { ShownTelemetry } from '../../../sessions/telemetry/contract.ts'

const Time = z.iso.datetime()

export const FLOW_STATUSES = ['IN_PROGRESS', 'SUCCESS', 'FAILED', 'EXPIRED', 'CANCELED'] as const
export const FLOW_STEPS = ['DISCOVERING', 'AWAITING_INPUT', 'AWAITING_EXTERNAL_ACTION', 'SUBMITTING', 'COMPLETED'] as const
export const FLOW_TYPES = ['LOGIN', 'REAUTH'] as const
export type FlowStatus = (typeof FLOW_STATUSES)[number]
export type FlowStep = (typeof FLOW_STEPS)[number]

/** The reasons of failed flows. The last three are Cob's own. */
export const ERROR_CODES = [
  'credentials_invalid',
  'bot_detected',
  'captcha_blocked',
  'unsupported_auth_method',
  'domain_not_allowed',
  'login_form_not_found',
  'stuck_in_loop',
  'max_attempts_reached',
  'website_error',
  'navigation_confused',
  'browser_error',
  'session_expired',
  'provider_unavailable',
  'credential_not_found',
  'internal',
] as const
export type ErrorCode = (typeof ERROR_CODES)[number]

/** Whether the service could log in again without a person, and the reason. */
export const REAUTH_REASONS = {
  yes: ['external_credential', 'cua_has_credential', 'has_credential', 'viable_plans_found', 'no_requirements_recorded', 'requirements_satisfiable'],
  no: [
    'no_prior_successful_login',
    'no_credential',
    'no_viable_plans',
    'viable_plans_require_external_action',
    'requires_external_action',
    'requires_totp_without_secret',
    'requires_sms_code',
    'requires_email_code',
  ],
} as const
export type ReauthReason = (typeof REAUTH_REASONS)[keyof typeof REAUTH_REASONS][number]

/** Methods that clients of the earlier generation know. */
export const MFA_TYPES = ['sms', 'call', 'email', 'totp', 'push', 'password', 'switch'] as const

const Field = z.object({
  id: z.string(),
  /** The key of a credential under which the value is stored. */
  ref: z.string(),
  type: z.enum(['identifier', 'password', 'code', 'totp_code', 'totp_secret', 'text']),
  label: z.string(),
  required: z.boolean(),
  observed_selector: z.string().nullable(),
  /** `missing`: no value is known; `rejected`: the site has refused the value. */
  reason: z.enum(['missing', 'rejected']),
  hint: z.string().optional(),
  input_mode: z.string().optional(),
  /** Labels of the options of a list; the value must be one of them. Cob's own. */
  options: z.array(z.string()).optional(),
})
export type Field = z.output<typeof Field>

const Choice = z.object({
  id: z.string(),
  label: z.string(),
  type: z.enum(['mfa_method', 'sso_provider', 'sign_in_method', 'auth_method', 'identifier_method', 'account', 'other']),
  description: z.string().nullable(),
  observed_selector: z.string().nullable(),
  context: z.string().optional(),
  display_text: z.string().optional(),
  masked_destination: z.string().optional(),
  mfa_type: z.enum([...MFA_TYPES, 'passkey', 'other']).optional(),
})
export type Choice = z.output<typeof Choice>

/** The same fields and choices for clients of an earlier generation. */
const legacy = {
  discovered_fields: z.array(
    z.object({
      name: z.string(),
      label: z.string(),
      selector: z.string(),
      type: z.enum(['text', 'email', 'password', 'tel', 'number', 'url', 'code', 'totp']),
      placeholder: z.string().optional(),
      required: z.boolean(),
      hint: z.string().optional(),
      linked_mfa_type: z.enum(MFA_TYPES).nullable().optional(),
    }),
  ),
  mfa_options: z.array(z.object({ type: z.enum(MFA_TYPES), label: z.string(), target: z.string().nullable(), description: z.string().nullable() })),
  pending_sso_buttons: z.array(z.object({ provider: z.string(), label: z.string(), selector: z.string() })),
  sign_in_options: z.array(z.object({ id: z.string(), label: z.string(), description: z.string().nullable() })),
}

/** The shown fields of a flow: in the connection (null where there is none) and in its events (absent). */
const shown = {
  fields: z.array(Field),
  choices: z.array(Choice),
  ...legacy,
  /** Identifies the present question; another one has another id. */
  interaction_id: z.string(),
  external_action_message: z.string(),
  website_error: z.string(),
  error_code: z.string(),
  error_message: z.string(),
  hosted_url: z.string(),
  live_view_url: z.string(),
  sso_provider: z.string(),
}
const nullable = <S extends Record<string, z.ZodType>>(shape: S) =>
  Object.fromEntries(Object.entries(shape).map(([name, schema]) => [name, schema.nullable()])) as { [K in keyof S]: z.ZodNullable<S[K]> }
const optional = <S extends Record<string, z.ZodType>>(shape: S) =>
  Object.fromEntries(Object.entries(shape).map(([name, schema]) => [name, schema.optional()])) as { [K in keyof S]: z.ZodOptional<S[K]> }

const ShownBrowser = z.object({
  proxy: z.object({ id: z.string().optional(), mode: z.enum(['direct', 'default']).optional() }).optional(),
  region: z.string().optional(),
  stealth: z.boolean(),
  telemetry: ShownTelemetry,
})

export const Connection = z.object({
  id: z.string(),
  domain: z.string(),
  profile_name: z.string(),
  status: z.enum(['AUTHENTICATED', 'NEEDS_AUTH']),
  allowed_domains: z.array(z.string()),
  auto_reauth: z.boolean(),
  health_checks: z.boolean(),
  health_check_interval: z.int(),
  record_session: z.boolean(),
  save_credentials: z.boolean(),
  login_url: z.string().optional(),
  credential: z.object({ name: z.string().optional(), provider: z.string().optional(), path: z.string().optional(), auto: z.boolean().optional() }).optional(),
  browser: ShownBrowser,
  browser_telemetry: ShownTelemetry,
  proxy_id: z.string().optional(),
  can_reauth: z.boolean(),
  can_reauth_reason: z.enum([...REAUTH_REASONS.yes, ...REAUTH_REASONS.no]),
  last_auth_check_at: Time.optional(),
  /** Deprecated: the same. */
  last_auth_at: Time.optional(),
  post_login_url: z.string().optional(),
  flow_status: z.enum(FLOW_STATUSES).nullable(),
  flow_step: z.enum(FLOW_STEPS).nullable(),
  flow_type: z.enum(FLOW_TYPES).nullable(),
  flow_expires_at: Time.nullable(),
  browser_session_id: z.string().nullable(),
  ...nullable(shown),
})
export type Connection = z.output<typeof Connection>

export const LoginBegun = z.object({
  /** The connection's id. */
  id: z.string(),
  flow_type: z.enum(FLOW_TYPES),
  flow_expires_at: Time,
  hosted_url: z.string(),
  /** Opens the hosted page, once. */
  handoff_code: z.string(),
  live_view_url: z.string().optional(),
})
export type LoginBegun = z.output<typeof LoginBegun>

export const FlowEvent = z.discriminatedUnion('event', [
  z.object({
    event: z.literal('managed_auth_state'),
    timestamp: Time,
    flow_status: z.enum(FLOW_STATUSES),
    flow_step: z.enum(FLOW_STEPS),
    flow_type: z.enum(FLOW_TYPES).optional(),
    post_login_url: z.string().optional(),
    ...optional(shown),
  }),
  z.object({ event: z.literal('error'), timestamp: Time, error: z.object({ code: z.string(), message: z.string() }) }),
  z.object({ event: z.literal('sse_heartbeat'), timestamp: Time }),
])
export type FlowEvent = z.output<typeof FlowEvent>

export const TIMELINE_TYPES = ['login', 'reauth', 'health_check'] as const
export const TimelineItem = z.object({
  id: z.string(),
  type: z.enum(TIMELINE_TYPES),
  status: z.enum([...FLOW_STATUSES, 'AUTHENTICATED', 'NEEDS_AUTH']),
  /** When it began. */
  timestamp: Time,
  updated_at: Time,
  completed_at: Time.optional(),
  previous_status: z.enum(['AUTHENTICATED', 'NEEDS_AUTH']).optional(),
  step: z.enum(['INITIALIZED', ...FLOW_STEPS, 'AWAITING_HUMAN_INTERVENTION', 'EXPIRED']).optional(),
  browser_session_id: z.string().optional(),
  replay_id: z.string().optional(),
  telemetry_captured: z.boolean(),
  error_code: z.string().optional(),
  error_message: z.string().optional(),
  website_error: z.string().optional(),
})
export type TimelineItem = z.output<typeof TimelineItem>
