// The contract of the Credentials group. Callers can set values and TOTP secrets, but no answer contains them.
import * as z from 'zod'
import { isIPv4, isIPv6, isName } from '../../../base/hosts.ts'
import { isId } from '../../../base/ids.ts'
import { json, none, page, pagingQuery, route } from '../../../http/route.ts'
import { Time } from '../../apps/apps/contract.ts'

const group = 'Credentials'

export const MAX_NAME = 255
/** Unique in its project, case-sensitive. */
const Name = z
  .string()
  .trim()
  .min(1)
  .refine((name) => Array.from(name).length <= MAX_NAME, `must have at most ${MAX_NAME} characters`)
  .refine((name) => !/\p{Cc}/u.test(name), 'must have no control characters')
  .refine((name) => !isId(name.toLowerCase()), 'must not look like an id (24 letters and digits)')

/** A host in the form of browsers: names in ASCII and lower case, IPv6 in brackets. Undefined when the text is none. */
export function hostOf(text: string): string | undefined {
  if (isIPv4(text)) return text
  const bracketed = /^\[(.+)\]$/.exec(text)?.[1]
  if (bracketed !== undefined) return isIPv6(bracketed) ? new URL(`http://[${bracketed}]`).hostname : undefined
  // Characters that separate parts of a URL would change the URL's host.
  if (text.length > 253 || /[\s/?#\\@:%]/.test(text) || !URL.canParse(`http://${text}`)) return undefined
  const host = new URL(`http://${text}`).hostname
  return isName(host) ? host : undefined
}

const Domain = z.string().transform((text, context) => {
  const host = hostOf(text.trim())
  if (host !== undefined) return host
  context.addIssue({ code: 'custom', message: 'must be a host, such as "example.com", without scheme, port or path', input: undefined })
  return z.NEVER
})

/** More than any login form asks for; the limits on bytes apply first. */
export const MAX_VALUES = 100
export const MAX_VALUE_BYTES = 16 * 1024
/** Size of all values of a credential together, with their keys. */
export const MAX_VALUES_BYTES = 64 * 1024
const MAX_KEY = 128
const bytesOf = (text: string): number => new TextEncoder().encode(text).length

function problemOfKey(key: string): string | undefined {
  if (key === '' || Array.from(key).length > MAX_KEY) return `must be a key of 1 to ${MAX_KEY} characters`
  return /\p{Cc}/u.test(key) || key !== key.trim() ? 'must be a key without control characters, and without spaces at its ends' : undefined
}

const Value = z.string().refine((text) => bytesOf(text) <= MAX_VALUE_BYTES, `must have at most ${MAX_VALUE_BYTES} bytes`)
/** Values by field name. The merged result is checked again. */
export const Values = z.record(z.string(), Value).superRefine((values, context) => {
  const keys = Object.keys(values)
  if (keys.length > MAX_VALUES) return context.addIssue({ code: 'custom', message: `must have at most ${MAX_VALUES} values` })
  for (const key of keys) {
    const problem = problemOfKey(key)
    // A key may be very long, so only valid ones are repeated in the message.
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem })
  }
})

/** The problem of all values of a credential together. */
export function problemOfValues(values: Record<string, string>): string | undefined {
  const count = Object.keys(values).length
  if (count > MAX_VALUES) return `must have at most ${MAX_VALUES} values; together they are ${count}`
  const bytes = Object.entries(values).reduce((sum, [key, value]) => sum + bytesOf(key) + bytesOf(value), 0)
  return bytes <= MAX_VALUES_BYTES ? undefined : `must have at most ${MAX_VALUES_BYTES} bytes in all, keys and values; these have ${bytes}`
}

/** The service to log in by: `google`, `github`, `microsoft`. Empty: none. */
const SsoProvider = z
  .string()
  .transform((text) => text.trim().toLowerCase())
  .refine(
    (text) => /^([a-z0-9][a-z0-9._-]{0,63})?$/.test(text),
    'must be the name of a provider, such as "google": at most 64 letters, digits, ".", "_" and "-"',
  )

