// Groups the fields of a page into forms and finds the role of each.
import type { Control } from '../../../../agent/login/contract.ts'
import { codeBoxes } from './code-boxes.ts'
import type { FieldRole } from './interpretation.ts'
import { findSubmit } from './submit.ts'
import { gapBelow, placeOf, type Seen, type View } from './view.ts'
import { LEAST, NEAR, WEIGHTS } from './weights.ts'
import { hasAny, wordsOfName, type Word } from './words.ts'

export interface Role {
  seen: Seen
  role: FieldRole
  boxes: Seen[] | undefined
}

/** Fields that are sent together. */
export interface Group {
  roles: Role[]
  /** Tick boxes of the same form. */
  ticks: Seen[]
  submit: Seen | undefined
  isSignUp: boolean
  /** The form asks for the address for a password reset. */
  isReset: boolean
  /** How much it looks like a step of a login. */
  score: number
  evidence: string[]
}

const NOT_A_LOGIN = ['search', 'newsletter', 'coupon', 'card'] as const satisfies Word[]

/** The forms of a page, best first. */
export function groupsOf(view: View): Group[] {
  const withPassword = new Set(view.fields.filter(({ control }) => control.type === 'password').map(({ control }) => placeOf(control)))
  const usable = view.fields.filter((seen) => !isBeside(seen, withPassword))
  const groups = [...Map.groupBy(usable, ({ control }) => placeOf(control)).values()].flatMap(split)
  return groups.map((fields) => groupOf(view, fields)).toSorted((a, b) => b.score - a.score)
}

/** Searches, newsletters, coupons and language menus are on login pages, too. */
function isBeside(seen: Seen, withPassword: ReadonlySet<string>): boolean {
  const { control, label, name, around } = seen
  if (control.type === 'password') return false
  // Only the heading tells that it is a newsletter: its field looks like any other address.
  if (around.has('newsletter') && !withPassword.has(placeOf(control))) return true
  if (control.type === 'search' || control.role === 'searchbox' || control.role === 'search') return true
  if (hasAny(label, 'user', 'email', 'password', 'code') && !hasAny(label, ...NOT_A_LOGIN)) return false
  if (hasAny(name, 'search', 'newsletter', 'coupon', 'card') && !hasAny(name, 'user', 'password')) return true
  if (hasAny(label, ...NOT_A_LOGIN)) return true
  return control.tag === 'select' && (hasAny(label, 'language') || hasAny(name, 'language'))
}

/** Fields far below each other do not belong together, even inside one form around the whole page. */
function split(fields: Seen[]): Seen[][] {
  const parts: Seen[][] = []
  for (const seen of fields) {
    const last = parts.at(-1)?.at(-1)
    if (last && gapBelow(last.control, seen.control) <= NEAR) parts.at(-1)!.push(seen)
    else parts.push([seen])
  }
  return parts
}

function groupOf(view: View, fields: Seen[]): Group {
  const boxes = codeBoxes(fields)
  const rest = fields.filter((seen) => !boxes.includes(seen))
  const place = placeOf(fields[0]!.control)
  const ticks = view.boxes.filter(({ control }) => placeOf(control) === place && control.type !== 'radio' && isNear(fields, control))
  const submit = findSubmit(view, fields)
  const passwords = rest.filter((seen) => passwordScore(seen) >= LEAST.password && codeScore(view, seen) < LEAST.code)
  const text = formText(view, fields)
  const signUp = signUpScore(view, rest, passwords, ticks, submit, text)
  const isSignUp = signUp >= LEAST.signUp && (passwords.length > 0 || text.has('sign_up'))
  const isReset = !isSignUp && passwords.length === 0 && isResetForm(view, fields, submit)
  const evidence: string[] = []
  const roles: Role[] = []
  if (boxes.length > 0) roles.push({ seen: boxes[0]!, role: 'code', boxes })

  const password = isSignUp ? undefined : passwords[0]
  const codes =
    boxes.length > 0
      ? []
      : bestCode(
          view,
          rest.filter((seen) => !passwords.includes(seen)),
        )
  const identifier = isSignUp || isReset ? undefined : identifierOf(view, rest, password, codes)
  for (const seen of rest) {
    const role = roleOf(seen, { passwords, password, codes, identifier, isSignUp })
    roles.push({ seen, role, boxes: undefined })
  }
  if (password) evidence.push('a password field')
  if (identifier) evidence.push('a field for a user name')
  if (codes.length > 0 || boxes.length > 0) evidence.push(boxes.length > 0 ? 'boxes for a code' : 'a field for a code')
  if (isSignUp) evidence.push('a registration or a new password')
  if (isReset) evidence.push('asks where to send a new password')

  const weights = WEIGHTS.form
  let score = (password ? weights.password : 0) + (identifier ? weights.identifier : 0) + (codes.length + boxes.length > 0 ? weights.code : 0)
  if (submit?.label.has('sign_in') || text.has('sign_in')) score += weights.signInWords
  if (fields[0]!.control.in_dialog) score += weights.dialog
  if (submit) score += weights.submit
  if (isSignUp || isReset) score = Math.min(score, 1)
  if (!password && hasAny(submit?.label ?? new Set(), 'newsletter')) score += weights.newsletter
  return { roles, ticks, submit, isSignUp, isReset, score, evidence }
}

