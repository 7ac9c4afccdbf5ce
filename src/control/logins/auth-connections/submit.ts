// Converts a caller's submission, in any of seven forms, into one answer to the present question. Needs no database.
import { fault } from '../../../http/fault.ts'
import { MFA_TYPES, type Submission } from './contract.ts'
import type { Answer, Pause, PausedChoice, PausedField } from './flow.ts'

/** @throws 400 that names the missing, unknown or unasked field; 409 when the question is over. `pause`: undefined while nothing is asked. */
export function answerTo(pause: Pause | undefined, submission: Submission): Answer {
  const { interaction_id: interaction, ...ways } = submission
  if (interaction !== undefined && interaction !== pause?.interactionId)
    throw fault.conflict('interaction_id names a question that is over; read the connection again')
  const [[way, given] = []] = Object.entries(ways).filter(([, value]) => value !== undefined) as [keyof typeof ways, string | Record<string, string>][]
  if (way === undefined || given === undefined) throw fault.field('field_values', 'must be given, or a choice')
  if (!pause) throw fault.field(way, 'cannot be taken: the login asks for nothing at the moment')
  const answer = { interactionId: pause.interactionId, values: {}, choice: undefined }
  if (typeof given === 'object') return { ...answer, values: valuesFor(pause.fields, way, given) }
  const choice = choiceFor(pause.choices, way, given)
  if (pause.choices.length === 0) throw fault.field(way, 'cannot be taken: the login offers no choice at the moment')
  if (!choice) throw fault.field(way, 'names nothing that is offered')
  return { ...answer, choice: choice.id }
}

/** Values by ids or, in the earlier generation, by names, which may equal ids. Further keys are ignored. */
function valuesFor(fields: readonly PausedField[], way: string, given: Record<string, string>): Record<string, string> {
  if (fields.length === 0) throw fault.field(way, 'cannot be taken: the login asks for no values at the moment')
  // Own properties only: a key may have the name of a property that every object has.
  const of = (key: string): string | undefined => (Object.hasOwn(given, key) ? given[key] : undefined)
  const called = (field: PausedField): string => (way === 'fields' ? field.key : field.id)
  const found = fields.map((field) => ({ field, value: of(called(field)) ?? of(way === 'fields' ? field.id : field.key) }))
  if (found.every(({ value }) => value === undefined)) {
    const unknown = Object.keys(given)[0]
    throw fault.field(unknown === undefined ? way : `${way}.${unknown}`, `names no field that is asked for: ${fields.map(called).join(', ')}`)
  }
  const problems = found.flatMap(({ field, value }) => {
    const at = `${way}.${called(field)}`
    if (field.required && (value === undefined || value === '')) return [{ field: at, problem: 'is required' }]
    if (value && field.options && !field.options.includes(value)) return [{ field: at, problem: `must be one of: ${field.options.join(', ')}` }]
    return []
  })
  if (problems.length > 0) throw fault.invalid(problems)
  return Object.fromEntries(found.flatMap(({ field, value }) => (value === undefined || value === '' ? [] : [[field.id, value]])))
}

function choiceFor(choices: readonly PausedChoice[], way: string, given: string): PausedChoice | undefined {
  const byId = () => choices.find(({ id }) => id === given)
  const sso = choices.filter(({ type }) => type === 'sso_provider')
  switch (way) {
    case 'mfa_option_id':
      // The type that the earlier generation shows. If several have it, the first one.
      return choices.find((choice) => legacyMfa(choice) === given) ?? byId()
    case 'sso_button_selector':
      return sso.find(({ selector }) => selector === given)
    case 'sso_provider':
      return sso.find(({ provider }) => provider === given.toLowerCase())
    default: // selected_choice_id, sign_in_option_id
      return byId()
  }
}

/** The name of a method in the earlier generation; undefined when there is none. "Another way" is a switch. */
export function legacyMfa({ type, mfa }: Pick<PausedChoice, 'type' | 'mfa'>): (typeof MFA_TYPES)[number] | undefined {
  if (type !== 'mfa_method') return undefined
  if (mfa === undefined || mfa === 'other') return 'switch'
  return MFA_TYPES.find((known) => known === mfa)
}
