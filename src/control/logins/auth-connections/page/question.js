// What a login asks of the person, from the state in either of its two generations, and the form for it.
import { foreign, make } from './dom.js'
import { methodName, plain, providerName, sentence } from './texts.js'

/** The longest value that the service takes. */
const LONGEST_VALUE = 16_384

/** How browsers help to fill in a field of a type: keyboard, stored values, and whether it is a secret. */
const KINDS = {
  identifier: { autocomplete: 'username', isName: true },
  password: { autocomplete: 'current-password', isSecret: true },
  code: { autocomplete: 'one-time-code', isCode: true },
  totp_code: { autocomplete: 'one-time-code', inputmode: 'numeric', isCode: true },
  totp_secret: { autocomplete: 'off', isSecret: true },
  text: { autocomplete: 'off' },
  email: { autocomplete: 'username', inputmode: 'email', isName: true },
  tel: { autocomplete: 'tel', inputmode: 'tel' },
  number: { autocomplete: 'off', inputmode: 'numeric' },
  url: { autocomplete: 'url', inputmode: 'url' },
  totp: { autocomplete: 'one-time-code', inputmode: 'numeric', isCode: true },
}
const INPUT_MODES = ['text', 'decimal', 'numeric', 'tel', 'email', 'url']

/** The fields, each with the name that its value is sent under; canonical ones if there are any. */
function fieldsOf({ fields, discovered_fields: older }) {
  if (fields?.length)
    return fields.map((field) => {
      const twin = older?.find(({ name }) => name === field.ref || name === field.id)
      const help = (field.type === 'identifier' && twin?.type === 'email') || (field.type === 'text' && twin?.type) ? twin.type : field.type
      return { ...field, key: field.id, help, hint: field.hint ?? twin?.hint, placeholder: twin?.placeholder, options: field.options ?? twin?.options }
    })
  return (older ?? []).map((field) => ({ ...field, key: field.name, help: field.type }))
}

const withoutRepeats = (texts) => texts.filter((text, at) => text && texts.indexOf(text) === at)

function choicesOf({ choices, mfa_options: methods, pending_sso_buttons: buttons, sign_in_options: options }) {
  if (choices?.length)
    return choices.map((choice) => ({
      group: choice.type === 'sso_provider' ? 'sso' : choice.type === 'mfa_method' ? 'method' : choice.type === 'account' ? 'account' : 'other',
      label: plain(choice.display_text ?? choice.label) || methodName(choice.mfa_type) || 'Continue',
      details: withoutRepeats([plain(choice.masked_destination), sentence(choice.context ?? choice.description)]),
      answer: { selected_choice_id: choice.id },
    }))
  return [
    ...(buttons ?? []).map(({ label, provider, selector }) => ({
      group: 'sso',
      label: plain(label) || `Continue with ${providerName(provider)}`,
      details: [],
      answer: { sso_button_selector: selector },
    })),
    ...(methods ?? []).map(({ type, label, target, description }) => ({
      group: 'method',
      label: plain(label) || methodName(type) || 'Continue',
      details: withoutRepeats([plain(target), sentence(description)]),
      answer: { mfa_option_id: type },
    })),
    ...(options ?? []).map(({ id, label, description }) => ({
      group: 'other',
      label: plain(label) || 'Continue',
      details: withoutRepeats([sentence(description)]),
      answer: { sign_in_option_id: id },
    })),
  ]
}

/** The same text for the same question, so that a form stays as it is while states repeat. */
export const questionName = ({ interaction_id, ...state }) =>
  interaction_id ??
  JSON.stringify([state.fields ?? state.discovered_fields, state.choices ?? [state.mfa_options, state.pending_sso_buttons, state.sign_in_options]])

/** What a state asks for, and the heading for it. */
export function questionOf(state, domain) {
  const fields = fieldsOf(state)
  const choices = choicesOf(state)
  const isCanonical = Boolean(state.fields?.length)
  const kinds = fields.map(({ type }) => KINDS[type] ?? KINDS.text)
  const title = () => {
    if (fields.length > 0) return kinds.some(({ isCode }) => isCode) && !kinds.some(({ isName }) => isName) ? 'Enter the code' : `Log in to ${domain}`
    if (choices.some(({ group }) => group === 'method')) return 'Choose how to confirm that it is you'
    if (choices.some(({ group }) => group === 'account')) return 'Choose an account'
    return choices.length > 0 ? 'Choose how to log in' : 'Waiting for the site'
  }
  return { title: title(), fields, choices, answerOf: (values) => (isCanonical ? { field_values: values } : { fields: values }) }
}

