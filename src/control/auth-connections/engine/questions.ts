// Questions to a person: which fields and choices of a page are shown, and what happens when nobody is there. Pure.
import type { Decision, Known, Question } from './decision.ts'
import type { PausedChoice, PausedField } from '../flow.ts'
import type { Interpretation, PageChoice, PageField } from './interpretation.ts'
import type { Memory } from './memory.ts'

/** Nobody is there to answer. */
export const unattended = (what: string): Decision => ({
  do: 'fail',
  code: 'session_expired',
  message: `the session has expired, and the site asks for ${what}: a person has to log in`,
})

/** Asks for fields and offers the choices of the page. */
export function ask(memory: Memory, seen: Interpretation, about: Known, fields: PausedField[], external?: Question['external']): Decision {
  if (!about.isAttended) {
    const names = fields.filter(({ required }) => required).map(({ label, key }) => label || key)
    return unattended(names.length > 0 ? names.join(', ').slice(0, 200) : 'a choice')
  }
  memory.chosen = undefined
  return { do: 'ask', question: { fields, choices: seen.choices.map(pausedChoice), external } }
}

/** Shows the page to a person, who goes on in the live view. */
export function showPage(memory: Memory, seen: Interpretation, about: Known, message: string): Decision {
  return about.isAttended ? ask(memory, seen, about, [], { action: 'other', message }) : unattended('something that was not understood')
}

const pausedChoice = ({ type, label, provider, mfa, maskedDestination, description, xpath }: PageChoice, index: number): PausedChoice => ({
  id: `choice_${index + 1}`,
  type,
  label,
  provider,
  mfa,
  maskedDestination,
  description,
  selector: xpath,
})

export function pausedField(field: PageField, reason: PausedField['reason']): PausedField | undefined {
  const { role, key, label, placeholder, required, hint, options, codeBy, xpath } = field
  if (role === 'password_new') return undefined
  return { id: `field_${key}`, key, role, label, placeholder, required, hint, reason, options, codeBy, selector: xpath }
}