export const TOTP_ALGORITHMS = ['SHA1', 'SHA256', 'SHA512'] as const
const Algorithm = z.enum(TOTP_ALGORITHMS)
export const Digits = z.int().min(6).max(8)
export const Period = z.int().min(10).max(300)
/** Base32, or an `otpauth://totp/…` address. Empty: none. Its form is checked in totp.ts. */
const TotpSecret = z.string().trim().max(2048)

const totp = {
  totp_secret: TotpSecret.optional(),
  /** These three need a secret. The settings in an address take precedence. */
  totp_algorithm: Algorithm.optional(),
  totp_digits: Digits.optional(),
  totp_period: Period.optional(),
}

export const Credential = z.object({
  id: z.string(),
  name: z.string(),
  domain: z.string(),
  sso_provider: z.string().optional(),
  has_values: z.boolean(),
  has_totp_secret: z.boolean(),
  /** Absent without a secret, like the two that follow. */
  totp_algorithm: Algorithm.optional(),
  totp_digits: z.int().optional(),
  totp_period: z.int().optional(),
  /** Not in lists. */
  value_keys: z.array(z.string()).optional(),
  /** Only in the answer to a request that set the secret. */
  totp_code: z.string().optional(),
  totp_code_expires_at: Time.optional(),
  created_at: Time,
  updated_at: Time,
})
export type Credential = z.output<typeof Credential>

const Create = z.strictObject({ name: Name, domain: Domain, values: Values, sso_provider: SsoProvider.optional(), ...totp })
export type CreateCredential = z.output<typeof Create>

const Update = z.strictObject({
  name: Name.optional(),
  /** Removed before `values` are merged. Unknown keys are ignored. */
  remove_value_keys: z.array(z.string().max(1024)).max(1000).optional(),
  /** Merged into the present ones, by key. */
  values: Values.optional(),
  /** Empty or null removes it. */
  sso_provider: SsoProvider.nullable().optional(),
  ...totp,
})
export type UpdateCredential = z.output<typeof Update>

const TotpCode = z.object({ code: z.string(), expires_at: Time })
export type TotpCode = z.output<typeof TotpCode>

const params = z.strictObject({ id_or_name: z.string().min(1) })

export const credentials = {
  createCredential: route({
    method: 'POST',
    path: '/credentials',
    id: 'createCredential',
    group,
    summary: 'Store a credential; its values are never answered',
    body: Create,
    reply: json(Credential, 201),
    faults: ['conflict'],
  }),
  listCredentials: route({
    method: 'GET',
    path: '/credentials',
    id: 'listCredentials',
    group,
    summary: 'List credentials, newest first',
    query: z.strictObject({
      ...pagingQuery,
      /** A whole host. */
      domain: z.string().max(1024).optional(),
      /** Part of a name or a domain, or a whole id. */
      query: z.string().max(1024).optional(),
    }),
    reply: page(Credential),
  }),
  getCredential: route({
    method: 'GET',
    path: '/credentials/{id_or_name}',
    id: 'getCredential',
    group,
    summary: 'Get a credential, without its values',
    params,
    reply: json(Credential),
    faults: ['not_found'],
  }),
  updateCredential: route({
    method: 'PATCH',
    path: '/credentials/{id_or_name}',
    id: 'updateCredential',
    group,
    summary: 'Change a credential; values are merged',
    params,
    body: Update,
    reply: json(Credential),
    faults: ['not_found', 'conflict', 'unavailable'],
  }),
  deleteCredential: route({
    method: 'DELETE',
    path: '/credentials/{id_or_name}',
    id: 'deleteCredential',
    group,
    summary: 'Delete a credential and its values',
    params,
    reply: none(),
    faults: ['not_found'],
  }),
  getCredentialTotpCode: route({
    method: 'GET',
    path: '/credentials/{id_or_name}/totp-code',
    id: 'getCredentialTotpCode',
    right: 'use',
    group,
    summary: 'The code that its TOTP secret gives now',
    params,
    reply: json(TotpCode),
    faults: ['not_found', 'unavailable'],
  }),
}
