// The state that a flow needs after a restart. It is stored in plain text: names of values only, never values.
import type { ErrorCode } from '../contract.ts'
import type { Learned, Requirement } from '../flow.ts'
import type { FieldRole, MfaMethod, PageChoice, PageKind } from './interpretation.ts'

/** The source of a value. `totp`: made from the credential's secret; `code`: typed by a person, for one use. */
export type Source = 'typed' | 'stored' | 'totp' | 'code'

export interface Sent {
  signature: string
  kind: PageKind
  fields: { key: string; role: FieldRole; source: Source }[]
  /** Set before the values are typed, and cleared afterwards: if it is set after a restart, it is not known whether they were sent. */
  isUnsure: boolean
  /** Whether the site has reacted: another document, or something new on the page. Otherwise it is not known whether the site has got the values. */
  isAnswered?: boolean
}

export type Chosen = Pick<PageChoice, 'type' | 'label' | 'provider' | 'mfa'>

/** The end of a flow. It is written before its browser is ended, so that after a restart in between the flow ends in the same way. */
export type Ending =
  | { state: 'FAILED'; errorCode: ErrorCode; errorMessage: string; websiteError: string | undefined; refused?: string | undefined }
  | { state: 'EXPIRED'; errorMessage: string }
  | { state: 'AUTHENTICATED' | 'NEEDS_AUTH' }

export interface Memory {
  /** The connection's credential when the flow started; null: it had none. */
  credential: string | null | undefined
  /** Browsers made for this flow. */
  browsers: number
  /** Index of the next address where a login form may be. */
  candidate: number
  /** Number of pages that followed an action of the flow or a person. */
  pages: number
  /** How often each page has appeared since a person's last answer. */
  visits: Record<string, number>
  /** How often each limited action was done, by its name. */
  tried: Record<string, number>
  /** Whether an action may have led to another page, and no page was read since. */
  hasActed: boolean
  /** The last sent form, until the site's answer is known. */
  sent: Sent | undefined
  /** Keys of stored values that were typed, or were about to be. */
  storedSent: string[]
  /** The version of the stored values that were sent last; undefined when a person has typed the password, or none were sent. */
  sentVersion: string | undefined
  /** Whether a password was typed, or was about to be: a stored one, or a person's. */
  hasSentPassword: boolean
  /** Whether anything was sent, or a person has acted in the browser. */
  hasSent: boolean
  /** Keys whose values the site has refused. */
  rejected: string[]
  /** How often the site has refused a person's values. */
  rejections: number
  websiteError: string | undefined
  /** Number of codes made from the secret in this flow, and the period of the last one. */
  totp: { tries: number; period: number }
  /** The other service that was chosen; empty: none. */
  sso: string
  /** A person's choice, until it is pressed. */
  chosen: Chosen | undefined
  steps: Learned['steps']
  requirements: Requirement[]
  keys: string[]
  loginPath: string | undefined
  /** Cookies before the login, without values. */
  cookies: { name: string; domain: string; digest: string }[] | undefined
  /** Whether it was checked if the profile is logged in already. */
  hasChecked: boolean
  ending: Ending | undefined
  /** The login was verified; saving follows. */
  success:
    | {
        postLoginUrl: string | undefined
        learned: Learned
        isSaved: boolean
        /** The id of a new credential for typed values; chosen before it is created. */
        newCredentialId: string | undefined
        /** The credential that now has the typed values. */
        credentialId: string | undefined
      }
    | undefined
}

const EMPTY: Memory = {
  credential: undefined,
  browsers: 0,
  candidate: 0,
  pages: 0,
  visits: {},
  tried: {},
  hasActed: false,
  sent: undefined,
  storedSent: [],
  sentVersion: undefined,
  hasSentPassword: false,
  hasSent: false,
  rejected: [],
  rejections: 0,
  websiteError: undefined,
  totp: { tries: 0, period: -1 },
  sso: '',
  chosen: undefined,
  steps: [],
  requirements: [],
  keys: [],
  loginPath: undefined,
  cookies: undefined,
  hasChecked: false,
  ending: undefined,
  success: undefined,
}

/** The memory of a flow from its row. */
export const readMemory = (stored: Record<string, unknown>): Memory => ({ ...structuredClone(EMPTY), ...(stored as Partial<Memory>) })

/** The memory for another browser: pages of the old one are dropped, limits continue. */
export const forNewBrowser = (memory: Memory): Memory => ({
  ...memory,
  candidate: 0,
  hasActed: false,
  sent: undefined,
  chosen: undefined,
  cookies: undefined,
  visits: {},
})

/** Counts an action. Returns whether it was within the limit. */
export function isTry(memory: Memory, name: string, most: number): boolean {
  const count = (memory.tried[name] ?? 0) + 1
  if (count > most) return false
  memory.tried[name] = count
  return true
}

export function addOnce<T>(list: T[], value: T): void {
  if (!list.includes(value)) list.push(value)
}

/** The requirement that a code means for the next login. */
export const requirementOfCode = (by: MfaMethod | undefined): Requirement => (by === 'sms' || by === 'call' || by === 'email' || by === 'totp' ? by : 'other')
