// What a tool answers: content of bounded size. What comes from inside a session stays content, whatever it says.

/** Characters of the text of one answer. Hosts cut longer ones, or refuse them, and models pay for each. */
export const MAX_TEXT = 256 * 1024

/** To how many characters long texts inside an answer are cut when it is too long, in turn. */
const CUTS = [32 * 1024, 1024]

export type Content = { type: 'text'; text: string } | { type: 'image'; data: string; mimeType: string }

export interface Result {
  [key: string]: unknown
  content: Content[]
  isError?: true
}

export const textResult = (text: string): Result => ({ content: [{ type: 'text', text: cut(text, MAX_TEXT) }] })

export const jsonResult = (value: unknown): Result => ({ content: [{ type: 'text', text: boundedJson(value) }] })

export const errorResult = (text: string): Result => ({ ...textResult(text), isError: true })

/** JSON of a value. What is too long loses the ends of its long texts first, each with a note of how much is missing; it stays JSON for as long as that is enough. */
export function boundedJson(value: unknown, most = MAX_TEXT): string {
  const whole = JSON.stringify(value, null, 2)
  if (whole.length <= most) return whole
  for (const longest of CUTS) {
    const shorter = JSON.stringify(value, (_, item: unknown) => (typeof item === 'string' ? cut(item, longest) : item))
    if (shorter.length <= most) return shorter
  }
  return cut(whole, most)
}

/** The beginning of a text, at most `most` characters with the note. */
function cut(text: string, most: number): string {
  if (text.length <= most) return text
  const note = (kept: number) => `… [${text.length - kept} of ${text.length} characters are not shown]`
  let kept = Math.max(0, most - note(0).length)
  // Half of a pair is no character.
  if (/[\uD800-\uDBFF]/.test(text[kept - 1] ?? '')) kept--
  return text.slice(0, kept) + note(kept)
}
