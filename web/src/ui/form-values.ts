// Turns the typed values of a form into the body of a call, and finds the field that an error of the service is about.

/**
 * The kind of a field: `lines` becomes an array with one text per line, `pairs` an object from `key=value` lines, `json` the parsed value, `switch` a boolean, `file`
 * a file (the whole form is then sent as multipart).
 */
export type Kind = 'text' | 'password' | 'number' | 'lines' | 'pairs' | 'json' | 'switch' | 'choice' | 'file'

export interface FieldSpec {
  /** The field's path in the body, with dots, as in errors of the service. */
  name: string
  label: string
  kind?: Kind
  hint?: string
  placeholder?: string
  options?: readonly (readonly [value: string, text: string])[]
  /** The initial text; for a switch `true` or empty. */
  initial?: string
  isRequired?: boolean
  rows?: number
  accept?: string
  /** Send it when it is empty too: that clears the present value. */
  sendsEmpty?: boolean
  /** Send it only when it differs from its initial value. */
  onlyChanged?: boolean
  /** Whether the field is part of the form with the present values. */
  when?: (values: Values) => boolean
}

export type Values = Record<string, string | File>
export type Body = Record<string, unknown>
export type Problems = Record<string, string>

/** The value of a field, or its error. Undefined when the field is left out. */
export function valueOf({ kind = 'text', isRequired, sendsEmpty }: FieldSpec, typed: string | File | undefined): { value?: unknown; problem?: string } {
  if (typed instanceof File) return { value: typed }
  const text = typed ?? ''
  if (kind === 'switch') return { value: text === 'true' }
  if (text.trim() === '') {
    if (isRequired) return { problem: kind === 'file' ? 'Choose a file.' : kind === 'choice' ? 'Choose one.' : 'Fill this in.' }
    if (!sendsEmpty) return {}
    return { value: kind === 'lines' ? [] : kind === 'pairs' || kind === 'json' ? {} : kind === 'number' ? 0 : '' }
  }
  if (kind === 'number') return Number.isFinite(Number(text)) ? { value: Number(text) } : { problem: 'Write a number.' }
  if (kind === 'password') return { value: text }
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)
  if (kind === 'lines') return { value: lines }
  if (kind === 'pairs') {
    const bad = lines.find((line) => !/^[^=]+=/.test(line))
    if (bad !== undefined) return { problem: `Each line must be key=value; "${bad.slice(0, 40)}" is not.` }
    return { value: Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf('=')).trim(), line.slice(line.indexOf('=') + 1).trim()])) }
  }
  if (kind === 'json')
    try {
      return { value: JSON.parse(text) as unknown }
    } catch (error) {
      return { problem: `This is not JSON: ${(error as Error).message}` }
    }
  return { value: text }
}

/** The body from these values. Do not send it when there are problems. */
export function bodyOf(fields: readonly FieldSpec[], values: Values): { body: Body; problems: Problems } {
  const body: Body = {}
  const problems: Problems = {}
  for (const field of fields) {
    if (field.when?.(values) === false) continue
    if (field.onlyChanged && values[field.name] === (field.initial ?? '')) continue
    const { value, problem } = valueOf(field, values[field.name])
    if (problem !== undefined) problems[field.name] = problem
    if (value !== undefined) put(body, field.name.split('.'), value)
  }
  return { body, problems }
}

function put(into: Body, [first, ...rest]: string[], value: unknown): void {
  if (rest.length === 0) into[first!] = value
  else put((into[first!] ??= {}) as Body, rest, value)
}

/** The parts of a service error that are about fields of this form. `others` is the rest, if there is any. */
export function problemsOf(error: unknown, fields: readonly FieldSpec[]): { problems: Problems; others: boolean } {
  const problems: Problems = {}
  const { status, message = '' } = error as { status?: number; message?: string }
  if (status !== 400 && status !== 409) return { problems, others: true }
  let others = false
  for (const part of message.split('; ')) {
    const [, named, problem] = /^([\w.[\]-]+): (.+)$/s.exec(part) ?? []
    const field = named === undefined ? undefined : fields.find(({ name }) => named === name || named.startsWith(`${name}.`) || named.startsWith(`${name}[`))
    if (field && problem !== undefined) problems[field.name] = `${named === field.name ? '' : `${named!.slice(field.name.length + 1)}: `}${problem}.`
    else others = true
  }
  return { problems, others }
}
