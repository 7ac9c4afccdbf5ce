// Interprets a page for a login: its kind, and possible actions. Pure and without a model: the same page gives the same result.
import type { PageModel } from '../../../../agent/login/contract.ts'
import { bannerOf, isCovered } from './banner.ts'
import { captchaOf } from './captcha.ts'
import { methodChoices, signInChoices, ssoChoices } from './choices.ts'
import { describe } from './describe.ts'
import { websiteErrorOf } from './errors.ts'
import { groupsOf, type Group } from './fields.ts'
import type { Interpretation, PageChoice, PageContext, PageField, PageKind } from './interpretation.ts'
import { findKind, messageOf, type Found } from './kinds.ts'
import { accountMenuOf, failureOf, saysFailure, signOutOf, type Failure } from './marks.ts'
import { signatureOf } from './signature.ts'
import { look, type Seen, type View } from './view.ts'
import { isPlain, loginLinks } from './login-links.ts'
import { hasAny } from './words.ts'

/** Kinds of pages that users who are logged in may get: these ask something before they continue. */
const AFTER_LOGIN: PageKind[] = ['consent', 'organization_choice', 'account_choice', 'trust_device']

/** Most buttons and links on a notice. */
const FEW = 12

/** The meaning of a page for a login. */
export function interpret(page: PageModel, context: PageContext): Interpretation {
  const view = look(page, context)
  const groups = groupsOf(view)
  const group = groups.find((each) => formKind(view, each) !== undefined)
  const parts = partsOf(view, groups, group)
  const shown = finish(view, parts)
  return { ...shown, signature: signatureOf(shown.kind, page.host, page.url, shown.fields, shown.choices) }
}

interface Parts {
  kind: PageKind
  confidence: number
  evidence: string[]
  group?: Group
  fields?: PageField[]
  choices?: PageChoice[]
  submit?: Seen | undefined
  proceed?: Seen | undefined
  tick?: Seen[]
  external?: Interpretation['external']
  signOut?: Seen | undefined
  links?: Seen[]
}

function partsOf(view: View, groups: Group[], group: Group | undefined): Parts {
  const { model, context } = view
  if (model.error !== null) return { kind: 'error', confidence: 1, evidence: ['the page could not be opened'] }
  // If the page has a form or a link to one, the site means that: its scripts get the same status.
  if (model.http_auth && !group && !loginLinks(view).some(isPlain))
    return { kind: 'http_auth', confidence: 1, evidence: ['the server asks for a password by HTTP'] }
  const captcha = captchaOf(view)
  const isFilled = group?.roles.every(({ seen }) => seen.control.has_value) ?? false
  // A box to tick beside a form is for after the form is filled.
  if (captcha === 'puzzle' || (captcha === 'widget' && (!group || context.hasSubmitted || isFilled)))
    return { ...(group && formParts(view, group)), kind: 'captcha', confidence: 0.9, evidence: ['a captcha'], external: captchaAction(view) }
  const signOut = signOutOf(view)
  if (group && !(signOut && !signOut.isHidden && isOfAccount(view, group))) {
    const parts = formParts(view, group)
    return captcha === 'widget' ? { ...parts, evidence: [...parts.evidence, 'a captcha at the form'], external: captchaAction(view) } : parts
  }
  return withoutForm(view, groups, signOut)
}

const captchaAction = (view: View): Interpretation['external'] => ({ action: 'captcha', message: messageOf(view, ['human']) })

/** The step of a login that a form is; undefined when it is none. */
function formKind(view: View, { roles, isSignUp, isReset, score, submit }: Group): PageKind | undefined {
  if (isSignUp || isReset) return undefined
  const has = (...wanted: string[]): boolean => roles.some(({ role }) => wanted.includes(role))
  if (has('password')) return has('identifier') ? 'login' : 'password'
  if (has('code')) return 'code'
  if (has('identifier')) return score >= 3 ? 'identifier' : undefined
  // The name of a company, asked before anything else, leads to that company's login.
  const isOrganization = roles.length === 1 && (roles[0]!.seen.label.has('organization') || roles[0]!.seen.name.has('organization'))
  return isOrganization && submit && hasAny(submit.label, 'sign_in', 'next') && hasAny(new Set([...view.headings, ...view.title, ...view.path]), 'sign_in')
    ? 'identifier'
    : undefined
}

function formParts(view: View, group: Group): Parts {
  const kind = formKind(view, group)!
  const without = new Set(group.submit && [group.submit])
  const choices = kind === 'code' ? methodChoices(view, true, without) : [...ssoChoices(view), ...signInChoices(view, without)]
  return {
    kind,
    // A field for the name of a company has no score of its own.
    confidence: Math.min(0.99, Math.max(0.55, 0.35 + group.score * 0.07)),
    evidence: group.evidence,
    group,
    fields: describe(view, group),
    choices,
    submit: group.submit,
    tick: group.ticks.filter(isToTick),
  }
}

/**
 * Whether a form is on a page of the user's account, to delete it or to change something. A form that asks for a code may have a link to sign out beside it.
 */
