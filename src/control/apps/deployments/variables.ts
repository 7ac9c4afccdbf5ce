// The environment variables that a caller gives its code: valid names, values and numbers.
import * as z from 'zod'
import { badText } from '../../../http/body.ts'

const MAX_VARIABLES = 500
const MAX_NAME = 256
/** Linux allows 128 KiB for one variable, including its name. */
const MAX_VALUE_BYTES = 64 * 1024
/** All names and values together: the environment of a program must fit on its stack. */
const MAX_TOTAL_BYTES = 512 * 1024

/** The problem's path below `env_vars`, and its message. */
type Complain = (name: string, problem: string) => void

/** Variables as they arrive, one by one or as one JSON object. */
export class Variables {
  readonly #values = new Map<string, string>()
  readonly #complain: Complain
  #bytes = 0

  constructor(complain: Complain) {
    this.#complain = complain
  }

  add(name: string, value: string): void {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) || name.length > MAX_NAME)
      return this.#complain(name, `must be named with at most ${MAX_NAME} letters, digits and "_", no digit first`)
    if (this.#values.has(name)) return this.#complain(name, 'is given twice')
    if (badText(value)) return this.#complain(name, 'must not hold U+0000 or half a surrogate pair')
    if (Buffer.byteLength(value) > MAX_VALUE_BYTES) return this.#complain(name, `is longer than ${MAX_VALUE_BYTES} bytes`)
    if (this.#values.size >= MAX_VARIABLES) return this.#complain(name, `is one more than the ${MAX_VARIABLES} variables that there may be`)
    this.#bytes += name.length + Buffer.byteLength(value)
    if (this.#bytes > MAX_TOTAL_BYTES) return this.#complain(name, `all variables together have more than ${MAX_TOTAL_BYTES} bytes`)
    this.#values.set(name, value)
  }

  addAll(json: string): void {
    const parsed = z.record(z.string(), z.unknown()).safeParse(parse(json))
    if (!parsed.success) return this.#complain('', 'must be a JSON object of names and values')
    for (const [name, value] of Object.entries(parsed.data))
      if (typeof value === 'string') this.add(name, value)
      else this.#complain(name, 'must be text')
  }

  get values(): Record<string, string> {
    return Object.fromEntries(this.#values)
  }
}

/** Undefined when it is not JSON. (The parser's own error would show the value.) */
export function parse(json: string): unknown {
  try {
    return JSON.parse(json) as unknown
  } catch {
    return undefined
  }
}
