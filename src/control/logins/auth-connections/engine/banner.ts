// Finds the button that closes a cookie banner or a notice.
import { placeOf, type Seen, type View } from './view.ts'
import { hasAny, tokensOf } from './words.ts'

/** Most words on a banner's button; a longer text is a link to a policy. */
const MAX_WORDS = 6

/**
 * The button that closes a cookie banner, rather rejecting than accepting; undefined when there is no banner. `form`: the controls of the page's form, which
 * are not part of a banner.
 */
export function bannerOf(view: View, form: ReadonlySet<Seen>): Seen | undefined {
  const isAboutCookies = view.body.has('cookies') || view.headings.has('cookies') || view.clickables.some(({ label }) => label.has('cookies'))
  if (!isAboutCookies && !view.model.has_dialog) return undefined
  const places = new Set([...form].filter(({ control }) => control.form !== null).map(({ control }) => placeOf(control)))
  const candidates = view.clickables.filter(
    (seen) =>
      !form.has(seen) &&
      seen.control.enabled &&
      !places.has(placeOf(seen.control)) &&
      tokensOf(seen.control.label).length <= MAX_WORDS &&
      !seen.label.has('sign_in'),
  )
  if (isAboutCookies) {
    const found = candidates.find(({ label }) => label.has('reject_all')) ?? candidates.find(({ label }) => label.has('accept_all'))
    if (found) return found
  }
  // A form in a dialog has the dialog's own button to close it.
  if (!isAboutCookies && [...form].some(({ control }) => control.in_dialog)) return undefined
  const closing = candidates.filter(({ label, control }) => (control.in_dialog || isAboutCookies) && hasAny(label, 'close', 'later', 'no', 'send'))
  return closing.find(({ control }) => control.in_dialog) ?? closing[0]
}

/** Whether something covers a needed control. */
export const isCovered = (needed: (Seen | undefined)[]): boolean => needed.some((seen) => seen?.control.covered ?? false)
