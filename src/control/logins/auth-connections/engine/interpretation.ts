// What a page means for a login: the words in which the interpreter speaks to the flow. Nothing here does anything.
import type { Ref } from '../../../../agent/login/contract.ts'

export const PAGE_KINDS = [
  /** Identifier and password, maybe more fields. */
  'login',
  'identifier',
  'password',
  'code',
  /** Which method the second factor uses. */
  'method_choice',
  'account_choice',
  'organization_choice',
  /** Buttons of other services only. */
  'sso_only',
  /** "Stay signed in?", "Trust this device?" */
  'trust_device',
  /** Another service asks whether it may tell who the user is. */
  'consent',
  'passkey_prompt',
  'captcha',
  /** A person has to act elsewhere: approve on a phone, follow a link in a mail. */
  'external_wait',
  /** A page between: a notice, a cookie banner that covers everything, "continue". */
  'interstitial',
  /** No form, but a way to one. */
  'way_to_login',
  /** A registration, a new password, or where to send a link for one: never filled. `fields` tells what it asks for, `loginLinks` leads back. */
  'sign_up',
  'error',
  'logged_in',
  'http_auth',
  'unknown',
] as const
export type PageKind = (typeof PAGE_KINDS)[number]

/** What a field takes. `password_new` is never filled. */
export type FieldRole = 'identifier' | 'password' | 'password_new' | 'code' | 'totp_code' | 'text' | 'select' | 'checkbox'

export interface PageField {
  ref: Ref
  role: FieldRole
  /**
   * The key of a credential that it takes, stable over reads of the same form: `username`, `email`, `phone`, `password`, `code`, or for further fields a word made of its name or label
   * (`company_id`, `server`, `database`).
   */
  key: string
  /** As a person reads it. */
  label: string
  placeholder: string
  required: boolean
  /** Words about where a code comes from, or what the site says of this field. */
  hint: string | undefined
  /** The site has marked it as wrong. */
  isInvalid: boolean
  /** It has a value already that need not be typed: a remembered user, a server that is chosen. */
  isFilled: boolean
  /** One box for each character. */
  boxes: Ref[] | undefined
  /** Labels of a select's options; the answer is one of them. */
  options: string[] | undefined
  /** By which method a code comes, when the page says so. */
  codeBy: MfaMethod | undefined
  xpath: string
  host: string
}

export type MfaMethod = 'sms' | 'call' | 'email' | 'totp' | 'push' | 'password' | 'switch' | 'passkey' | 'other'

export interface PageChoice {
  /** To be clicked; of a radio button, `submit` of the interpretation has to be clicked after it. */
  ref: Ref
  type: 'mfa_method' | 'sso_provider' | 'sign_in_method' | 'auth_method' | 'identifier_method' | 'account' | 'other'
  label: string
  /** Of an `sso_provider`: google, github, microsoft, … or, for one that is not known, a word made of its label. */
  provider: string | undefined
  /** Of an `mfa_method`. */
  mfa: MfaMethod | undefined
  /** `•••92`, `j***@example.com`. */
  maskedDestination: string | undefined
  description: string | undefined
  xpath: string
}

/** Why a person has to act elsewhere. */
export type ExternalAction = 'push' | 'email_link' | 'captcha' | 'passkey' | 'qr' | 'other'

/** What one page is, and what may be done on it. */
export interface Interpretation {
  kind: PageKind
  /** 0 to 1. Below {@link SURE} the flow shows the page to a person rather than acting by itself. */
  confidence: number
  /** Rules that spoke for it, for people who look for a mistake: never with values. */
  evidence: string[]
  /** What the form of the login asks for, in order. */
  fields: PageField[]
  choices: PageChoice[]
  /** Sends the form; it may be disabled until the fields are filled. Without one, Enter in the last field. */
  submit: Ref | undefined
  /** Leads on without a value: "continue", "yes" of a trusted device, consent, closing a banner. */
  proceed: Ref | undefined
  /** Boxes to tick before the form is sent: remember me, trust this device. */
  tick: Ref[]
  /** Leads to the login form, best first. */
  loginLinks: Ref[]
  /** A cookie banner or notice that covers the form: its button, rejecting rather than accepting. */
  dismiss: Ref | undefined
  /** What the site says is wrong. */
  websiteError: string | undefined
  /** With kind `login`, `identifier`, `password` or `code`: a captcha to tick at the form, after it has been filled. Of other kinds, what the page waits for. */
  external: { action: ExternalAction; message: string } | undefined
  /** A link to sign out, in a menu that may be closed: never to be clicked. Kind `logged_in` may have none. */
  signOut: Ref | undefined
  /** The same for the same form, whatever values, messages and order of other things: kind, roles of fields, path. */
  signature: string
}

/** Least confidence to act without asking. */
export const SURE = 0.5

/** What is known besides the page. */
export interface PageContext {
  domain: string
  /** The password was sent just before. */
  hasSubmitted: boolean
  /** What the credential says must be pressed first. */
  ssoProvider: string | undefined
}
