// Questions to a person: the fields and choices that are shown, and the ending when nobody is there. Pure.
import type { Decision, Known, Question } from './decision.ts'
import type { PausedChoice, PausedField } from '../flow.ts'
import type { Interpretation, PageChoice, PageField } from './interpretation.ts'
import type { Memory } from './memory.ts'

/** The ending when a person is needed and nobody can answer. */
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

/** Shows the page to a person, who continues in the live view. */
export function showPage(memory: Memory, seen: Interpretation, about: Known, message: string): Decision {
  return about.isAttended ? ask(memory, seen, about, [], { action: 'other', message }) : unattended('something that was not understood')
}

/**
 * A question in the form that is stored and shown: without values, which the page may repeat beside a field ("Password of jane"). Accounts and organizations
 * keep their names, and selects their options: without them nobody could choose. They are removed with the question.
 */
export const scrubbed = ({ fields, choices, external }: Question, scrub: (text: string) => string): Question => ({
  fields: fields.map((field) => ({ ...field, label: scrub(field.label), placeholder: scrub(field.placeholder), hint: field.hint && scrub(field.hint) })),
  choices: choices.map((choice) => {
    if (choice.type === 'account' || choice.type === 'other') return choice
    const [maskedDestination, description] = [choice.maskedDestination, choice.description].map((text) => text && scrub(text))
    return { ...choice, label: scrub(choice.label), maskedDestination, description }
  }),
  external: external && { ...external, message: scrub(external.message) },
})

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