/** A page asks for one code at a time: a second field with such words is the code's name, or something else. */
function bestCode(view: View, fields: Seen[]): Seen[] {
  const scored = fields.map((seen) => ({ seen, score: codeScore(view, seen) })).filter(({ score }) => score >= LEAST.code)
  return scored
    .toSorted((a, b) => b.score - a.score)
    .slice(0, 1)
    .map(({ seen }) => seen)
}

/** Whether a box is near fields: at most a screen above or below them. */
const isNear = (fields: Seen[], control: Control): boolean => gapBelow(fields.at(-1)!.control, control) <= NEAR && gapBelow(control, fields[0]!.control) <= NEAR

function roleOf(
  seen: Seen,
  group: { passwords: Seen[]; password: Seen | undefined; codes: Seen[]; identifier: Seen | undefined; isSignUp: boolean },
): FieldRole {
  if (seen === group.password) return 'password'
  if (group.passwords.includes(seen)) return 'password_new'
  // In a form for a new password, a password field is always that, whatever else it looks like.
  if (seen.control.type === 'password' && !group.codes.includes(seen)) return group.isSignUp ? 'password_new' : 'text'
  if (group.codes.includes(seen)) return 'code'
  if (seen === group.identifier) return 'identifier'
  return seen.control.tag === 'select' ? 'select' : 'text'
}

function passwordScore({ control, label, name, autocomplete }: Seen): number {
  const weights = WEIGHTS.password
  if (control.tag !== 'input') return 0
  const isDeclared = autocomplete.has('current-password') || autocomplete.has('new-password')
  const words = (label.has('password') ? weights.words : 0) + (name.has('password') ? weights.words : 0)
  // A password made visible by "show password". An "email" field whose placeholder mentions a password has its own type.
  const isShown = control.type === 'text' && !hasAny(label, 'user', 'email')
  return (control.type === 'password' ? weights.type : 0) + (isDeclared ? weights.autocomplete : 0) + (control.type === 'password' || isShown ? words : 0)
}

/** How much a field looks like one for a one-time code. */
export function codeScore(view: View, { control, label, name, around, autocomplete }: Seen): number {
  const weights = WEIGHTS.code
  if (control.tag !== 'input' || autocomplete.has('current-password')) return 0
  if (autocomplete.has('one-time-code')) return weights.autocomplete
  const isNumeric = control.inputmode === 'numeric' || control.type === 'tel' || control.type === 'number' || /\\d|\[0-9\]/.test(control.pattern)
  const isShort = control.maxlength !== null && control.maxlength >= 4 && control.maxlength <= 8
  let score = 0
  if ((isNumeric && isShort) || /\{(4|5|6|7|8|4,8|6,8)\}/.test(control.pattern)) score += weights.shape
  // A password may be called a passcode, a token or a PIN.
  const isPlain = !label.has('password') && !name.has('password')
  if (label.has('code') && (isPlain || control.type !== 'password')) score += weights.words
  if (label.has('authenticator') || (label.has('backup_code') && control.type !== 'password')) score += weights.words
  if (name.has('code') && isPlain) score += weights.name
  if (around.has('code')) score += weights.around
  if (hasAny(view.headings, 'two_factor', 'authenticator') || hasAny(view.title, 'two_factor') || view.body.has('two_factor')) score += weights.page
  if (control.type === 'password') score += weights.hidden
  if (hasAny(label, 'address', 'card', 'coupon', 'search', 'image_code') || hasAny(name, 'address', 'card', 'coupon', 'image_code')) score += weights.against
  if (autocomplete.has('username') || autocomplete.has('email') || control.type === 'email') score += weights.against
  return score
}

function identifierOf(view: View, fields: Seen[], password: Seen | undefined, codes: Seen[]): Seen | undefined {
  const candidates = fields.filter((seen) => seen !== password && !codes.includes(seen) && seen.control.tag === 'input' && seen.control.type !== 'password')
  const before = password && candidates.filter((seen) => fields.indexOf(seen) < fields.indexOf(password)).at(-1)
  const weights = WEIGHTS.identifier
  let best: { seen: Seen; score: number } | undefined
  for (const seen of candidates) {
    let score = identifierScore(seen)
    if (seen === before) score += weights.beforePassword
    if (password && candidates.length === 1) score += weights.onlyOne
    if (score >= LEAST.identifier && (!best || score > best.score)) best = { seen, score }
  }
  if (!best) return undefined
  // Many forms ask for an address alone: a newsletter, a contact form. Something on the page must mention a login.
  return password || codes.length > 0 || speaksOfLogin(view, best.seen, fields) ? best.seen : undefined
}

