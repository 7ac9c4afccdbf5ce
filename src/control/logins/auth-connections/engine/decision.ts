// Types by which the rules of a login (decide.ts) instruct the worker.
import type { Ref } from '../../../../agent/login/contract.ts'
import type { ErrorCode } from '../contract.ts'
import type { Learned, PausedChoice, PausedField } from '../flow.ts'
import type { ExternalAction, FieldRole, PageField } from './interpretation.ts'
import type { Memory, Source } from './memory.ts'

/** A question for a person; the worker gives it an id. */
export interface Question {
  fields: PausedField[]
  choices: PausedChoice[]
  external: { action: ExternalAction; message: string } | undefined
}

export interface Fill {
  field: PageField
  source: Source
}

/** The next action of the worker. */
export type Decision =
  | { do: 'open'; url: string }
  /** `submit`: the button; undefined: Enter in the last field. `isHeld`: a person sends the form, after a captcha. */
  | { do: 'fill'; fills: Fill[]; tick: Ref[]; submit: Ref | undefined; isHeld: boolean }
  | { do: 'press'; refs: Ref[] }
  | { do: 'ask'; question: Question }
  /** Reads the page again after a while. */
  | { do: 'look'; afterMs: number }
  /** Checks whether the user is logged in. */
  | { do: 'verify' }
  /** `isRefusal`: as in FlowFailure. */
  | { do: 'fail'; code: ErrorCode; message: string; isRefusal?: boolean }

/** The names of known values, and other inputs of a decision. */
export interface Known {
  sourceOf: (key: string, role: FieldRole) => 'typed' | 'stored' | 'code' | undefined
  hasTotp: boolean
  ssoProvider: string | undefined
  /** Masks the flow's values in a text. */
  scrub: (text: string) => string
  /** Whether a label names the user. */
  isOwn: (label: string) => boolean
  /** Patterns of hosts that may get values after this other service was chosen; empty: none was chosen. */
  hosts: (sso: string) => readonly string[]
  /** Addresses where the login form may be, in order. */
  candidates: readonly string[]
  learned: Learned | undefined
  /** Whether a person can answer. For a re-login in the background, nobody can. */
  isAttended: boolean
}

/** Facts about the page itself, without their interpretation. */
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
