// What is typed into a form, as the body of a call, and which field an error of the service is about.

/**
 * How a field is filled in and what it becomes: `lines` an array with one text a line, `pairs` an object of `key=value` lines, `json` what the text says,
 * `switch` a boolean, `file` a file (the whole form is then sent as one).
 */
export type Kind = 'text' | 'password' | 'number' | 'lines' | 'pairs' | 'json' | 'switch' | 'choice' | 'file'

export interface FieldSpec {
  /** Its place in the body, with dots: the name that errors of the service have for it. */
  name: string
  label: string
  kind?: Kind
  hint?: string
  placeholder?: string
  options?: readonly (readonly [value: string, text: string])[]
  /** As it is typed; of a switch `true` or empty. */
  initial?: string
  isRequired?: boolean
  rows?: number
  accept?: string
  /** Empty is sent as well: it clears what there is. */
  sendsEmpty?: boolean
  /** It is sent only when it is not as it was at first. */
  onlyChanged?: boolean
  /** Whether it belongs to the form, as it is filled in now. */
  when?: (values: Values) => boolean
}

export type Values = Record<string, string | File>
export type Body = Record<string, unknown>
export type Problems = Record<string, string>

/** The value of a field, or what is wrong with it. Undefined: it is left out. */
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

/** The body that these values make. With problems it must not be sent. */
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

/** The parts of an error of the service that are about fields of this form; `others` is the rest of it, if it has one. */
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
