// Types of the columns of a flow: its question, the answer, and facts that a login records for the next one. Only answers contain values.
import type { ExternalAction, FieldRole, MfaMethod, PageChoice } from './engine/interpretation.ts'

/** One field of a question to a person. */
export interface PausedField {
  /** The same id as long as the question lasts. */
  id: string
  /** The key of a credential under which its value is stored; also its name for clients of the earlier generation. */
  key: string
  role: Exclude<FieldRole, 'password_new'>
  label: string
  placeholder: string
  required: boolean
  hint: string | undefined
  reason: 'missing' | 'rejected'
  /** Labels of a select's options: the value must be one of them. */
  options: string[] | undefined
  codeBy: MfaMethod | undefined
  selector: string
}

export interface PausedChoice extends Pick<PageChoice, 'type' | 'label' | 'provider' | 'mfa' | 'maskedDestination' | 'description'> {
  id: string
  selector: string
}

/** The question of a waiting flow: fields, a choice, an action elsewhere, or several of these. */
export interface Pause {
  /** Identifies this question; the next one has another id. */
  interactionId: string
  fields: PausedField[]
  choices: PausedChoice[]
  external: { action: ExternalAction; message: string } | undefined
}

/** A person's answer. It has one form, whichever form the client uses. Stored encrypted. */
export interface Answer {
  interactionId: string
  /** Values by the ids of fields. */
  values: Record<string, string>
  /** The id of a choice. */
  choice: string | undefined
}

/** Something that a login needed from its user. It decides whether the next login is possible without a person. */
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

/** Facts from the last successful login: how to repeat it, and how a page of a user who is logged in looks. */
export interface Learned {
  requirements: Requirement[]
  /** Keys of the typed values. */
  keys: string[]
  ssoProvider: string | undefined
  /** The steps in order: the page's signature, and the choice there. */
  steps: { signature: string; choice: { type: PageChoice['type']; label: string; mfa: MfaMethod | undefined; provider: string | undefined } | undefined }[]
  /** Host and path of the form, without query and fragment. */
  loginPath: string | undefined
  marks: {
    /** Names and domains of cookies that the login has set or changed. */
    cookies: { name: string; domain: string }[]
    /** Whether the page after the login offered to sign out. */
    signsOut: boolean
    /** Whether the login page redirects users who are logged in. */
    redirects: boolean
    /** Host and path of the page after the login, if guests get a form or a link to one there. */
    insteadOf?: string | undefined
  }
}
