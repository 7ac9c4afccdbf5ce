// The choices of a page: other services, methods of a second factor, accounts, organisations.
import type { MfaMethod, PageChoice } from './interpretation.ts'
import { ssoProviderOf } from './sso.ts'
import { placeOf, type Seen, type View } from './view.ts'
import { hasAny, wordsOf, type Words } from './words.ts'

/** A longer label is a sentence and no choice. */
const MAX_LABEL = 200
const MAX_CHOICES = 30
/** `j***@example.com`, `•••92`, `+49 *** 12`, `ending in 92`. */
const MASKED = /[\p{L}\p{N}.+_-]{0,40}[*•●·…xX]{2,20}(?:[\p{L}\p{N}*•●·….@_-]{1,60}|\s?\p{N}{2,4})?|\+?\p{N}[\p{N}\s()-]{0,8}[*•●]{1,14}[\s\p{N}*•●()-]{0,12}/gu
const ENDING =
  /\b(?:ending (?:in|with)|ends (?:in|with)|endet auf|endend auf|finissant par|termina(?:do|da)? (?:en|em)|che termina con|eindigend op)\s*:?\s*(\p{N}{2,4})/iu
const ADDRESS = /[\p{L}\p{N}._%+-]{1,64}@[\p{L}\p{N}.-]{1,190}\.\p{L}{2,24}/u

/** The part of a text with a masked destination, such as a phone number; undefined when there is none. */
export function maskedIn(text: string): string | undefined {
  const ending = ENDING.exec(text)?.[1]
  if (ending !== undefined) return `•••${ending}`
  for (const [found] of text.matchAll(MASKED)) {
    // Words may contain two x or dots, too: a mask has a mask character, a digit or an address beside it. Dots alone show a password.
    if (/[*•●]|@|[xX]{2,}\p{N}/u.test(found) && /[\p{L}\p{N}]/u.test(found.replaceAll(/[xX]/g, ''))) return found.trim().slice(0, 80)
  }
  return undefined
}

/** The method of a second factor that a text names; undefined when there is none. */
export function mfaMethodIn(text: string, words: Words = wordsOf(text)): MfaMethod | undefined {
  const masked = maskedIn(text)
  if (words.has('passkey')) return 'passkey'
  if (words.has('backup_code')) return 'other'
  if (words.has('by_push') && !words.has('code')) return 'push'
  if (words.has('authenticator')) return 'totp'
  if (words.has('by_push')) return 'push'
  if (words.has('sms')) return 'sms'
  if (masked?.includes('@') || words.has('by_mail') || ADDRESS.test(text)) return 'email'
  if (words.has('by_call')) return 'call'
  if (words.has('phone') || (masked !== undefined && /\p{N}{2}\s*$/u.test(masked))) return 'sms'
  return undefined
}

/** The visible label of a choice, without decoration. */
export const choiceLabel = ({ control }: Seen): string => (control.label || control.placeholder || control.near || control.name).trim().slice(0, MAX_LABEL)

function choice(seen: Seen, type: PageChoice['type'], more: Partial<PageChoice> = {}): PageChoice {
  const label = choiceLabel(seen)
  return {
    ref: seen.control.ref,
    type,
    label,
    provider: undefined,
    mfa: undefined,
    maskedDestination: maskedIn(`${label} ${seen.control.described}`),
    description: seen.control.described === '' ? undefined : seen.control.described,
    xpath: seen.control.xpath,
    ...more,
  }
}

/** Buttons of other services. */
export function ssoChoices(view: View): PageChoice[] {
  const found = view.clickables
    .filter(({ control }) => control.enabled)
    .flatMap((seen) => {
      const provider = ssoProviderOf(view, seen)
      return provider === undefined ? [] : [choice(seen, 'sso_provider', { provider, label: choiceLabel(seen) || provider })]
    })
  return unique(found, ({ provider, label }) => `${provider} ${label}`)
}

