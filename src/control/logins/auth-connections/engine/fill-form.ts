// Decides about a form of the login: fills known values, asks for missing or refused ones. Pure.
import type { PausedField } from '../flow.ts'
import { MAX_TOTP_TRIES } from './answered.ts'
import { byHost, choose, known, takeChosen, takeLearned, takeSso } from './choosing.ts'
import type { Decision, Fill, Known, PageFacts } from './decision.ts'
import type { Interpretation, PageField } from './interpretation.ts'
import { addOnce, isTry, requirementOfCode, type Memory, type Source } from './memory.ts'
import { ask, pausedField, unattended } from './questions.ts'

/** Fields without which the form is not sent, whether the page marks them as required or not. */
const isNeeded = ({ role, required }: PageField): boolean => required || role === 'identifier' || role === 'password' || role === 'code' || role === 'totp_code'

export function fillForm(memory: Memory, seen: Interpretation, page: PageFacts, about: Known): Decision {
  const chosen = takeChosen(memory, seen, about) ?? takeSso(memory, seen, about) ?? takeLearned(memory, seen, about)
  if (chosen) return chosen
  const fields = seen.fields.filter(({ role }) => role !== 'password_new')
  const refused = byHost(memory, page, about, fields)
  if (refused) return refused
  const fills = fields.flatMap((field): Fill[] => {
    const source = sourceOf(memory, field, about)
    return source === undefined ? [] : [{ field, source }]
  })
  const missing = fields.filter((field) => !fills.some((fill) => fill.field === field) && !isDone(memory, field))
  if (missing.some(isNeeded)) return otherWay(memory, seen, missing, about) ?? askFor(memory, seen, missing, about)
  if (fills.length === 0 && seen.submit === undefined) return ask(memory, seen, about, [], { action: 'other', message: 'Use the live view to go on.' })
  return fill(memory, seen, fills, about)
}

/** Whether a field needs nothing: the page has filled it, and the site has not refused it. */
const isDone = (memory: Memory, { isFilled, key }: PageField): boolean => isFilled && !memory.rejected.includes(key)

function sourceOf(memory: Memory, field: PageField, about: Known): Source | undefined {
  const { key, role, codeBy } = field
  const source = known(memory, about, key, role)
  if (source !== undefined) return source
  const isForTotp = role === 'totp_code' || (role === 'code' && (codeBy === undefined || codeBy === 'totp'))
  return isForTotp && about.hasTotp && memory.totp.tries < MAX_TOTP_TRIES ? 'totp' : undefined
}

/** Switches to a method whose code the flow can make, when the page asks for a code of another method. */
function otherWay(memory: Memory, seen: Interpretation, missing: PageField[], about: Known): Decision | undefined {
  if (seen.kind !== 'code' || !about.hasTotp || memory.totp.tries > 0 || !missing.some(({ role }) => role === 'code')) return undefined
  const offer = seen.choices.find(({ mfa }) => mfa === 'totp') ?? seen.choices.find(({ mfa }) => mfa === 'switch')
  return offer && isTry(memory, `other way ${seen.signature}`, 1) ? choose(memory, seen, offer, about) : undefined
}

function askFor(memory: Memory, seen: Interpretation, missing: PageField[], about: Known): Decision {
  // End it as a refusal: otherwise the next check would send the password again, without a person.
  if (!about.isAttended && missing.some(({ role, key }) => role === 'password' && memory.storedSent.includes(key)))
    return { do: 'fail', code: 'credentials_invalid', message: 'the site asks again for the stored password, which is sent once' }
  // Optional fields are offered together with required ones.
  const asked = missing.flatMap((field): PausedField[] => {
    const reason = memory.rejected.includes(field.key) || field.isInvalid ? 'rejected' : 'missing'
    const paused = pausedField(field, reason)
    return paused ? [{ ...paused, required: isNeeded(field) }] : []
  })
  return ask(memory, seen, about, asked)
}

function fill(memory: Memory, seen: Interpretation, fills: Fill[], about: Known): Decision {
  // A person has to solve the captcha at the form first, and then sends the form.
  const isHeld = seen.external?.action === 'captcha'
  if (isHeld && !about.isAttended)
    return { do: 'fail', code: 'captcha_blocked', message: 'the site shows a captcha at its form, and nobody is there to solve it' }
  if (fills.length === 0 && !about.isAttended && !isTry(memory, `empty ${seen.signature}`, 1)) return unattended('something that was not understood')
  if (isHeld && !isTry(memory, `held ${seen.signature} ${memory.rejections}`, 1)) return ask(memory, seen, about, [], seen.external)
  for (const { field, source } of fills) {
    if (field.role !== 'code' && field.role !== 'totp_code' && field.role !== 'checkbox') addOnce(memory.keys, field.key)
    if (source === 'stored') addOnce(memory.storedSent, field.key)
    if (source === 'totp') memory.totp.tries++
    if (field.role === 'password') memory.hasSentPassword = true
    if (field.role === 'identifier' || field.role === 'password') addOnce(memory.requirements, field.role)
    else if (source === 'totp') addOnce(memory.requirements, 'totp')
    else if (source === 'code' && field.role !== 'checkbox') addOnce(memory.requirements, field.role === 'totp_code' ? 'totp' : requirementOfCode(field.codeBy))
    else addOnce(memory.requirements, 'text')
  }
  if (isHeld) addOnce(memory.requirements, 'captcha')
  memory.sent = {
    signature: seen.signature,
    kind: seen.kind,
    fields: fills.map(({ field: { key, role }, source }) => ({ key, role, source })),
    isUnsure: true,
  }
  memory.hasSent = true
  memory.hasActed = true
  memory.websiteError = undefined
  memory.steps.push({ signature: seen.signature, choice: undefined })
  return { do: 'fill', fills, tick: seen.tick, submit: seen.submit, isHeld }
}