/** One field with its label, hint and error. `value` reads it; `complain` shows what is wrong with it. */
function fieldElement(field, at, remembered) {
  const id = `field-${at}`
  const kind = KINDS[field.help] ?? KINDS.text
  const label = plain(field.label) || (kind.isSecret ? 'Password' : kind.isCode ? 'Code' : 'Value')
  const hint = sentence(field.hint)
  const wasRejected = field.reason === 'rejected'
  const error = make('p', { class: 'wrong', id: `${id}-wrong` }, wasRejected && 'The site did not accept this. Check it and type it again.')
  const shared = {
    id,
    name: id,
    required: field.required !== false,
    'aria-invalid': wasRejected && 'true',
    'aria-describedby': `${hint ? `${id}-hint ` : ''}${id}-wrong`,
  }
  const input = field.options?.length
    ? make(
        'select',
        shared,
        make('option', { value: '' }, 'Choose…'),
        ...field.options.map((option) => make('option', { value: String(option), dir: 'auto' }, plain(String(option)))),
      )
    : make('input', {
        ...shared,
        type: kind.isSecret ? 'password' : 'text',
        autocomplete: kind.autocomplete,
        inputmode: INPUT_MODES.includes(field.input_mode) ? field.input_mode : kind.inputmode,
        maxlength: LONGEST_VALUE,
        placeholder: plain(field.placeholder) || undefined,
        autocapitalize: 'none',
        autocorrect: 'off',
        spellcheck: 'false',
        dir: kind.isCode ? 'ltr' : 'auto',
        class: kind.isCode && 'code',
      })
  if (!kind.isSecret && !kind.isCode && remembered) input.value = remembered
  const show =
    kind.isSecret &&
    make(
      'button',
      {
        type: 'button',
        class: 'reveal',
        'aria-pressed': 'false',
        'aria-controls': id,
        onclick: ({ currentTarget: button }) => {
          const isShown = input.type === 'password'
          input.type = isShown ? 'text' : 'password'
          button.setAttribute('aria-pressed', String(isShown))
        },
      },
      'Show',
      make('span', { class: 'unseen' }, ' ', foreign(label)),
    )
  const element = make(
    'div',
    { class: 'field' },
    make('label', { for: id }, foreign(label), field.required === false && make('span', { class: 'quiet' }, ' (optional)')),
    hint && make('p', { class: 'hint', id: `${id}-hint` }, foreign(hint)),
    make('div', { class: 'input' }, input, show),
    error,
  )
  return {
    field,
    element,
    input,
    label,
    isKept: !kind.isSecret && !kind.isCode,
    /** Spaces around a name or a code come from copying; in a password they may be meant. */
    value: () => (kind.isSecret || field.options?.length ? input.value : input.value.trim()),
    complain(text) {
      error.textContent = text
      if (text) input.setAttribute('aria-invalid', 'true')
      else input.removeAttribute('aria-invalid')
    },
  }
}

const GROUPS = { method: 'Ways to confirm', account: 'Accounts', other: 'Ways to go on', sso: 'Ways to log in with another account' }

/**
 * The form of a question.
 * @param {{ remembered: Map<string, string>, onAnswer(answer: object): void, onIncomplete(text: string): void }} options
 */
export function questionElement({ fields, choices, answerOf }, { remembered, onAnswer, onIncomplete }) {
  const rows = fields.map((field, at) => fieldElement(field, at, remembered.get(field.ref ?? field.key)))
  const submit = (event) => {
    event.preventDefault()
    for (const row of rows) row.complain('')
    const missing = rows.filter((row) => row.field.required !== false && row.value() === '')
    if (missing.length > 0) {
      for (const row of missing) row.complain(row.input.tagName === 'SELECT' ? 'Choose one.' : 'Fill this in.')
      onIncomplete(missing.length === 1 ? `${missing[0].label} is missing.` : `${missing.length} fields are missing.`)
      missing[0].input.focus()
      return
    }
    for (const row of rows) if (row.isKept) remembered.set(row.field.ref ?? row.field.key, row.value())
    onAnswer(answerOf(Object.fromEntries(rows.map((row) => [row.field.key, row.value()]).filter(([, value]) => value !== ''))))
  }
  const form =
    rows.length > 0 &&
    make('form', { novalidate: true, onsubmit: submit }, ...rows.map(({ element }) => element), make('button', { class: 'main', type: 'submit' }, 'Continue'))
  const lists = Object.entries(GROUPS).flatMap(([group, name]) => {
    const ours = choices.filter((choice) => choice.group === group)
    if (ours.length === 0) return []
    const item = ({ label, details, answer }) =>
      make(
        'li',
        {},
        make(
          'button',
          { type: 'button', class: 'choice', onclick: () => onAnswer(answer) },
          foreign(label, { class: 'choice-name' }),
          ...details.map((text) => foreign(text, { class: 'choice-more' })),
        ),
      )
    return [make('ul', { class: 'choices', 'aria-label': name }, ...ours.map(item))]
  })
  const divider = form && lists.length > 0 && make('p', { class: 'or' }, 'or')
  return make('div', { class: 'question' }, form, divider, ...lists)
}
