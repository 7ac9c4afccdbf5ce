// Finds the button that closes a cookie banner or a notice.
import { placeOf, type Seen, type View } from './view.ts'
import { hasAny, tokensOf } from './words.ts'

/** Words of a banner's button; what is longer is a link to a policy. */
const MAX_WORDS = 6

/**
 * The button of a cookie banner, rejecting rather than accepting; undefined if there is no banner. `form`: what the page is about, whose buttons are no banner's.
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
  // A form in a dialog has that dialog's own button to close it.
  if (!isAboutCookies && [...form].some(({ control }) => control.in_dialog)) return undefined
  const closing = candidates.filter(({ label, control }) => (control.in_dialog || isAboutCookies) && hasAny(label, 'close', 'later', 'no', 'send'))
  return closing.find(({ control }) => control.in_dialog) ?? closing[0]
}

/** Whether something lies over what is needed. */
export const isCovered = (needed: (Seen | undefined)[]): boolean => needed.some((seen) => seen?.control.covered ?? false)
