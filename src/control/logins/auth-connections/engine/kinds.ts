// Recognises pages without a form: their questions, and the control that continues.
import { accountChoices, methodChoices, organizationChoices, ssoChoices } from './choices.ts'
import type { ExternalAction, PageChoice, PageKind } from './interpretation.ts'
import { sentencesOf } from './describe.ts'
import type { Seen, View } from './view.ts'
import { hasAny, wordsOf, type Word } from './words.ts'

/** The meaning of a page without a login form. */
export interface Found {
  kind: PageKind
  confidence: number
  evidence: string
  choices?: PageChoice[]
  proceed?: Seen
  submit?: Seen
  tick?: Seen[]
  external?: { action: ExternalAction; message: string }
}

type Rule = (view: View) => Found | undefined

/** The order matters: a page that asks whether to trust a device may also mention codes, and a waiting page may offer methods. */
const RULES: Rule[] = [trustDevice, consent, accounts, organizations, externalWait, methods, passkey, ssoOnly]

/** The first rule that recognises a page; undefined when none does. */
export function findKind(view: View): Found | undefined {
  for (const rule of RULES) {
    const found = rule(view)
    if (found) return found
  }
  return undefined
}

const says = (view: View, ...words: Word[]): boolean => hasAny(view.headings, ...words) || hasAny(view.title, ...words) || hasAny(view.body, ...words)
const saysFirst = (view: View, ...words: Word[]): boolean => hasAny(view.headings, ...words) || hasAny(view.title, ...words)
const hasNothingToType = (view: View): boolean => view.fields.every(({ control }) => control.tag === 'select')

/** The best button with one of some words; buttons that submit come before links. */
function buttonWith(view: View, words: Word[], not: Word[] = []): Seen | undefined {
  const found = view.clickables.filter(({ label, control }) => control.enabled && hasAny(label, ...words) && !hasAny(label, ...not))
  return found.find(({ control }) => control.tag !== 'a') ?? found[0]
}

function trustDevice(view: View): Found | undefined {
  if (!hasNothingToType(view) || !says(view, 'stay', 'trust', 'remember')) return undefined
  const boxes = view.boxes.filter((seen) => hasAny(seen.label, 'remember', 'trust') && !seen.label.has('shared_computer'))
  const no = buttonWith(view, ['no', 'later', 'deny'])
  const yes =
    buttonWith(view, ['yes'], ['no', 'later', 'deny']) ??
    (no || boxes.length > 0 ? buttonWith(view, ['next', 'send', 'allow'], ['no', 'later', 'deny']) : undefined)
  if (!yes || (!no && boxes.length === 0 && !saysFirst(view, 'stay', 'trust'))) return undefined
  // A list of methods with a box to tick is a list of methods.
  if (methodChoices(view, true, new Set([yes])).length > 1) return undefined
  return {
    kind: 'trust_device',
    confidence: saysFirst(view, 'stay', 'trust') ? 0.95 : 0.75,
    evidence: 'asks whether to stay signed in',
    proceed: yes,
    tick: boxes.filter(({ control, label }) => control.checked !== true && hasAny(label, 'trust', 'remember')),
  }
}

function consent(view: View): Found | undefined {
  if (!hasNothingToType(view) || !says(view, 'consent')) return undefined
  const allow = buttonWith(view, ['allow', 'next', 'send', 'yes'], ['deny', 'sign_out', 'reject_all', 'cookies', 'another_account', 'another_way'])
  if (!allow) return undefined
  const deny = buttonWith(view, ['deny', 'no'])
  const isFirst = saysFirst(view, 'consent')
  // "Authorize" is a common word: without a heading that says it, both answers must be on the page.
  if (!isFirst && !deny) return undefined
  return { kind: 'consent', confidence: isFirst && allow.label.has('allow') ? 0.9 : 0.7, evidence: 'asks for access to an account', proceed: allow }
}

function accounts(view: View): Found | undefined {
  if (!hasNothingToType(view)) return undefined
  const choices = accountChoices(view)
  const asks = says(view, 'choose_account')
  const named = choices.filter(({ label }) => !wordsOf(label).has('another_account'))
  if (!(asks && choices.length > 0) && !(named.length > 0 && named.length < choices.length)) return undefined
  return { kind: 'account_choice', confidence: asks ? 0.9 : 0.75, evidence: 'lists accounts', choices }
}

