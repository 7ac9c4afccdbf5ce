// The logged form of a request's target and headers: no query, and no key or token wherever a caller has put it.
import type { IncomingMessage } from 'node:http'
import { withoutTokens } from '../base/redact/tokens.ts'
import { bearer } from './bearer.ts'

/** Whether a text is one of our keys or tokens, or contains one. */
export const isSecret = (text: string): boolean => hidden(text, undefined) !== text

const hidden = (text: string, shown: string | undefined): string => withoutTokens(shown === undefined ? text : text.replaceAll(shown, '…'), '…')

/**
 * A copy of `text` without the caller's own key and without other keys in our form. A copy, because a part of a longer text keeps all of it in memory. Without U+0000 and halves of
 * surrogate pairs, which Postgres refuses.
 */
export const clean = (request: Pick<IncomingMessage, 'headers'>, text: string, longest: number): string =>
  Buffer.from(hidden(text, bearer(request)).slice(0, longest).replaceAll('\0', '\ufffd')).toString()

/**
 * The path of a request's target, without its query, which may hold a token, and its origin, which may hold a password. Below `secretsBelow` the next segment
 * is a secret: `/browser/live/abc/state` becomes `/browser/live/…`. Secrets are found also when slashes or letters are percent-encoded.
 */
export function loggedPath(request: Pick<IncomingMessage, 'url' | 'headers'>, secretsBelow: readonly string[]): string {
  const written = (request.url ?? '').split('?', 1)[0]!.replace(/^https?:\/\/[^/]*/i, '')
  const plain = decoded(written).replaceAll(/\/+/g, '/')
  const found = secretsBelow.find((prefix) => plain.startsWith(`${prefix}/`))
  if (found !== undefined) return `${found}/…`
  const safe = hidden(plain, bearer(request))
  return safe === plain ? written : safe
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    // Letter by letter: one invalid escape must not hide the others.
    return path.replaceAll(/%([0-7][0-9a-f])/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))
  }
}
