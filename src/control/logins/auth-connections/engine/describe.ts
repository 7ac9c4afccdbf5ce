// Describes the fields of a form for people: keys, labels, hints, where a code comes from.
import { maskedIn, mfaMethodIn } from './choices.ts'
import type { FieldRole, MfaMethod, PageField } from './interpretation.ts'
import type { Group, Role } from './fields.ts'
import type { Seen, View } from './view.ts'
import { spaced, tokensOf, wordsOf } from './words.ts'

const MAX_HINT = 300
const MAX_KEY = 40

/** The fields of a login form, in order. Also those of a form that is never filled, under their roles. */
export function describe(view: View, group: Group): PageField[] {
  const used = new Set<string>()
  const fields = group.roles.map((role) => fieldOf(view, group, role))
  for (const field of fields) {
    let key = field.key
    for (let count = 2; used.has(key); count++) key = `${field.key}_${count}`
    used.add(key)
    field.key = key
  }
  return [...fields, ...group.ticks.filter((seen) => isWanted(seen)).map((seen) => boxOf(view, seen, used))]
}

/** Boxes that are required, except those that the engine ticks by itself. */
const isWanted = ({ control, label, name }: Seen): boolean =>
  control.required && control.checked !== true && !label.has('remember') && !label.has('trust') && !name.has('remember')

function boxOf(view: View, seen: Seen, used: ReadonlySet<string>): PageField {
  const field = plain(view, seen, 'checkbox')
  let key = seen.label.has('terms') ? 'terms' : keyFrom(seen)
  for (let count = 2; used.has(key); count++) key = `${key}_${count}`
  return { ...field, key }
}

function fieldOf(view: View, group: Group, { seen, role, boxes }: Role): PageField {
  const code = role === 'code' ? codeSource(view, seen, group) : undefined
  const kind: FieldRole = role === 'code' && code?.by === 'totp' ? 'totp_code' : role
  const field = plain(view, seen, kind)
  return {
    ...field,
    key: keyOf(seen, kind),
    isInvalid: field.isInvalid || (boxes?.some(({ control }) => control.invalid) ?? false),
    boxes: boxes?.map(({ control }) => control.ref),
    codeBy: code?.by,
    hint: code?.hint ?? field.hint,
    required: field.required || ['identifier', 'password', 'code', 'totp_code'].includes(kind),
  }
}

function plain(view: View, { control, label }: Seen, role: FieldRole): PageField {
  const isChosen = control.tag === 'select' && control.has_value
  // A placeholder may be an example ("localhost"): then a short text beside the field is its label.
  const isExample = control.label_from === 'placeholder' && label.size === 0 && control.near !== '' && tokensOf(control.near).length <= 2
  const shown = (isExample ? control.near : control.label) || control.placeholder || control.near || spaced(control.name || control.id)
  return {
    ref: control.ref,
    role,
    key: '',
    label: shown.replace(/[\s:*：]+$/u, '').slice(0, 200),
    placeholder: control.placeholder,
    required: control.required || (/\*\s*$/.test(control.label) && !label.has('search')),
    hint: control.described === '' ? undefined : control.described,
    isInvalid: control.invalid,
    // If a password or a code is in its field before anything was sent, somebody else has typed it, or a password manager that hides it.
    isFilled:
      isChosen ||
      (control.has_value && (role !== 'password' || view.context.hasSubmitted) && role !== 'password_new' && role !== 'code' && role !== 'totp_code'),
    boxes: undefined,
    options: control.tag === 'select' ? control.options : undefined,
    codeBy: undefined,
    xpath: control.xpath,
    host: view.model.frames[control.frame]?.host ?? '',
  }
}

function keyOf(seen: Seen, role: FieldRole): string {
  if (role === 'identifier') return identifierKey(seen)
  if (role === 'password') return 'password'
  if (role === 'password_new') return 'new_password'
  if (role === 'code' || role === 'totp_code') return 'code'
  return keyFrom(seen)
}

/** `username`, unless the field accepts only an address or only a number. */
function identifierKey({ control, label, name, autocomplete }: Seen): 'username' | 'email' | 'phone' {
  if (label.has('user')) return 'username'
  const isMail = control.type === 'email' || autocomplete.has('email') || label.has('email')
  const isPhone = control.type === 'tel' || autocomplete.has('tel') || label.has('phone')
  if (isMail && !isPhone) return 'email'
  if (isPhone && !isMail) return 'phone'
  if (isMail || name.has('user')) return 'username'
  if (name.has('email')) return 'email'
  return name.has('phone') ? 'phone' : 'username'
}

/** A key made of the label, if that has one to three plain words, otherwise of the name in the page's code. */
function keyFrom({ control, label }: Seen): string {
  if (label.has('image_code')) return 'captcha'
  const word = (text: string, most: number): string | undefined => {
    const tokens = tokensOf(text).filter((token) => /^[a-z0-9]+$/.test(token))
    return tokens.length > 0 && tokens.length <= most && /^[a-z]/.test(tokens[0]!) ? tokens.join('_').slice(0, MAX_KEY) : undefined
  }
  const { label_from: from } = control
  // In forms without labels, a short text beside a field is its label. A placeholder may be an example ("localhost").
  const near = word(control.near, 2)
  const own = from === 'near' ? near : from === 'placeholder' ? undefined : word(control.label, 3)
  const coded = word(lastPart(control.name), 4) ?? word(lastPart(control.id), 4)
  return own ?? coded ?? word(control.placeholder, 3) ?? near ?? word(control.label, 6) ?? 'field'
}

/** `auth[server]` is the field `server` of a form named auth. */
const lastPart = (name: string): string => spaced(/\[([^\]]+)\]$/.exec(name)?.[1] ?? name)

/** The method by which a code comes, from the nearest text that names one. */
function codeSource(view: View, seen: Seen, group: Group): { by: MfaMethod | undefined; hint: string | undefined } {
  const { control } = seen
  const own = [control.label, control.placeholder, control.described, control.near]
  const sentences = sentencesOf(view.bodyText).filter((sentence) => isAboutCode(sentence))
  const submit = group.submit ? [group.submit.control.label] : []
  const hint =
    own.slice(2).find((text) => text !== '' && (maskedIn(text) !== undefined || isAboutCode(text))) ?? sentences.find((text) => maskedIn(text)) ?? sentences[0]
  for (const text of [...own, ...view.model.headings, ...sentences, view.model.title, spaced(`${control.name} ${control.id}`), ...submit]) {
    const by = text === '' ? undefined : mfaMethodIn(text)
    if (by !== undefined && by !== 'passkey' && by !== 'push') return { by, hint: hint?.slice(0, MAX_HINT) }
  }
  return { by: undefined, hint: hint?.slice(0, MAX_HINT) }
}

function isAboutCode(text: string): boolean {
  if (text.length > 400) return false
  const words = wordsOf(text)
  return mfaMethodIn(text, words) !== undefined || (words.has('code') && words.has('success'))
}

/** Splits the visible text into sentences. */
export const sentencesOf = (text: string): string[] =>
  text
    .split(/(?<=[.!?。！？؟])\s+|\n| {2,}| \. /u)
    .map((sentence) => sentence.trim())
    .filter((sentence) => sentence.length > 3)
    .slice(0, 200)
