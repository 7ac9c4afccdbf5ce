// Recognises a user who is logged in, and a failed site.
import type { Seen, View } from './view.ts'
import { hasAny, tokensOf, wordsOf, wordsOfName } from './words.ts'

/** A link to sign out, which only users who are logged in have. */
export function signOutOf(view: View): { seen: Seen; isHidden: boolean } | undefined {
  const shown = view.clickables.find(isSignOut)
  if (shown) return { seen: shown, isHidden: false }
  const hidden = view.hidden.find(isSignOut)
  return hidden && { seen: hidden, isHidden: true }
}

function isSignOut({ control, label }: Seen): boolean {
  // Some applications have it disabled for guests.
  if (!control.enabled) return false
  // "You have been signed out. Sign in again" is a sentence, or a link to log in.
  const { length } = tokensOf(control.label)
  if (length > 6) return false
  // In some languages one phrase contains the other ("kirjaudu", "kirjaudu ulos").
  if (label.has('sign_out') && (!label.has('sign_in') || length <= 2)) return true
  return control.href_path !== null && wordsOfName(control.href_path).has('sign_out') && !label.has('sign_in')
}

/** A user menu, which guests may see, too: a weaker sign. */
export const accountMenuOf = (view: View): Seen | undefined =>
  view.clickables.find(({ label, control }) => label.has('account') && !hasAny(label, 'sign_in', 'sign_up') && tokensOf(control.label).length <= 4) ??
  // An icon, recognised only by its name in the page's code.
  view.clickables.find(({ name, control }) => control.tag !== 'a' && control.label.length <= 3 && hasAny(name, 'account', 'user')) ??
  view.clickables.find(({ name, control }) => control.href_path === '/' && control.label.length <= 3 && hasAny(name, 'account', 'user'))

export interface Failure {
  reason: string
  confidence: number
}

/** A failure of the site itself: Chromium's error, a status of the server, its title. */
export function failureOf({ model, title }: View): Failure | undefined {
  const { error, status } = model
  if (error !== null) return { reason: 'the page could not be opened', confidence: 1 }
  if (status !== null && status >= 500) return { reason: `the server answered ${status}`, confidence: 0.95 }
  if (status !== null && status >= 400) return { reason: `the server answered ${status}`, confidence: 0.8 }
  return hasAny(title, 'server_error', 'expired', 'bot') ? { reason: 'the title says that something failed', confidence: 0.7 } : undefined
}

/** A failure in a page's text: of the page itself when there is little else on it, or in a notice of an application. */
export function saysFailure({ model, headings, bodyText, body }: View): Failure | undefined {
  if (hasAny(headings, 'server_error', 'expired', 'bot')) return { reason: 'the page says that something failed', confidence: 0.7 }
  if (model.alerts.some(({ text, by }) => by !== 'live' && text.length <= 200 && hasAny(wordsOf(text), 'wrong', 'expired', 'server_error')))
    return { reason: 'a message that something failed, and no form', confidence: 0.6 }
  const isShort = tokensOf(bodyText).length < 60
  return isShort && hasAny(body, 'server_error', 'expired', 'bot') ? { reason: 'a short page that says that something failed', confidence: 0.6 } : undefined
}
