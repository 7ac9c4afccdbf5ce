// Finds login forms: links and buttons of a page, and addresses that many sites have.
import { ssoProviderOf } from './sso.ts'
import type { Seen, View } from './view.ts'
import { hasAny, tokensOf, wordsOfName } from './words.ts'

const MOST_LINKS = 5
/** Addresses to try, in this order, when no page leads to a form. */
export const LOGIN_PATHS = ['login', 'signin', 'sign-in', 'account/login', 'users/sign_in', 'auth/login', 'admin', 'user/login'] as const

/** Buttons and links of a page to its login form, best first. */
export function loginLinks(view: View): Seen[] {
  return view.clickables
    .map((seen) => ({ seen, score: linkScore(view, seen) }))
    .filter(({ score }) => score >= 4)
    .toSorted((a, b) => b.score - a.score)
    .slice(0, MOST_LINKS)
    .map(({ seen }) => seen)
}

function linkScore(view: View, seen: Seen): number {
  const { control, label, name } = seen
  if (!control.enabled) return 0
  const path = wordsOfName(control.href_path ?? '')
  if (label.has('login_records') || path.has('login_records')) return 0
  const saysIt = label.has('sign_in') && !isAddress(control.label)
  // A link to the same page in another language or order.
  if (!saysIt && control.href_path !== null && control.href_path === ownPath(view)) return 0
  let score = 0
  // A short label is a button; a long one is a sentence about it.
  if (saysIt) score += tokensOf(control.label).length <= 4 ? 6 : 3
  if (path.has('sign_in')) score += 4
  if (control.label === '' && hasAny(name, 'sign_in')) score += 4
  if (!saysIt && label.has('account') && !path.has('sign_out')) score += 3
  if (control.box.y < 200) score += 1
  if (hasAny(label, 'sign_up') && !saysIt) score -= 8
  if (path.has('sign_up') && !path.has('sign_in')) score -= 4
  if (hasAny(label, 'forgot', 'sign_out', 'help', 'share', 'newsletter')) score -= 8
  if (path.has('sign_out')) score -= 10
  if (ssoProviderOf(view, seen) !== undefined) score -= 3
  // Another site's login is usually not this one's, but may be within one organization.
  if (control.href_host !== null && control.href_host !== view.model.host && !isRelated(control.href_host, view.context.domain)) score -= 5
  return score
}

/** A path or an address, as in file lists: a word in it has no meaning. */
const isAddress = (label: string): boolean => /^(?:[~.]{0,2}\/|[a-z]:\\|[a-z]+:\/\/)\S+$/i.test(label.trim())

const ownPath = ({ model }: View): string => (URL.canParse(model.url) ? new URL(model.url).pathname : '')

/** Whether a link clearly leads to a login, unlike "my account". */
export const isPlain = ({ control, label }: Seen): boolean =>
  (label.has('sign_in') && !isAddress(control.label)) || wordsOfName(control.href_path ?? '').has('sign_in')

const isRelated = (host: string, domain: string): boolean => host === domain || host.endsWith(`.${domain}`) || domain.endsWith(`.${host}`)
