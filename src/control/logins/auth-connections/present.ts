// The answer for a connection with its last login: the fields and choices of the present generation, and the same for earlier clients.
import { merged, shownTelemetry } from '../../sessions/telemetry/contract.ts'
import type { Choice, Connection, Field, FlowEvent, TimelineItem } from './contract.ts'
import type { Pause, PausedChoice, PausedField } from './flow.ts'
import type { FlowRow } from './flow-rows.ts'
import { canReauth, type Source } from './reauth.ts'
import type { ConnectionWithProfile } from './rows.ts'
import { legacyMfa } from './submit.ts'

/** Objects that a connection refers to, looked up. */
export interface Referred {
  source: Source
  credentialName: string | undefined
  providerName: string | undefined
}

/** Addresses of a login in progress. */
export interface Links {
  hostedUrl: string | undefined
  liveViewUrl: string | undefined
}

const iso = (time: Date): string => time.toISOString()
const some = <T>(list: T[]): T[] | null => (list.length > 0 ? list : null)

/** For clients, a select or a box is a text; the hint has the valid answers. */
const hintOf = ({ hint, options, role }: PausedField): string | undefined =>
  [hint, options && `One of: ${options.join(', ')}`, role === 'checkbox' ? 'true or false' : undefined].filter((part) => part).join('. ') || undefined

const FIELD_TYPES = {
  identifier: 'identifier',
  password: 'password',
  code: 'code',
  totp_code: 'totp_code',
  text: 'text',
  select: 'text',
  checkbox: 'text',
} as const

function field(paused: PausedField): Field {
  const hint = hintOf(paused)
  return {
    id: paused.id,
    ref: paused.key,
    type: FIELD_TYPES[paused.role],
    label: paused.label,
    required: paused.required,
    observed_selector: paused.selector || null,
    reason: paused.reason,
    ...(hint !== undefined && { hint }),
    ...((paused.role === 'code' || paused.role === 'totp_code') && { input_mode: 'numeric' }),
  }
}

const legacyType = ({ role, key }: PausedField) => {
  if (role === 'identifier') return key === 'email' ? ('email' as const) : key === 'phone' ? ('tel' as const) : ('text' as const)
  if (role === 'password' || role === 'code') return role
  return role === 'totp_code' ? ('totp' as const) : ('text' as const)
}

function discovered(paused: PausedField) {
  const hint = hintOf(paused)
  return {
    name: paused.key,
    label: paused.label,
    selector: paused.selector,
    type: legacyType(paused),
    ...(paused.placeholder && { placeholder: paused.placeholder }),
    required: paused.required,
    ...(hint !== undefined && { hint }),
    linked_mfa_type: (paused.codeBy && legacyMfa({ type: 'mfa_method', mfa: paused.codeBy })) ?? null,
  }
}

const choice = (paused: PausedChoice): Choice => ({
  id: paused.id,
  label: paused.label,
  type: paused.type,
  description: paused.description ?? null,
  observed_selector: paused.selector || null,
  ...(paused.type === 'mfa_method' && { mfa_type: paused.mfa ?? 'other', display_text: paused.label }),
  ...(paused.maskedDestination !== undefined && { masked_destination: paused.maskedDestination }),
  ...(paused.provider !== undefined && { context: paused.provider }),
})

/** The choices of a question, for both generations; null where there are none. */
function offered({ fields, choices, interactionId }: Pause) {
  const isOther = ({ type }: PausedChoice) => type !== 'mfa_method' && type !== 'sso_provider'
  return {
    interaction_id: interactionId,
    fields: some(fields.map(field)),
    choices: some(choices.map(choice)),
    discovered_fields: some(fields.map(discovered)),
    pending_sso_buttons: some(
      choices
        .filter(({ type }) => type === 'sso_provider')
        .map(({ provider, label, selector }) => ({ provider: provider ?? label.toLowerCase(), label, selector })),
    ),
    mfa_options: some(
      choices.flatMap((one) => {
        const type = legacyMfa(one)
        return type === undefined ? [] : [{ type, label: one.label, target: one.maskedDestination ?? null, description: one.description ?? null }]
      }),
    ),
    sign_in_options: some(choices.filter(isOther).map(({ id, label, description }) => ({ id, label, description: description ?? null }))),
  }
}

const NOTHING = {
  interaction_id: null,
  fields: null,
  choices: null,
  discovered_fields: null,
  pending_sso_buttons: null,
  mfa_options: null,
  sign_in_options: null,
}

/** A health check is no login, so the connection does not show it. */
const typeOf = ({ type }: FlowRow) => (type === 'login' ? 'LOGIN' : 'REAUTH')

/** A flow's state in the terms of logins. */
function statusOf({ state }: FlowRow) {
  if (state === 'AUTHENTICATED' || state === 'NEEDS_AUTH') throw new Error('the flow is a health check')
  return state
}

/** The service that the login recommends or used. */
function ssoProvider(pause: Pause | null, used: string | undefined): string | null {
  const providers = (pause?.choices ?? []).flatMap(({ type, provider }) => (type === 'sso_provider' && provider !== undefined ? [provider] : []))
  if (used !== undefined && (!pause || providers.includes(used))) return used
  return providers.length === 1 ? providers[0]! : null
}