/** Methods of a second factor: buttons, links, radio buttons and rows of a list. `isStrict`: only unambiguous ones, for pages with another subject. */
export function methodChoices(view: View, isStrict: boolean, without: ReadonlySet<Seen> = new Set()): PageChoice[] {
  const found = [...view.clickables, ...view.boxes.filter(({ control }) => control.type === 'radio' || control.role === 'radio')].flatMap((seen) => {
    if (without.has(seen) || !seen.control.enabled) return []
    const { label } = seen
    const text = choiceLabel(seen)
    if (text === '' || hasAny(label, 'sign_up', 'sign_out', 'resend', 'help', 'share', 'newsletter', 'terms', 'language')) return []
    if (ssoProviderOf(view, seen) !== undefined) return []
    // "I can't use my app" names a method, but leads to another one.
    if (label.has('cannot')) return label.has('forgot') ? [] : [choice(seen, 'mfa_method', { mfa: 'switch' })]
    // A code that is not sent anywhere comes from an app.
    const mfa = mfaMethodIn(text, label) ?? (!isStrict && label.has('code') ? 'totp' : undefined)
    const offers = /\b(use|try|get|send|receive|with|via|instead)\b/i.test(text) || hasAny(label, 'another_way', 'next', 'send', 'sign_with')
    if (mfa !== undefined && mfa !== 'other' && (!isStrict || offers || text.length <= 40)) {
      // A link to the start page or to support may contain words about mail, too.
      if (isStrict && mfa === 'email' && !offers) return []
      return [choice(seen, 'mfa_method', { mfa })]
    }
    if (mfa === 'other') return [choice(seen, 'mfa_method', { mfa })]
    if (label.has('another_way') && !hasAny(label, 'another_account', 'forgot')) return [choice(seen, 'mfa_method', { mfa: 'switch' })]
    if (label.has('password') && !hasAny(label, 'forgot', 'show_password', 'newer') && (offers || !isStrict))
      return [choice(seen, 'mfa_method', { mfa: 'password' })]
    return []
  })
  return unique(found, ({ mfa, label }) => `${mfa} ${label}`)
}

/** Links beside the first form to another kind of user name or another method: "use a phone number instead", "sign in with a passkey". */
export function signInChoices(view: View, without: ReadonlySet<Seen>): PageChoice[] {
  const found = view.clickables.flatMap((seen) => {
    const { label, control } = seen
    if (without.has(seen) || !control.enabled || control.label === '' || control.label.length > 80) return []
    if (hasAny(label, 'forgot', 'sign_up', 'sign_out', 'help', 'share', 'show_password', 'newsletter', 'resend', 'accept_all')) return []
    if (ssoProviderOf(view, seen) !== undefined) return []
    const offers = hasAny(label, 'sign_with', 'another_way') || /\b(use|instead)\b/i.test(control.label)
    if (!offers) return []
    if (hasAny(label, 'passkey', 'qr', 'code', 'by_push')) return [choice(seen, 'sign_in_method', { mfa: label.has('passkey') ? 'passkey' : undefined })]
    if (hasAny(label, 'email', 'phone', 'user')) return [choice(seen, hasAny(label, 'next') ? 'sign_in_method' : 'identifier_method')]
    if (hasAny(label, 'password', 'organization', 'another_way')) return [choice(seen, 'sign_in_method')]
    return []
  })
  return unique(found, ({ label }) => label)
}

/** Accounts that the site remembers, and "another account". */
export function accountChoices(view: View): PageChoice[] {
  const found = view.clickables.flatMap((seen) => {
    const text = choiceLabel(seen)
    if (!seen.control.enabled || text === '' || hasAny(seen.label, 'sign_out', 'help', 'forgot', 'sign_up', 'close')) return []
    if (ADDRESS.test(text) || maskedIn(text)?.includes('@') || seen.label.has('another_account')) return [choice(seen, 'account')]
    return []
  })
  return unique(found, ({ label }) => label)
}

/** Rows of a list of organisations: clickable items in the main part of a page without a known word. */
export function organizationChoices(view: View): PageChoice[] {
  const radios = view.boxes.filter(({ control }) => control.type === 'radio' || control.role === 'radio')
  const rows = radios.length > 1 ? radios : view.clickables.filter((seen) => isRow(view, seen))
  return unique(
    rows.filter((seen) => choiceLabel(seen) !== '').map((seen) => choice(seen, 'other')),
    ({ label }) => label,
  )
}

const KNOWN = [
  'help',
  'sign_out',
  'sign_up',
  'forgot',
  'language',
  'terms',
  'deny',
  'close',
  'share',
  'search',
  'newsletter',
  'another_account',
  'show_password',
  'account',
  'accept_all',
  'reject_all',
  'resend',
] as const

function isRow(view: View, { control, label }: Seen): boolean {
  if (!control.enabled || hasAny(label, ...KNOWN) || control.label.length > 100) return false
  if (hasAny(label, 'next', 'send', 'sign_in') && control.label.length < 25) return false
  // Take items below the heading that asks: links in a header and a footer lead to other hosts or are small. Rows of one list have the same width.
  const alike = view.clickables.filter((other) => placeOf(other.control) === placeOf(control) && Math.abs(other.control.box.width - control.box.width) <= 2)
  return alike.length > 1 || control.tag === 'button' || control.role !== ''
}

function unique(choices: PageChoice[], key: (choice: PageChoice) => string): PageChoice[] {
  const byKey = new Map<string, PageChoice>()
  for (const each of choices) if (!byKey.has(key(each))) byKey.set(key(each), each)
  return [...byKey.values()].slice(0, MAX_CHOICES)
}
