// Whether the service could log in again without a person, with the reason: from the needs of the last login and the stored values. Needs no clock and no
// database.
import type { ReauthReason } from './contract.ts'
import type { Learned, Requirement } from './flow.ts'

/** The values for a login; undefined when the connection has none. `version` identifies them. */
export type Source = { kind: 'stored'; keys: readonly string[]; hasTotp: boolean; version: string } | { kind: 'external'; version: string } | undefined

/** The version of a provider's item. Whether its values have changed is known only when it is read. */
export const itemVersion = (provider: string, path: string | null): string => `${provider} ${path ?? ''}`

export interface CanReauth {
  can_reauth: boolean
  can_reauth_reason: ReauthReason
}

const yes = (can_reauth_reason: ReauthReason): CanReauth => ({ can_reauth: true, can_reauth_reason })
const no = (can_reauth_reason: ReauthReason): CanReauth => ({ can_reauth: false, can_reauth_reason })

/** Requirements that need a person elsewhere. A phone call is not a code that can be read. */
const EXTERNAL: readonly Requirement[] = ['push', 'email_link', 'captcha', 'passkey', 'call', 'other']
/** Pages have different names for the same value. */
const IDENTIFIERS = new Set(['username', 'email', 'phone'])
/** One-time codes are made for each login, and never stored. */
const CODES = new Set(['code', 'totp', 'totp_code'])

/** Whether a credential has all values that were typed. */
function hasAll(typed: readonly string[], keys: readonly string[]): boolean {
  const hasIdentifier = keys.some((key) => IDENTIFIERS.has(key))
  return typed.every((key) => CODES.has(key) || keys.includes(key) || (IDENTIFIERS.has(key) && hasIdentifier))
}

/** `learned`: null before the first successful login. `refused`: the version of the values that the site has refused. */
export function canReauth(learned: Pick<Learned, 'requirements' | 'keys'> | null, source: Source, refused: string | undefined): CanReauth {
  if (!learned) return no('no_prior_successful_login')
  if (!source) return no('no_credential')
  const needs = (...some: Requirement[]) => some.some((one) => learned.requirements.includes(one))
  if (needs(...EXTERNAL)) return no('requires_external_action')
  if (needs('sms')) return no('requires_sms_code')
  if (needs('email')) return no('requires_email_code')
  // Sending them again could lock the account.
  if (refused === source.version) return no('no_viable_plans')
  // Whether a provider's item has a secret for codes is known only when it is read.
  if (source.kind === 'external') return yes('external_credential')
  if (needs('totp') && !source.hasTotp) return no('requires_totp_without_secret')
  if (!hasAll(learned.keys, source.keys)) return no('no_viable_plans')
  if (learned.requirements.length === 0) return yes('no_requirements_recorded')
  return yes(needs('totp', 'sso', 'text') ? 'requirements_satisfiable' : 'has_credential')
}