/** The fields of a flow; null where its step has none. */
function shownFlow(flow: FlowRow, usedSso: string | undefined, { hostedUrl, liveViewUrl }: Links) {
  const isLive = flow.state === 'IN_PROGRESS'
  const isAsking = isLive && (flow.step === 'AWAITING_INPUT' || flow.step === 'AWAITING_EXTERNAL_ACTION')
  const pause = isAsking ? flow.pause : null
  return {
    flow_status: statusOf(flow),
    flow_step: flow.step,
    flow_type: typeOf(flow),
    ...(pause ? offered(pause) : NOTHING),
    external_action_message: (flow.step === 'AWAITING_EXTERNAL_ACTION' && pause?.external?.message) || null,
    website_error: flow.website_error,
    error_code: flow.error_code,
    error_message: flow.error_message,
    hosted_url: (isLive && hostedUrl) || null,
    live_view_url: (isLive && liveViewUrl) || null,
    sso_provider: ssoProvider(pause, usedSso),
  } as const
}

const NO_FLOW = {
  flow_status: null,
  flow_step: null,
  flow_type: null,
  ...NOTHING,
  external_action_message: null,
  website_error: null,
  error_code: null,
  error_message: null,
  hosted_url: null,
  live_view_url: null,
  sso_provider: null,
} as const

const credentialOf = (row: ConnectionWithProfile, { credentialName, providerName }: Referred): Connection['credential'] => {
  if (credentialName !== undefined) return { name: credentialName }
  if (providerName === undefined) return undefined
  return { provider: providerName, ...(row.provider_path === null ? { auto: true } : { path: row.provider_path }) }
}

/** `flow`: its last login. */
export function present(row: ConnectionWithProfile, flow: FlowRow | undefined, referred: Referred, links: Links): Connection {
  const { stealth, proxy_mode: mode, region } = row.browser
  const telemetry = shownTelemetry(merged(row.browser.telemetry))
  const credential = credentialOf(row, referred)
  const proxy = row.proxy_id !== null ? { id: row.proxy_id } : mode === undefined ? undefined : { mode }
  return {
    id: row.id,
    domain: row.domain,
    profile_name: row.profile_name ?? row.profile_id,
    status: row.status,
    allowed_domains: row.allowed_domains,
    auto_reauth: row.auto_reauth,
    health_checks: row.health_checks,
    health_check_interval: row.health_check_seconds,
    record_session: row.record_session,
    save_credentials: row.save_credentials,
    ...(row.login_url !== null && { login_url: row.login_url }),
    ...(credential && { credential }),
    browser: { ...(proxy && { proxy }), ...(region !== undefined && { region }), stealth, telemetry },
    browser_telemetry: telemetry,
    ...(row.proxy_id !== null && { proxy_id: row.proxy_id }),
    ...canReauth(row.learned, referred.source, row.checks.refused),
    ...(row.checked_at && { last_auth_check_at: iso(row.checked_at), last_auth_at: iso(row.checked_at) }),
    ...(row.post_login_url !== null && { post_login_url: row.post_login_url }),
    flow_expires_at: flow ? iso(flow.expires_at) : null,
    browser_session_id: (flow?.state === 'IN_PROGRESS' && flow.browser_id) || null,
    ...(flow ? shownFlow(flow, row.learned?.ssoProvider, links) : NO_FLOW),
  }
}

type StateEvent = Extract<FlowEvent, { event: 'managed_auth_state' }>

/** The same as an event: fields without a value are absent. */
export function stateEvent(row: ConnectionWithProfile, flow: FlowRow, links: Links): Omit<StateEvent, 'timestamp'> {
  const shown = Object.entries(shownFlow(flow, row.learned?.ssoProvider, links)).filter(([, value]) => value !== null)
  return {
    event: 'managed_auth_state',
    ...(Object.fromEntries(shown) as Omit<StateEvent, 'event' | 'timestamp'>),
    ...(flow.post_login_url !== null && { post_login_url: flow.post_login_url }),
  }
}

/** The progress of a login in the terms of the timeline. */
function timelineStep({ state, step, browser_id: browser }: FlowRow): NonNullable<TimelineItem['step']> {
  if (state === 'EXPIRED') return 'EXPIRED'
  if (state !== 'IN_PROGRESS') return 'COMPLETED'
  if (step === 'DISCOVERING' && browser === null) return 'INITIALIZED'
  return step === 'AWAITING_EXTERNAL_ACTION' ? 'AWAITING_HUMAN_INTERVENTION' : step
}

export const timelineItem = (flow: FlowRow): TimelineItem => ({
  id: flow.id,
  type: flow.type,
  status: flow.state,
  timestamp: iso(flow.started_at),
  updated_at: iso(flow.updated_at),
  ...(flow.finished_at && { completed_at: iso(flow.finished_at) }),
  ...(flow.type === 'health_check' && flow.previous_status !== null && { previous_status: flow.previous_status as 'AUTHENTICATED' | 'NEEDS_AUTH' }),
  step: timelineStep(flow),
  ...(flow.browser_id !== null && { browser_session_id: flow.browser_id }),
  ...(flow.replay_id !== null && { replay_id: flow.replay_id }),
  telemetry_captured: flow.telemetry_captured,
  ...(flow.error_code !== null && { error_code: flow.error_code }),
  ...(flow.error_message !== null && { error_message: flow.error_message }),
  ...(flow.website_error !== null && { website_error: flow.website_error }),
})
