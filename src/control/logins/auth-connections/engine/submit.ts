// Finds the button that sends a form.
import { ssoProviderOf } from './sso.ts'
import { gapBelow, placeOf, type Seen, type View } from './view.ts'
import { LEAST, NEAR, WEIGHTS } from './weights.ts'
import { hasAny } from './words.ts'

/** The button for these fields; undefined when none looks like it: then Enter sends the form. */
export function findSubmit(view: View, fields: Seen[]): Seen | undefined {
  const first = fields[0]!.control
  const last = fields.at(-1)!.control
  const place = placeOf(first)
  // Fields outside of a form may have their button in a form around them, and a form may have its button outside.
  const candidates = view.clickables.filter(({ control }) => control.frame === first.frame && control.in_dialog === first.in_dialog)
  const inForm = candidates.filter(({ control }) => placeOf(control) === place)
  const submitters = inForm.filter(({ control }) => control.submits)
  let best: { seen: Seen; score: number } | undefined
  for (const seen of inForm.length > 0 ? inForm : candidates) {
    const { control } = seen
    const gap = gapBelow(last, control)
    const isInReach = gap <= NEAR && gapBelow(control, first) <= 80
    if (!isInReach && !(first.form !== null && control.submits && submitters.length === 1)) continue
    let score = submitScore(view, seen, first.form)
    if (gap >= -last.box.height && gap <= NEAR) score += WEIGHTS.submit.near * (1 - Math.max(0, gap) / NEAR)
    if (submitters.length === 1 && submitters[0] === seen) score += WEIGHTS.submit.only
    if (score >= LEAST.submit && (!best || score > best.score)) best = { seen, score }
  }
  return best?.seen
}

function submitScore(view: View, seen: Seen, form: number | null): number {
  const { control, label, name } = seen
  const weights = WEIGHTS.submit
  let score = 0
  if (control.submits && form !== null && control.form === form) score += weights.submits
  if (hasAny(label, 'sign_in') || (control.label === '' && name.has('sign_in'))) score += weights.signIn
  if (label.has('next')) score += weights.next
  if (hasAny(label, 'send', 'yes')) score += weights.send
  if (control.tag === 'button' || (control.tag === 'input' && control.type !== 'reset') || control.role === 'button') score += weights.button
  if (hasAny(label, 'forgot', 'show_password', 'another_way', 'resend', 'search', 'newsletter', 'another_account', 'sign_out', 'share', 'passkey'))
    score += weights.other
  if (hasAny(label, 'sign_up') && !label.has('sign_in')) score += weights.other
  if (hasAny(label, 'language', 'help') && !hasAny(label, 'sign_in', 'next')) score += weights.other
  if (hasAny(label, 'deny', 'close', 'later') && !hasAny(label, 'sign_in', 'next')) score += weights.cancel
  if (control.tag === 'a' && control.href_host !== null) score += weights.cancel
  if (ssoProviderOf(view, seen) !== undefined) score += weights.other
  return score
}