function isOfAccount(view: View, group: Group): boolean {
  const isSignIn = (group.submit?.label.has('sign_in') ?? false) || view.headings.has('sign_in')
  return formKind(view, group) !== 'code' && !isSignIn
}

/** Boxes that keep a session longer. */
const isToTick = ({ control, label, name }: Seen): boolean =>
  control.checked === false && (hasAny(label, 'remember', 'trust') || name.has('remember')) && !label.has('shared_computer')

function withoutForm(view: View, groups: Group[], signOut: { seen: Seen; isHidden: boolean } | undefined): Parts {
  const isIn = signOut !== undefined && !signOut.isHidden
  const found = findKind(view)
  const links = loginLinks(view)
  // Many pages have buttons of other services. The site's own login comes first, unless the page itself is about such a service.
  const isOffer =
    found?.kind === 'sso_only' && links.length > 0 && !hasAny(view.headings, 'sign_in') && !view.path.has('sign_in') && view.context.ssoProvider === undefined
  if (found && !isOffer && (!isIn || AFTER_LOGIN.includes(found.kind))) return { ...foundParts(found), ...(found.kind === 'sso_only' && { links }) }
  if (isIn) return { kind: 'logged_in', confidence: 0.9, evidence: ['a link to sign out'], signOut: signOut.seen }
  const other = groups.find(({ isSignUp, isReset }) => isSignUp || isReset)
  if (other) return { kind: 'sign_up', confidence: 0.8, evidence: other.evidence, group: other, fields: describe(view, other), links }
  const failed = ({ reason, confidence }: Failure): Parts => ({ kind: 'error', confidence, evidence: [reason], links, proceed: onward(view) })
  const failure = failureOf(view)
  if (failure) return failed(failure)
  if (hasAny(view.headings, 'human') || hasAny(view.title, 'human'))
    return { kind: 'captcha', confidence: 0.6, evidence: ['the page checks who its visitor is'], external: captchaAction(view) }
  if (signOut && !links.some(isPlain)) return { kind: 'logged_in', confidence: 0.8, evidence: ['a link to sign out in a closed menu'], signOut: signOut.seen }
  // Applications show notices about earlier failed logins, expiring passwords and licences, or maintenance. On a page with little else, the message is about
  // the page itself.
  const isSmall = view.clickables.length <= FEW || view.model.has_dialog
  const said = isSmall || links.some(isPlain) ? saysFailure(view) : undefined
  if (said) return failed(said)
  if (links.some(isPlain) || (links.length > 0 && !view.context.hasSubmitted))
    return { kind: 'way_to_login', confidence: 0.8, evidence: ['leads to a login'], links, choices: isOffer ? found.choices! : [] }
  const menu = accountMenuOf(view)
  if (menu) return { kind: 'logged_in', confidence: 0.6, evidence: ['a menu of an account'], signOut: undefined }
  // A page in between has little content; an application has much, with tips to close.
  if (view.context.hasSubmitted && !isSmall) return { kind: 'logged_in', confidence: 0.6, evidence: ['no form any more, and much to press'] }
  const proceed = isSmall ? onward(view) : undefined
  if (proceed || bannerOf(view, new Set())) return { kind: 'interstitial', confidence: 0.6, evidence: ['a page between'], proceed }
  if (view.context.hasSubmitted && view.clickables.length > 2) return { kind: 'logged_in', confidence: 0.5, evidence: ['no form any more'] }
  return { kind: 'unknown', confidence: 0, evidence: [] }
}

function foundParts({ kind, confidence, evidence, choices, proceed, submit, tick, external }: Found): Parts {
  return { kind, confidence, evidence: [evidence], choices: choices ?? [], submit, proceed, tick: tick ?? [], external }
}

/** The only button of a notice that continues. */
function onward(view: View): Seen | undefined {
  const found = view.clickables.filter(
    ({ label, control }) => control.enabled && hasAny(label, 'next', 'later', 'close') && !hasAny(label, 'deny', 'sign_up', 'reject_all', 'accept_all'),
  )
  return found.find(({ label }) => label.has('later')) ?? found[0]
}

function finish(view: View, parts: Parts): Omit<Interpretation, 'signature'> {
  const { group, submit, proceed, links = [], tick = [] } = parts
  const own = new Set([...(group?.roles.map(({ seen }) => seen) ?? []), ...[submit, proceed].filter((seen) => seen !== undefined)])
  const banner = bannerOf(view, own)
  const needed = own.size > 0 ? [...own] : links
  const isInTheWay =
    isCovered(needed) ||
    (needed.length === 0 && view.clickables.length > 0) ||
    (banner?.control.in_dialog === true && !needed.some(({ control }) => control.in_dialog))
  return {
    kind: parts.kind,
    confidence: parts.confidence,
    evidence: parts.evidence,
    fields: parts.fields ?? [],
    choices: parts.choices ?? [],
    submit: submit?.control.ref,
    proceed: proceed?.control.ref,
    tick: tick.map(({ control }) => control.ref),
    loginLinks: links.map(({ control }) => control.ref),
    dismiss: banner && isInTheWay && banner !== proceed ? banner.control.ref : undefined,
    websiteError: websiteErrorOf(view, group),
    external: parts.external,
    signOut: parts.signOut?.control.ref,
  }
}
