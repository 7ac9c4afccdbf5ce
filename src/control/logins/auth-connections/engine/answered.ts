// Interprets a site's answer to a form: refused, unchanged, or accepted. Pure; never sends a stored value twice.
import type { Decision, PageFacts } from './decision.ts'
import type { Interpretation } from './interpretation.ts'
import { addOnce, isTry, type Memory, type Sent } from './memory.ts'

/** Most refusals of values that a person types. Sites lock accounts after five to ten. */
export const MAX_REJECTIONS = 5
/** Most TOTP codes: one, and the next one. */
export const MAX_TOTP_TRIES = 2
const SLOW_ANSWER_MS = 3000

const fail = (code: Extract<Decision, { do: 'fail' }>['code'], message: string): Extract<Decision, { do: 'fail' }> => ({ do: 'fail', code, message })

/** The decision after the answer to the last form; undefined: the flow continues with the page. */
export function answered(memory: Memory, seen: Interpretation, page: PageFacts): Decision | undefined {
  const { sent } = memory
  if (!sent) return undefined
  const back = seen.fields.filter(({ key, role }) => sent.fields.some((field) => field.key === key && field.role === role))
  // A field that the site has filled in itself is only shown, and not asked again.
  const asksAgain = back.some(({ isFilled, role }) => role !== 'identifier' || !isFilled)
  if (!asksAgain) {
    const again = beginsAgain(memory, sent, seen, page)
    if (again.length > 0) {
      const decision = refused(memory, sent, seen, [])
      // The message is often about both fields. On this page, beside the message, the user name is asked for.
      if (!decision) again.forEach((key) => addOnce(memory.rejected, key))
      return decision
    }
    // On any other page, the form was accepted. Other rules handle error pages.
    memory.sent = undefined
    memory.websiteError = seen.websiteError
    return undefined
  }
  const isSame = seen.signature === sent.signature
  const says = seen.websiteError !== undefined || back.some(({ isInvalid }) => isInvalid) || page.status === 401 || page.status === 422
  const hadPassword = sent.fields.some(({ role }) => role === 'password') && back.some(({ role }) => role === 'password')
  // The form is still on the page while a person solves its captcha.
  if (seen.kind === 'captcha' && !says) return undefined
  if (!says && hasGrown(sent, seen, back)) {
    memory.sent = undefined
    return undefined
  }
  if (says || (!isSame && hadPassword))
    return refused(
      memory,
      sent,
      seen,
      back.filter(({ isInvalid }) => isInvalid).map(({ key }) => key),
    )
  if (!isSame) {
    memory.sent = undefined
    return undefined
  }
  return sent.isUnsure ? interrupted(memory, sent) : unchanged(memory, sent, seen)
}

/** Whether a login of several pages starts again after its password, with a message: it asks for the user name again. Returns the keys of these fields. */
function beginsAgain(memory: Memory, sent: Sent, { kind, fields, websiteError }: Interpretation, { status }: PageFacts): string[] {
  const says = websiteError !== undefined || status === 401 || status === 422
  if (!says || kind !== 'identifier' || !sent.fields.some(({ role }) => role === 'password')) return []
  return fields.filter(({ key, role }) => role === 'identifier' && memory.keys.includes(key)).map(({ key }) => key)
}

/**
 * Whether the same form keeps its values and also asks for a code: then these values are right so far. After a mistake, a form comes back without the password,
 * or with a message.
 */
const hasGrown = (sent: Sent, { fields }: Interpretation, back: Interpretation['fields']): boolean =>
  back.every(({ isFilled }) => isFilled) &&
  fields.some(({ key, role, isFilled }) => (role === 'code' || role === 'totp_code') && !isFilled && !sent.fields.some((field) => field.key === key))

const hadStoredPassword = ({ fields }: Sent): boolean => fields.some(({ source, role }) => source === 'stored' && role === 'password')

/** The service stopped while the form was sent: it is not known whether the site has got it. */
function interrupted(memory: Memory, sent: Sent): Decision | undefined {
  memory.sent = undefined
  if (hadStoredPassword(sent)) return fail('browser_error', 'the service was interrupted while it sent the stored password, which is sent only once')
  return undefined
}

/** The same page again, without a message of the site. */
function unchanged(memory: Memory, sent: Sent, seen: Interpretation): Decision | undefined {
  if (isTry(memory, `unchanged ${memory.pages}`, 1)) return { do: 'look', afterMs: SLOW_ANSWER_MS }
  if (sent.fields.some(({ source }) => source === 'totp') && memory.totp.tries < MAX_TOTP_TRIES && !hadStoredPassword(sent)) {
    memory.sent = undefined
    return undefined
  }
  const isTyped = sent.fields.some(({ source }) => source === 'typed' || source === 'code')
  if (isTyped && isTry(memory, 'silent', 1)) return refused(memory, sent, seen, [])
  return { ...fail('navigation_confused', 'the form was sent, and the site shows it again without saying why'), isRefusal: sent.isAnswered === true }
}

function refused(memory: Memory, sent: Sent, seen: Interpretation, invalid: string[]): Decision | undefined {
  memory.sent = undefined
  memory.websiteError = seen.websiteError
  const wrong = sent.fields.filter(({ key }) => invalid.length === 0 || invalid.includes(key))
  // The site may have refused a stored password that was sent beside the code. Its field on the page may still contain it: sending the next code would send it
  // again.
  const isOfCode = !hadStoredPassword(sent) || (invalid.length > 0 && wrong.every(({ source }) => source === 'totp'))
  const isTotp = isOfCode && wrong.some(({ source }) => source === 'totp')
  if (isTotp && memory.totp.tries < MAX_TOTP_TRIES) return undefined
  const isTyped = (isTotp ? wrong : sent.fields).some(({ source }) => source === 'typed' || source === 'code')
  if (!isTyped) return fail('credentials_invalid', isTotp ? 'the site refused the code of the stored TOTP secret' : 'the site refused the stored credential')
  memory.rejections++
  if (memory.rejections >= MAX_REJECTIONS) return fail('max_attempts_reached', `the site refused what was typed ${MAX_REJECTIONS} times`)
  // Most sites do not say which field is wrong. Ask for stored values among them, too: they may be the wrong ones.
  for (const { key, role } of wrong.length > 0 ? wrong : sent.fields) if (role !== 'checkbox' && role !== 'select') addOnce(memory.rejected, key)
  return undefined
}
