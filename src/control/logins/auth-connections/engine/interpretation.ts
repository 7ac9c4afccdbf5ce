// Types of a page's meaning for a login, from the interpreter to the flow. No code that acts.
import type { Ref } from '../../../../agent/login/contract.ts'

export const PAGE_KINDS = [
  /** Identifier and password, maybe more fields. */
  'login',
  'identifier',
  'password',
  'code',
  /** A choice of the method for the second factor. */
  'method_choice',
  'account_choice',
  'organization_choice',
  /** Buttons of other services only. */
  'sso_only',
  /** "Stay signed in?", "Trust this device?" */
  'trust_device',
  /** Another service asks for permission to reveal the user's identity. */
  'consent',
  'passkey_prompt',
  'captcha',
  /** A person has to act elsewhere: approve on a phone, follow a link in a mail. */
  'external_wait',
  /** A page in between: a notice, a cookie banner that covers everything, "continue". */
  'interstitial',
  /** No form, but a link to one. */
  'way_to_login',
  /** A registration, a new password, or a request for a reset link: never filled. `fields` has its fields, `loginLinks` leads back. */
  'sign_up',
  'error',
  'logged_in',
  'http_auth',
  'unknown',
] as const
export type PageKind = (typeof PAGE_KINDS)[number]

/** The kind of value in a field. `password_new` is never filled. */
export type FieldRole = 'identifier' | 'password' | 'password_new' | 'code' | 'totp_code' | 'text' | 'select' | 'checkbox'

export interface PageField {
  ref: Ref
  role: FieldRole
  /**
   * The key of the credential value for this field, the same at each read of the form: `username`, `email`, `phone`, `password` or `code`. The key of another
   * field is made of its name or label (`company_id`, `server`, `database`).
   */
  key: string
  /** The label for people. */
  label: string
  placeholder: string
  required: boolean
  /** A text about where a code comes from, or the site's message about this field. */
  hint: string | undefined
  /** The site has marked it as wrong. */
  isInvalid: boolean
  /** It already has a value that need not be typed: a remembered user, a selected server. */
  isFilled: boolean
  /** One box for each character. */
  boxes: Ref[] | undefined
  /** Labels of a select's options; the answer must be one of them. */
  options: string[] | undefined
  /** The method by which a code comes, if the page names it. */
  codeBy: MfaMethod | undefined
  xpath: string
  host: string
}

export type MfaMethod = 'sms' | 'call' | 'email' | 'totp' | 'push' | 'password' | 'switch' | 'passkey' | 'other'

export interface PageChoice {
  /** The control to press; after a radio button, `submit` of the interpretation must be pressed, too. */
  ref: Ref
  type: 'mfa_method' | 'sso_provider' | 'sign_in_method' | 'auth_method' | 'identifier_method' | 'account' | 'other'
  label: string
  /** For an `sso_provider`: google, github, microsoft, …; for an unknown one, a word from its label. */
  provider: string | undefined
  /** For an `mfa_method`. */
  mfa: MfaMethod | undefined
  /** `•••92`, `j***@example.com`. */
  maskedDestination: string | undefined
  description: string | undefined
  xpath: string
}

/** The reason why a person has to act elsewhere. */
export type ExternalAction = 'push' | 'email_link' | 'captcha' | 'passkey' | 'qr' | 'other'

/** The meaning of one page, and possible actions on it. */
export interface Interpretation {
  kind: PageKind
  /** 0 to 1. Below {@link SURE} the flow does not act itself but shows the page to a person. */
  confidence: number
  /** The rules that matched, for debugging: never with values. */
  evidence: string[]
  /** The fields of the login form, in order. */
  fields: PageField[]
  choices: PageChoice[]
  /** The button that sends the form; it may be disabled until the fields are filled. If absent, Enter in the last field. */
  submit: Ref | undefined
  /** A control that continues without a value: "continue", "yes" of a trusted device, consent, closing a banner. */
  proceed: Ref | undefined
  /** Boxes to tick before the form is sent: remember me, trust this device. */
  tick: Ref[]
  /** Links to the login form, best first. */
  loginLinks: Ref[]
  /** The button of a cookie banner or notice that covers the form, rather rejecting than accepting. */
  dismiss: Ref | undefined
  /** The site's error message. */
  websiteError: string | undefined
  /**
   * For the kinds `login`, `identifier`, `password` and `code`: a captcha to tick beside the form, after it is filled. For other kinds: the action that the
   * page waits for.
   */
  external: { action: ExternalAction; message: string } | undefined
  /** A link to sign out, perhaps in a closed menu: never to be pressed. Kind `logged_in` may have none. */
  signOut: Ref | undefined
  /** The same for the same form, whatever its values, messages and order: made of kind, roles of fields, and path. */
  signature: string
}

/** Least confidence to act without a person. */
export const SURE = 0.5

/** Facts beside the page itself. */
export interface PageContext {
  domain: string
  /** The password was sent just before. */
  hasSubmitted: boolean
  /** The service that the credential requires to be chosen first. */
  ssoProvider: string | undefined
}
