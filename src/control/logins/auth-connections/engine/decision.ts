// The words in which the rules of a login (decide.ts) speak to the worker that carries them out.
import type { Ref } from '../../../../agent/login/contract.ts'
import type { ErrorCode } from '../contract.ts'
import type { Learned, PausedChoice, PausedField } from '../flow.ts'
import type { ExternalAction, FieldRole, PageField } from './interpretation.ts'
import type { Memory, Source } from './memory.ts'

/** What is asked of a person; the worker gives it a name. */
export interface Question {
  fields: PausedField[]
  choices: PausedChoice[]
  external: { action: ExternalAction; message: string } | undefined
}

export interface Fill {
  field: PageField
  source: Source
}

/** Each name is one thing that the worker does next. */
export type Decision =
  | { do: 'open'; url: string }
  /** `submit`: the button; undefined: Enter in the last field. `isHeld`: a person sends the form, after a captcha. */
  | { do: 'fill'; fills: Fill[]; tick: Ref[]; submit: Ref | undefined; isHeld: boolean }
  | { do: 'press'; refs: Ref[] }
  | { do: 'ask'; question: Question }
  /** Looks at the page again after a while. */
  | { do: 'look'; afterMs: number }
  /** Looks whether the user is logged in. */
  | { do: 'verify' }
  /** `isRefusal`: as of FlowFailure. */
  | { do: 'fail'; code: ErrorCode; message: string; isRefusal?: boolean }

/** The values that are known, by their names, and what else a decision rests on. */
export interface Known {
  sourceOf: (key: string, role: FieldRole) => 'typed' | 'stored' | 'code' | undefined
  hasTotp: boolean
  ssoProvider: string | undefined
  /** A text without the values of the flow. */
  scrub: (text: string) => string
  /** Whether a label names the user. */
  isOwn: (label: string) => boolean
  /** Patterns of hosts that may get values, when this other service was chosen; empty: none was. */
  hosts: (sso: string) => readonly string[]
  /** Addresses where the login form may be, in order. */
  candidates: readonly string[]
  learned: Learned | undefined
  /** Whether anybody may answer. A re-login in the background has nobody. */
  isAttended: boolean
}

/** What the page itself says, besides what it means. */
export interface PageFacts {
  url: string
  host: string
  status: number | null
  error: string | null
}

export interface Decided {
  decision: Decision
  memory: Memory
}
