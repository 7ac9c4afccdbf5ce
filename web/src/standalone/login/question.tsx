// The questions of a login, and the form that answers them.
import { useRef, useState, type InputHTMLAttributes } from 'react'
import type { Choice, Connection, Field } from '../../../../src/control/logins/auth-connections/shown/contract.ts'
import { methodName, plain, sentence } from './texts.ts'

/** The longest value that the service accepts. */
const LONGEST_VALUE = 16_384

/** Per type of field: how browsers help to fill it in (stored values, keyboard), and whether it is a secret. */
interface Kind {
  autoComplete: string
  inputMode?: InputHTMLAttributes<HTMLInputElement>['inputMode']
  isName?: boolean
  isSecret?: boolean
  isCode?: boolean
}
const KINDS: Record<Field['type'], Kind> = {
  identifier: { autoComplete: 'username', isName: true },
  password: { autoComplete: 'current-password', isSecret: true },
  code: { autoComplete: 'one-time-code', isCode: true },
  totp_code: { autoComplete: 'one-time-code', inputMode: 'numeric', isCode: true },
  totp_secret: { autoComplete: 'off', isSecret: true },
  text: { autoComplete: 'off' },
}
/** The input modes of fields whose name says what they are. */
const NAMES: Record<string, Kind['inputMode']> = { email: 'email', phone: 'tel' }
const INPUT_MODES = ['text', 'decimal', 'numeric', 'tel', 'email', 'url']

interface Asked {
  /** The name under which the value is sent. */
  key: string
  /** The field's name, which is the same in other questions. */
  ref: string
  label: string
  hint: string
  placeholder: string
  kind: Kind
  inputMode: Kind['inputMode']
  isRequired: boolean
  wasRejected: boolean
  options: string[] | undefined
}

interface Way {
  group: keyof typeof GROUPS
  label: string
  details: string[]
  id: string
}

export interface Question {
  name: string
  title: string
  fields: Asked[]
  ways: Way[]
}

function askedBy(field: Field, older: Connection['discovered_fields']): Asked {
  const kind = KINDS[field.type] ?? KINDS.text
  const { input_mode: mode, options } = field
  return {
    key: field.id,
    ref: field.ref,
    label: plain(field.label) || (kind.isSecret ? 'Password' : kind.isCode ? 'Code' : 'Value'),
    hint: sentence(field.hint),
    // Only the older form of the fields has a placeholder.
    placeholder: plain(older?.find(({ name }) => name === field.ref)?.placeholder),
    kind,
    inputMode: mode && INPUT_MODES.includes(mode) ? (mode as Kind['inputMode']) : kind.isName ? NAMES[field.ref] : kind.inputMode,
    isRequired: field.required,
    wasRejected: field.reason === 'rejected',
    options: options?.length ? options : undefined,
  }
}

const GROUPS = { method: 'Ways to confirm', account: 'Accounts', other: 'Ways to go on', sso: 'Ways to log in with another account' }
const GROUP_OF: Partial<Record<Choice['type'], keyof typeof GROUPS>> = { sso_provider: 'sso', mfa_method: 'method', account: 'account' }

function wayOf({ id, type, display_text: text, label, mfa_type: method, masked_destination: to, context, description }: Choice): Way {
  const details = [plain(to), sentence(context ?? description)]
  return {
    group: GROUP_OF[type] ?? 'other',
    label: plain(text ?? label) || methodName(method) || 'Continue',
    details: details.filter((detail, at) => detail && details.indexOf(detail) === at),
    id,
  }
}

/** The name of a question. It stays the same while states repeat, so that the form stays too. */
export const questionName = ({ interaction_id: name }: Connection): string => name ?? ''

/** The questions of a state, and the heading. */
export function questionOf(state: Connection, domain: string): Question {
  const fields = (state.fields ?? []).map((field) => askedBy(field, state.discovered_fields))
  const ways = (state.choices ?? []).map(wayOf)
  const title = (): string => {
    if (fields.length > 0) return fields.some(({ kind }) => kind.isCode) && !fields.some(({ kind }) => kind.isName) ? 'Enter the code' : `Log in to ${domain}`
    if (ways.some(({ group }) => group === 'method')) return 'Choose how to confirm that it is you'
    if (ways.some(({ group }) => group === 'account')) return 'Choose an account'
    return ways.length > 0 ? 'Choose how to log in' : 'Waiting for the site'
  }
  return { name: questionName(state), title: title(), fields, ways }
}

/** Text that others have written. Its text direction does not affect the text around it. */
export const Foreign = ({ children, ...more }: { children: string; className?: string }) => (
  <bdi dir="auto" {...more}>
    {children}
  </bdi>
)

interface FieldProps {
  field: Asked
  id: string
  value: string
  wrong: string
  onValue: (value: string) => void
}