function identifierScore({ control, label, name, around, autocomplete }: Seen): number {
  const weights = WEIGHTS.identifier
  let score = 0
  if (['username', 'email', 'webauthn', 'tel', 'tel-national'].some((token) => autocomplete.has(token))) score += weights.autocomplete
  if (control.type === 'email') score += weights.type
  if (control.type === 'tel') score += weights.type / 2
  if (hasAny(label, 'user', 'email', 'phone', 'sign_in')) score += weights.words
  if (hasAny(name, 'user', 'email', 'phone', 'sign_in')) score += weights.name
  if (hasAny(around, 'user', 'email')) score += weights.around
  if (hasAny(label, 'search', 'newsletter', 'coupon', 'card', 'image_code') || hasAny(name, 'image_code')) score += weights.against
  const isUser = hasAny(label, 'user', 'email') || autocomplete.has('username')
  if (!isUser && (hasAny(label, 'person', 'address') || hasAny(name, 'person', 'address'))) score += weights.person
  if (!isUser && label.has('organization')) score += weights.person
  if (label.has('code') && !isUser) score += weights.code
  return score
}

function speaksOfLogin(view: View, seen: Seen, fields: Seen[]): boolean {
  if (seen.autocomplete.has('username') || seen.autocomplete.has('webauthn')) return true
  if (hasAny(seen.name, 'user', 'sign_in') || seen.label.has('user')) return true
  const submit = findSubmit(view, fields)
  if (submit && hasAny(submit.label, 'newsletter', 'search')) return false
  if (submit?.label.has('sign_in')) return true
  const page = view.path.has('sign_in') || view.title.has('sign_in') || view.headings.has('sign_in') || formText(view, fields).has('sign_in')
  return page && fields.length <= 3
}

/** The words in the form's own address. */
function formText(view: View, fields: Seen[]): ReadonlySet<Word> {
  const { form } = fields[0]!.control
  return wordsOfName(form === null ? '' : (view.model.forms[form]?.action_path ?? ''))
}

function signUpScore(view: View, fields: Seen[], passwords: Seen[], ticks: Seen[], submit: Seen | undefined, action: ReadonlySet<Word>): number {
  const weights = WEIGHTS.signUp
  const says = (has: (seen: Seen) => boolean): boolean => fields.some(has)
  let score = 0
  if (passwords.length > 1) score += weights.secondPassword
  if (says(({ autocomplete }) => autocomplete.has('new-password'))) score += weights.newPassword
  if (passwords.some(({ label, name }) => hasAny(label, 'newer') || hasAny(name, 'newer'))) score += weights.newPassword
  if (passwords.length > 0 && says(({ label, name }) => label.has('confirm') || name.has('confirm'))) score += weights.confirm
  const isSignIn = submit?.label.has('sign_in') ?? false
  if (submit?.label.has('sign_up') && !isSignIn) score += weights.submit
  if (action.has('sign_up') || (view.path.has('sign_up') && !view.path.has('sign_in'))) score += weights.path
  if (says(({ label, name }) => label.has('person') || name.has('person'))) score += weights.person
  if (hasAny(view.headings, 'sign_up') && !view.headings.has('sign_in')) score += weights.heading
  if (ticks.some(({ label }) => label.has('terms'))) score += weights.terms
  if (isSignIn) score += weights.signIn
  if (action.has('sign_in')) score += weights.signInPath
  if (passwords.length === 1 && says(({ autocomplete }) => autocomplete.has('current-password'))) score += weights.currentPassword
  if (ticks.some(({ label }) => label.has('remember'))) score += weights.remember
  if (passwords.length === 1 && forgotLinks(view, fields)) score += weights.forgot
  return score
}

/** Whether a link to a new password is beside the form: only a form that accepts the old one has it. */
const forgotLinks = (view: View, fields: Seen[]): boolean =>
  view.clickables.some(({ control, label }) => label.has('forgot') && placeOf(control) === placeOf(fields[0]!.control))

function isResetForm(view: View, fields: Seen[], submit: Seen | undefined): boolean {
  if (submit && hasAny(submit.label, 'sign_in')) return false
  if (submit && hasAny(submit.label, 'newer')) return true
  const place = placeOf(fields[0]!.control)
  if (view.clickables.some(({ control, label }) => control.submits && placeOf(control) === place && label.has('forgot'))) return true
  if (hasAny(view.headings, 'two_factor') || fields.some(({ autocomplete }) => autocomplete.has('one-time-code'))) return false
  const says = view.path.has('forgot') || view.headings.has('forgot') || view.title.has('forgot')
  // "You will receive a link to reset your password": on a login page only links say this.
  // A box without a button filters a list, whatever else the page says.
  return says ? !view.headings.has('sign_in') : view.body.has('forgot') && submit !== undefined && !submit.label.has('next')
}
