// The path of a request, as logs may hold it.
import type { IncomingMessage } from 'node:http'

/** The path of a request's target. A query, which may hold a token, and an origin, which may hold a password, are left out. */
export const pathOf = ({ url = '' }: Pick<IncomingMessage, 'url'>): string => url.split('?', 1)[0]!.replace(/^https?:\/\/[^/]*/i, '')

/** Turns `/browser/live/abc/state` into `/browser/live/…`, also when slashes or letters are percent-encoded. */
export function withoutSecret(written: string, secretsBelow: readonly string[]): string {
  if (secretsBelow.length === 0) return written
  let plain = written
  try {
    plain = decodeURIComponent(written)
  } catch {}
  plain = plain.replaceAll(/\/+/g, '/')
  const found = secretsBelow.find((prefix) => plain.startsWith(`${prefix}/`))
  return found === undefined ? written : `${found}/…`
}