function FieldRow({ field: { label, hint, kind, ...field }, id, value, wrong, onValue }: FieldProps) {
  const [isShown, show] = useState(false)
  const shared = {
    id,
    name: id,
    required: field.isRequired,
    defaultValue: value,
    'aria-describedby': `${hint ? `${id}-hint ` : ''}${id}-wrong`,
    ...(wrong && { 'aria-invalid': true }),
    onInput: (event: { currentTarget: { value: string } }) => onValue(event.currentTarget.value),
  }
  return (
    <div className="field">
      <label htmlFor={id}>
        <Foreign>{label}</Foreign>
        {!field.isRequired && <span className="muted"> (optional)</span>}
      </label>
      {hint && (
        <p className="hint" id={`${id}-hint`}>
          <Foreign>{hint}</Foreign>
        </p>
      )}
      <div className="input">
        {field.options ? (
          <select {...shared}>
            <option value="">Choose…</option>
            {field.options.map((option) => (
              <option key={option} value={option} dir="auto">
                {plain(option)}
              </option>
            ))}
          </select>
        ) : (
          <input
            {...shared}
            type={kind.isSecret && !isShown ? 'password' : 'text'}
            autoComplete={kind.autoComplete}
            inputMode={field.inputMode}
            maxLength={LONGEST_VALUE}
            placeholder={field.placeholder || undefined}
            autoCapitalize="none"
            autoCorrect="off"
            spellCheck="false"
            dir={kind.isCode ? 'ltr' : 'auto'}
            className={kind.isCode ? 'code' : undefined}
          />
        )}
        {kind.isSecret && (
          <button type="button" className="reveal" aria-pressed={isShown} aria-controls={id} onClick={() => show(!isShown)}>
            Show
            <span className="visually-hidden">
              {' '}
              <Foreign>{label}</Foreign>
            </span>
          </button>
        )}
      </div>
      <p className="problem" id={`${id}-wrong`}>
        {wrong}
      </p>
    </div>
  )
}

interface FormProps {
  question: Question
  /** The typed values by field key. They outlive the form, because an answer that could not be sent is shown again. */
  typed: Map<string, string>
  onAnswer: (answer: object) => void
  onIncomplete: (text: string) => void
}

/** The form of a question. */
export function QuestionForm({ question: { fields, ways }, typed, onAnswer, onIncomplete }: FormProps) {
  const form = useRef<HTMLFormElement>(null)
  const [wrongs, complain] = useState<string[]>(
    fields.map(({ wasRejected }) => (wasRejected ? 'The site did not accept this. Check it and type it again.' : '')),
  )
  /** Spaces around a name or a code come from copying. In a password they may be meant. */
  const valueOf = ({ key, kind, options }: Asked): string => (kind.isSecret || options ? (typed.get(key) ?? '') : (typed.get(key) ?? '').trim())
  const submit = (event: React.SubmitEvent): void => {
    event.preventDefault()
    const found = fields.map((field) => (field.isRequired && valueOf(field) === '' ? (field.options ? 'Choose one.' : 'Fill this in.') : ''))
    complain(found)
    const missing = fields.filter((_, at) => found[at] !== '')
    if (missing.length === 0)
      return onAnswer({ field_values: Object.fromEntries(fields.map((field) => [field.key, valueOf(field)]).filter(([, value]) => value !== '')) })
    onIncomplete(missing.length === 1 ? `${missing[0]!.label} is missing.` : `${missing.length} fields are missing.`)
    form.current!.querySelector<HTMLElement>(`#field-${fields.indexOf(missing[0]!)}`)!.focus()
  }
  return (
    <div className="question">
      {fields.length > 0 && (
        <form noValidate onSubmit={submit} ref={form}>
          {fields.map((field, at) => (
            <FieldRow
              key={field.key}
              field={field}
              id={`field-${at}`}
              value={typed.get(field.key) ?? ''}
              wrong={wrongs[at]!}
              onValue={(value) => typed.set(field.key, value)}
            />
          ))}
          <button className="button primary">Continue</button>
        </form>
      )}
      {fields.length > 0 && ways.length > 0 && <p className="or">or</p>}
      {Object.entries(GROUPS).map(([group, name]) => {
        const ours = ways.filter((each) => each.group === group)
        return (
          ours.length > 0 && (
            <ul key={group} className="choices" aria-label={name}>
              {ours.map(({ id, label, details }) => (
                <li key={id}>
                  <button type="button" className="button choice" onClick={() => onAnswer({ selected_choice_id: id })}>
                    <Foreign className="choice-name">{label}</Foreign>
                    {details.map((text) => (
                      <Foreign key={text} className="choice-more">
                        {text}
                      </Foreign>
                    ))}
                  </button>
                </li>
              ))}
            </ul>
          )
        )
      })}
    </div>
  )
}
