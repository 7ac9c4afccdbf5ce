// Console calls as texts in a readable form, bounded, without secrets.
import type { Protocol } from '../../../chromium/cdp-protocol.ts'
import { secretKind } from '../../../../base/redact/names.ts'
import { REDACTED } from '../../../../base/redact/ranges.ts'
import { announcedPlaces, announcesSecret, type CutText, type Secrets } from '../../../../base/redact/redact.ts'
import { CONSOLE_ARGS, CONSOLE_ARGS_BYTES, CONSOLE_TEXT_BYTES, STACK_FRAMES, STACK_NAME, STACK_PARENTS, STACK_URL_BYTES } from '../../limits.ts'

type RemoteObject = Protocol.Runtime.RemoteObject

export class Lines {
  readonly #secrets: Secrets

  constructor(secrets: Secrets) {
    this.#secrets = secrets
  }

  cut(text: string): CutText {
    return this.#secrets.scrubCut(text, CONSOLE_TEXT_BYTES)
  }

  /** The arguments of a call: the first one, and all. */
  of(args: readonly RemoteObject[]) {
    const all: string[] = []
    let left = CONSOLE_ARGS_BYTES
    let isCut = args.length > CONSOLE_ARGS
    let before = ''
    const places = args[0]?.type === 'string' ? announcedPlaces(textOf(args[0])) : new Set()
    for (const [place, arg] of args.slice(0, CONSOLE_ARGS).entries()) {
      const given = textOf(arg)
      const shown =
        announcesSecret(before) || places.has(place - 1) ? { text: REDACTED, isCut: false } : this.#secrets.scrubCut(given, Math.min(CONSOLE_TEXT_BYTES, left))
      before = given
      all.push(shown.text)
      isCut ||= shown.isCut
      left -= Buffer.byteLength(shown.text)
      if (left <= 0) {
        isCut ||= all.length < args.length
        break
      }
    }
    return { text: all[0] ?? '', all, isCut }
  }
}

/** About how many characters Chromium has sent of a value. */
export const lengthOf = ({ value, description }: RemoteObject): number => (typeof value === 'string' ? value.length : 0) + (description?.length ?? 0)

/** A value in the form of a console. */
function textOf({ type, value, unserializableValue, description, subtype, preview }: RemoteObject): string {
  if (type === 'string') return String(value)
  if (unserializableValue !== undefined) return type === 'bigint' ? unserializableValue.replace(/n$/, '') : unserializableValue
  if (type === 'undefined' || subtype === 'null') return subtype ?? type
  if (type !== 'object') return description ?? String(value)
  return preview && subtype !== 'error' ? previewText(preview) : (description ?? '')
}

/** An object with the few properties that Chromium sends by default. */
function previewText({ type, subtype, description = '', properties, entries, overflow }: Protocol.Runtime.ObjectPreview): string {
  const isList = subtype === 'array' || subtype === 'typedarray'
  if (type === 'function' || (properties.length === 0 && !entries && subtype !== 'array' && description !== 'Object')) return description
  const shown = entries
    ? entries.map(({ key, value }) => (key ? `${previewText(key)} => ${previewText(value)}` : previewText(value)))
    : properties.map((property) => (isList && /^\d+$/.test(property.name) ? valueText(property) : `${property.name}: ${valueText(property)}`))
  if (overflow) shown.push('…')
  if (isList) return `[${shown.join(', ')}]`
  return `${description === 'Object' ? '' : `${description} `}{${shown.join(', ')}}`
}

function valueText({ name, type, value = '', valuePreview }: Protocol.Runtime.PropertyPreview): string {
  const kind = secretKind(name)
  if (kind && !(kind === 'tokens' && type === 'number')) return REDACTED
  if (valuePreview) return previewText(valuePreview)
  return type === 'string' ? JSON.stringify(value) : value
}

/** The console's text of an exception: "Uncaught", and its first lines up to the stack. */
export function exceptionText({ text, exception }: Protocol.Runtime.ExceptionDetails): string {
  if (!exception) return text
  const said = exception.subtype === 'error' ? (exception.description ?? '') : textOf(exception)
  const stack = said.search(/\n {4}at /)
  return `${text} ${stack < 0 ? said : said.slice(0, stack)}`.trim()
}

/** A stack in the form for events: no longer than a person reads. */
export function stackOf(stack: Protocol.Runtime.StackTrace | undefined, secrets: Secrets, left = STACK_FRAMES, depth = 0): object | undefined {
  if (!stack || left <= 0 || (stack.callFrames.length === 0 && !stack.parent)) return undefined
  // Frames of one stack mostly belong to the same few files.
  const urls = new Map<string, string>()
  const urlOf = (url: string) => {
    if (!urls.has(url)) urls.set(url, secrets.scrubCut(url, STACK_URL_BYTES).text)
    return urls.get(url)!
  }
  const frames = stack.callFrames.slice(0, left)
  return {
    description: stack.description === undefined ? undefined : secrets.scrubCut(stack.description, STACK_NAME).text,
    callFrames: frames.map(({ functionName, scriptId, url, lineNumber, columnNumber }) => ({
      functionName: secrets.scrubCut(functionName, STACK_NAME).text,
      scriptId: scriptId.slice(0, 64),
      url: urlOf(url),
      lineNumber,
      columnNumber,
    })),
    parent: depth < STACK_PARENTS ? stackOf(stack.parent, secrets, left - frames.length, depth + 1) : undefined,
  }
}
