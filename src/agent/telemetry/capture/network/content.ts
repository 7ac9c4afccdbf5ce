// Which bodies events hold, and how much of them, by their media type.
import { STRUCTURED_BYTES, TEXT_BYTES } from '../../limits.ts'

const STRUCTURED =
  /^(?:application|text)\/(?:[\w.+-]*\+)?(?:json|xml|x-ndjson|ndjson|json5|jsonl|json-seq|x-www-form-urlencoded|graphql)$|^multipart\/form-data$|^[\w-]+\/[\w.-]+\+(?:json|xml)$/
const TEXT = /^text\/|^application\/(?:(?:x-)?javascript|ecmascript|x-sh|x-yaml|yaml|toml|sql|x-mpegurl|vnd\.apple\.mpegurl)$/
/** Answers that go on until one side ends them. */
const ENDLESS = /^(?:text\/event-stream|multipart\/x-mixed-replace)$/

/** How many bytes of a body with this media type an event holds; 0: none, it is binary. */
export function bodyBytes(mimeType: string): number {
  const [type = ''] = mimeType.toLowerCase().split(';', 1)
  const plain = type.trim()
  if (STRUCTURED.test(plain)) return STRUCTURED_BYTES
  return TEXT.test(plain) && !ENDLESS.test(plain) ? TEXT_BYTES : 0
}

export const isEndless = (mimeType: string): boolean => ENDLESS.test(mimeType.toLowerCase())

/** Whether the bytes of a file have been read as a text. */
export const isBinary = (text: string): boolean => /[\0\uFFFD]/.test(text.slice(0, 1024))

/** Requests that use the network. Data URLs, for example, hold all of what they are. */
export const usesNetwork = (url: string): boolean => /^(?:https?|wss?|ftp|file):/i.test(url.slice(0, 8))
