// The texts of the page: errors for people, and cleaned texts of sites.
import type { ErrorCode } from '../../../../src/control/logins/auth-connections/shown/contract.ts'

/** The longest shown texts of a site: a name, and a sentence. */
const NAME_LENGTH = 120
const SENTENCE_LENGTH = 400

/** Control characters, characters without width, and characters that turn the direction of other text. */
const UNSEEN = /[\p{Cc}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]+/gu
/** More combining marks on one letter than any language uses: they would cover the lines around it. */
const PILES = /(\p{M}{4})\p{M}+/gu

/** A site's text as one line of limited length. It is still only text: put it into the page with `textContent`. */
export function plain(text: unknown, longest = NAME_LENGTH): string {
  if (typeof text !== 'string') return ''
  // Cut first, so that the rest of a long text is not processed.
  const line = text
    .slice(0, longest * 8)
    .replaceAll(UNSEEN, ' ')
    .replaceAll(PILES, '$1')
    .replaceAll(/\s+/g, ' ')
    .trim()
  const letters = Array.from(line)
  if (line === '') return ''
  return letters.length > longest || text.length > longest * 8 ? `${letters.slice(0, longest - 1).join('')}…` : line
}

export const sentence = (text: unknown): string => plain(text, SENTENCE_LENGTH)

const METHODS: Record<string, string> = {
  sms: 'Text message',
  call: 'Phone call',
  email: 'Email',
  totp: 'Authenticator app',
  push: 'Notification on your device',
  password: 'Password',
  passkey: 'Passkey',
  switch: 'Another way',
}

export const methodName = (type = ''): string => (Object.hasOwn(METHODS, type) ? METHODS[type]! : '')

/** For each error code: what went wrong, and what the person can do. */
const FAILURES: Record<ErrorCode, [heading: string, advice: string]> = {
  credentials_invalid: ['The login was not accepted', 'The site refused the user name or the password. Check them first.'],
  bot_detected: ['The site has blocked the login', 'It takes the browser of this service for a robot. Wait some time.'],
  captcha_blocked: ['The site asks for a puzzle', 'Its puzzle against robots could not be solved here.'],
  unsupported_auth_method: ['This way to log in is not supported', 'Another way, such as a password or a code, may work.'],
  domain_not_allowed: ['The login led to another site', 'For your safety nothing was typed there. The person who sent you the link can allow that site.'],
  login_form_not_found: ['No login form was found', 'The site may look different at the moment, or its login page is at another address.'],
  stuck_in_loop: ['The site shows the same page again and again', 'Check that you can log in with your own browser.'],
  max_attempts_reached: ['Too many attempts', 'It was stopped so that the site does not lock your account. Check your user name and password first.'],
  website_error: ['The site reported an error', 'Check that you can log in with your own browser.'],
  navigation_confused: ['The login got lost', 'The site led to a page that could not be understood.'],
  browser_error: ['The browser of this service has failed', 'This is not your fault.'],
  session_expired: ['The login took too long', 'Have your password and your device for codes at hand the next time.'],
  provider_unavailable: ['The store of passwords does not answer', 'The password manager that this login uses could not be reached.'],
  credential_not_found: ['No stored password was found', 'The person who sent you the link can check the stored password.'],
  internal: ['Something went wrong', 'This is an error of the service and not your fault.'],
}

/** The heading and the advice for an error, also for codes that this page does not know. */
export const failureOf = (code: string | null | undefined): [heading: string, advice: string] =>
  code && Object.hasOwn(FAILURES, code) ? FAILURES[code as ErrorCode] : ['The login has failed', 'The service gives no reason.']
