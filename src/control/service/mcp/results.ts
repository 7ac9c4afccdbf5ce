// The answer of a tool: content of bounded size. Text from inside a session stays content, whatever it says.

/** Most characters of text in one answer. Hosts cut or refuse longer ones, and models pay for each. */
export const MAX_TEXT = 256 * 1024

/** Lengths to which long texts inside an answer are cut, one after the other, while it is too long. */
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

/** JSON of a value. If it is too long, its long texts are cut first, each with a note of the missing length; it stays valid JSON if that is enough. */
export function boundedJson(value: unknown, most = MAX_TEXT): string {
  const whole = JSON.stringify(value, null, 2)
  if (whole.length <= most) return whole
  for (const longest of CUTS) {
    const shorter = JSON.stringify(value, (_, item: unknown) => (typeof item === 'string' ? cut(item, longest) : item))
    if (shorter.length <= most) return shorter
  }
  return cut(whole, most)
}

/** The beginning of a text: at most `most` characters, including the note. */
function cut(text: string, most: number): string {
  if (text.length <= most) return text
  const note = (kept: number) => `… [${text.length - kept} of ${text.length} characters are not shown]`
  let kept = Math.max(0, most - note(0).length)
  // Do not split a surrogate pair.
  if (/[\uD800-\uDBFF]/.test(text[kept - 1] ?? '')) kept--
  return text.slice(0, kept) + note(kept)
}
