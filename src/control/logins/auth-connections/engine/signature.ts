// Identifies a page, so that the same form is recognised, whatever its values, messages and order.
import type { PageChoice, PageField, PageKind } from './interpretation.ts'
import { pathOf } from './view.ts'

const MAX_SIGNATURE = 600

/** The path without parts that differ from flow to flow: numbers, ids and tokens. */
export function stablePath(url: string): string {
  return pathOf(url)
    .split('/')
    .map((part) => (isId(part) ? '*' : part))
    .join('/')
    .slice(0, 200)
}

const isId = (part: string): boolean =>
  /^\d+$/.test(part) || /^[0-9a-f-]{16,}$/i.test(part) || (part.length >= 16 && /\d/.test(part) && /^[\w~.%-]+$/.test(part)) || part.length > 40

export function signatureOf(kind: PageKind, host: string, url: string, fields: PageField[], choices: PageChoice[]): string {
  const roles = fields.map(({ role, key }) => `${role}:${key}`).toSorted()
  const offers = [...new Set(choices.map(({ type, provider, mfa }) => [type, provider ?? mfa].filter(Boolean).join(':')))].toSorted()
  return [kind, host + stablePath(url), roles.join(','), offers.join(',')].join('|').slice(0, MAX_SIGNATURE)
}
