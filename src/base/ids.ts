// The ids that Cob makes. Their form is fixed by the public API: 24 lower-case letters and digits, a letter first.
import { randomBytes } from 'node:crypto'

const LETTERS = 'abcdefghijklmnopqrstuvwxyz'
const ALPHABET = LETTERS + '0123456789'
const LENGTH = 24

/** A new random id (about 124 bits): unguessable, safe in paths, host names and SQL. */
export function newId(): string {
  let id = ''
  // Rejection sampling keeps every character equally likely: 252 = 7 * 36, 234 = 9 * 26.
  while (id.length < LENGTH) {
    for (const byte of randomBytes(LENGTH * 2)) {
      if (id.length === LENGTH) break
      if (id.length === 0) {
        if (byte < 234) id += LETTERS[byte % 26]
      } else if (byte < 252) id += ALPHABET[byte % 36]
    }
  }
  return id
}

const FORM = /^[a-z][a-z0-9]{23}$/

/** Whether `text` has the form of an id. Names of that form are refused, so that "id or name" is never ambiguous. */
export const isId = (text: string): boolean => FORM.test(text)
