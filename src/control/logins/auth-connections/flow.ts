// The words that a flow's row is written in: what it asks of a person, what the person answers, what it has to remember. Types only; never with values, but for answers.
import type { ExternalAction, FieldRole, MfaMethod, PageChoice } from './engine/interpretation.ts'

/** One field that a person is asked for. */
export interface PausedField {
  /** Stable while the same question lasts. */
  id: string
  /** The key of a credential under which its value is saved; also its name for clients of the earlier generation. */
  key: string
  role: Exclude<FieldRole, 'password_new'>
  label: string
  placeholder: string
  required: boolean
  hint: string | undefined
  reason: 'missing' | 'rejected'
  /** Labels of a select's options: the value is one of them. */
  options: string[] | undefined
  codeBy: MfaMethod | undefined
  selector: string
}

export interface PausedChoice extends Pick<PageChoice, 'type' | 'label' | 'provider' | 'mfa' | 'maskedDestination' | 'description'> {
  id: string
  selector: string
}

/** What a flow waits for: fields, a choice, something that a person does elsewhere, or several of these. */
export interface Pause {
  /** Names this question; the next one has another name. */
  interactionId: string
  fields: PausedField[]
  choices: PausedChoice[]
  external: { action: ExternalAction; message: string } | undefined
}

/** What a person has answered, in one form for all ways of answering. Stored sealed. */
export interface Answer {
  interactionId: string
  /** By the ids of fields. */
  values: Record<string, string>
  /** The id of a choice. */
  choice: string | undefined
}

/** What a login needed of its user, for the next one without a person. */
export type Requirement =
  | 'identifier'
  | 'password'
  | 'totp'
  | 'sms'
  | 'call'
  | 'email'
  | 'push'
  | 'email_link'
  | 'captcha'
  | 'passkey'
  | 'sso'
  | 'text'
  | 'other'

/** What the last successful login has taught: how the next one may go, and how a logged-in page looks. */
export interface Learned {
  requirements: Requirement[]
  /** Keys of the values that were typed. */
  keys: string[]
  ssoProvider: string | undefined
  /** In order: the page's signature, and what was chosen there. */
  steps: { signature: string; choice: { type: PageChoice['type']; label: string; mfa: MfaMethod | undefined; provider: string | undefined } | undefined }[]
  /** Where the form was, without query and fragment. */
  loginPath: string | undefined
  marks: {
    /** Names and domains of cookies that the login has made or changed. */
    cookies: { name: string; domain: string }[]
    /** The page after the login offered to sign out. */
    signsOut: boolean
    /** Opening the login page as a logged-in user leads elsewhere. */
    redirects: boolean
    /** Host and path of the page after the login, when guests are shown a form or a way to one there. */
    insteadOf?: string | undefined
  }
}
