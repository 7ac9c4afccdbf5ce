// Which bodies events include, and how much of them, by their media type.
import { STRUCTURED_BYTES, TEXT_BYTES } from '../../limits.ts'

const STRUCTURED =
  /^(?:application|text)\/(?:[\w.+-]*\+)?(?:json|xml|x-ndjson|ndjson|json5|jsonl|json-seq|x-www-form-urlencoded|graphql)$|^multipart\/form-data$|^[\w-]+\/[\w.-]+\+(?:json|xml)$/
const TEXT = /^text\/|^application\/(?:(?:x-)?javascript|ecmascript|x-sh|x-yaml|yaml|toml|sql|x-mpegurl|vnd\.apple\.mpegurl)$/
/** Answers that last until one side ends them. */
const ENDLESS = /^(?:text\/event-stream|multipart\/x-mixed-replace)$/

/** Most bytes of a body with this media type in an event; 0: none, because it is binary. */
export function bodyBytes(mimeType: string): number {
  const [type = ''] = mimeType.toLowerCase().split(';', 1)
  const plain = type.trim()
  if (STRUCTURED.test(plain)) return STRUCTURED_BYTES
  return TEXT.test(plain) && !ENDLESS.test(plain) ? TEXT_BYTES : 0
}

export const isEndless = (mimeType: string): boolean => ENDLESS.test(mimeType.toLowerCase())

/** Whether a text is made of binary bytes. */
export const isBinary = (text: string): boolean => /[\0\uFFFD]/.test(text.slice(0, 1024))

/** Whether a request uses the network. Data URLs, for example, contain their whole content. */
export const usesNetwork = (url: string): boolean => /^(?:https?|wss?|ftp|file):/i.test(url.slice(0, 8))