function organizations(view: View): Found | undefined {
  if (!hasNothingToType(view) || !says(view, 'choose_org')) return undefined
  const choices = organizationChoices(view)
  if (choices.length === 0) return undefined
  const submit = choices.some(({ ref }) => view.boxes.some(({ control }) => control.ref === ref)) ? buttonWith(view, ['next', 'send', 'sign_in']) : undefined
  return {
    kind: 'organization_choice',
    confidence: saysFirst(view, 'choose_org') ? 0.9 : 0.7,
    evidence: 'lists organisations',
    choices,
    ...(submit && { submit }),
  }
}

function externalWait(view: View): Found | undefined {
  if (!hasNothingToType(view)) return undefined
  const offers = methodChoices(view, true)
  const isPush = says(view, 'waiting') || (saysFirst(view, 'by_push') && offers.length < 2)
  const isMail = says(view, 'check_mail')
  if (!isPush && !isMail && !saysFirst(view, 'qr')) return undefined
  // A page with a choice is not a waiting page yet.
  if (saysFirst(view, 'choose_method') && offers.length > 1) return undefined
  const action: ExternalAction = isMail && !isPush ? 'email_link' : isPush ? 'push' : 'qr'
  return {
    kind: 'external_wait',
    confidence: 0.8,
    evidence: action === 'email_link' ? 'waits for a link in a mail' : action === 'push' ? 'waits for an answer on another device' : 'shows a code to scan',
    choices: offers,
    external: { action, message: messageOf(view, action === 'email_link' ? ['check_mail'] : action === 'push' ? ['waiting', 'by_push'] : ['qr']) },
  }
}

/** The page's text about it, for a person. */
export function messageOf(view: View, about: Word[]): string {
  // A heading has no full stop: in the text of the page, it is the beginning of the next sentence.
  const sentences = sentencesOf(view.bodyText)
  const headings = view.model.headings.filter((heading) => !sentences.some((sentence) => sentence.includes(heading)))
  const found = [...headings, ...sentences].filter((text) => text.length <= 300 && hasAny(wordsOf(text), ...about))
  return (found.slice(0, 2).join(' ') || view.model.title).slice(0, 400)
}

function methods(view: View): Found | undefined {
  if (!hasNothingToType(view)) return undefined
  const asks = saysFirst(view, 'choose_method', 'two_factor') || says(view, 'choose_method', 'two_factor')
  const choices = methodChoices(view, !asks)
  const real = choices.filter(({ mfa }) => mfa !== 'switch')
  if (real.length === 0 || (real.length < 2 && !asks)) return undefined
  const isRadio = real.some(({ ref }) => view.boxes.some(({ control }) => control.ref === ref))
  const used = new Set(choices.map(({ ref }) => ref))
  const submit = isRadio ? view.clickables.find(({ label, control }) => !used.has(control.ref) && hasAny(label, 'next', 'send', 'sign_in')) : undefined
  return {
    kind: 'method_choice',
    confidence: asks && real.length > 1 ? 0.9 : 0.7,
    evidence: 'lists methods of a second factor',
    choices,
    ...(submit && { submit }),
  }
}

function passkey(view: View): Found | undefined {
  if (!hasNothingToType(view)) return undefined
  const isOnlyWay = buttonWith(view, ['passkey']) !== undefined && says(view, 'sign_in', 'passkey') && ssoChoices(view).length === 0
  if (!view.model.passkey_asked && !saysFirst(view, 'passkey') && !isOnlyWay) return undefined
  return {
    kind: 'passkey_prompt',
    confidence: view.model.passkey_asked ? 0.85 : 0.7,
    evidence: 'asks for a passkey',
    choices: methodChoices(view, false).filter(({ mfa }) => mfa !== 'passkey'),
    external: { action: 'passkey', message: messageOf(view, ['passkey']) },
  }
}

function ssoOnly(view: View): Found | undefined {
  if (view.fields.some(({ control }) => control.type === 'password')) return undefined
  const choices = ssoChoices(view)
  if (choices.length === 0) return undefined
  return { kind: 'sso_only', confidence: choices.length > 1 || says(view, 'sign_in') ? 0.85 : 0.7, evidence: 'only other services to sign in with', choices }
}
