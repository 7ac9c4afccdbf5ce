// What a flow has to know after a restart. It is stored in plain text: names of values only, never values.
import type { ErrorCode } from '../contract.ts'
import type { Learned, Requirement } from '../flow.ts'
import type { FieldRole, MfaMethod, PageChoice, PageKind } from './interpretation.ts'

/** Where a value comes from. `totp`: made from the credential's secret; `code`: typed by a person, for one use. */
export type Source = 'typed' | 'stored' | 'totp' | 'code'

export interface Sent {
  signature: string
  kind: PageKind
  fields: { key: string; role: FieldRole; source: Source }[]
  /** Written before the values are typed, and cleared when that is done: after a restart nobody knows whether they were sent. */
  isUnsure: boolean
  /** Something has followed: another document, or something new on the page. Else nobody knows whether the site has got the values. */
  isAnswered?: boolean
}

export type Chosen = Pick<PageChoice, 'type' | 'label' | 'provider' | 'mfa'>

/** How a flow ends; written before its browser is ended, so that a restart in between ends it the same way. */
export type Ending =
  | { state: 'FAILED'; errorCode: ErrorCode; errorMessage: string; websiteError: string | undefined; refused?: string | undefined }
  | { state: 'EXPIRED'; errorMessage: string }
  | { state: 'AUTHENTICATED' | 'NEEDS_AUTH' }

export interface Memory {
  /** The credential of the connection when the flow began; null: it had none. */
  credential: string | null | undefined
  /** Browsers made for this flow. */
  browsers: number
  /** The next of the addresses where a login form may be. */
  candidate: number
  /** Pages that followed something the flow or a person has done. */
  pages: number
  /** How often the flow came to each page since a person answered. */
  visits: Record<string, number>
  /** How often something that is bounded was done, by its name. */
  tried: Record<string, number>
  /** Something was done that may lead to another page, and no page was read since. */
  hasActed: boolean
  /** The last form that was sent, until it is known what the site says of it. */
  sent: Sent | undefined
  /** Keys of stored values that were typed, or were about to be. */
  storedSent: string[]
  /** The version of the stored values that were sent last; undefined: a person has typed the password, or none were sent. */
  sentVersion: string | undefined
  /** A password was typed, or was about to be: a stored one, or one of a person. */
  hasSentPassword: boolean
  /** Anything was sent, or a person has acted in the browser. */
  hasSent: boolean
  /** Keys whose value the site has refused. */
  rejected: string[]
  /** How often the site has refused what a person typed. */
  rejections: number
  websiteError: string | undefined
  /** Codes made from the secret in this flow, and the number of the last one's period. */
  totp: { tries: number; period: number }
  /** The other service that was chosen; empty: none. */
  sso: string
  /** What a person has chosen, until it is pressed. */
  chosen: Chosen | undefined
  steps: Learned['steps']
  requirements: Requirement[]
  keys: string[]
  loginPath: string | undefined
  /** Cookies before the login, without values. */
  cookies: { name: string; domain: string; digest: string }[] | undefined
  /** It was looked at whether the profile is logged in already. */
  hasChecked: boolean
  ending: Ending | undefined
  /** The login was verified; what follows is saving. */
  success:
    | {
        postLoginUrl: string | undefined
        learned: Learned
        isSaved: boolean
        /** Of a credential that is made of what was typed; chosen before it is made. */
        newCredentialId: string | undefined
        /** In which what was typed is kept now. */
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

/** The memory of a flow, as its row has it. */
export const readMemory = (stored: Record<string, unknown>): Memory => ({ ...structuredClone(EMPTY), ...(stored as Partial<Memory>) })

/** The same before another browser: pages of the old one say nothing any more, limits go on. */
export const forNewBrowser = (memory: Memory): Memory => ({
  ...memory,
  candidate: 0,
  hasActed: false,
  sent: undefined,
  chosen: undefined,
  cookies: undefined,
  visits: {},
})

/** Counts, and says whether it was within the limit. */
export function isTry(memory: Memory, name: string, most: number): boolean {
  const count = (memory.tried[name] ?? 0) + 1
  if (count > most) return false
  memory.tried[name] = count
  return true
}

export function addOnce<T>(list: T[], value: T): void {
  if (!list.includes(value)) list.push(value)
}

/** What a code says of a login. */
export const requirementOfCode = (by: MfaMethod | undefined): Requirement => (by === 'sms' || by === 'call' || by === 'email' || by === 'totp' ? by : 'other')
