// Pages that stand alone (web/src/standalone), for people who may have no account: their security policy, and how an answer fills them in.
import { fault } from '../../../http/fault.ts'
import type { Built } from './files.ts'

export const HTML = 'text/html; charset=utf-8'

/**
 * The content security policy of our pages. Sessions and sites control what is shown in them, so scripts come only from our files, and text never becomes
 * scripts or markup (trusted types).
 */
const POLICY = {
  'default-src': "'none'",
  'script-src': "'self'",
  'style-src': "'self'",
  'img-src': "'self' blob: data:",
  'connect-src': "'self'",
  'base-uri': "'none'",
  'form-action': "'none'",
  'frame-ancestors': "'none'",
  'require-trusted-types-for': "'script'",
  'trusted-types': "'none'",
}

/**
 * The headers of a page. `framedBy`: the pages that may show it in a frame; none where a person must see what they allow or type. `more`: additions to its
 * policy.
 */
export function pageHeaders(framedBy: 'any' | 'none', more: Record<string, string> = {}): Record<string, string> {
  const policy = { ...POLICY, ...(framedBy === 'any' && { 'frame-ancestors': '*' }), ...more }
  return {
    'content-security-policy': Object.entries(policy)
      .map(([name, value]) => `${name} ${value}`)
      .join('; '),
    ...(framedBy === 'none' && { 'x-frame-options': 'DENY', 'cross-origin-resource-policy': 'same-origin' }),
    'cache-control': 'no-store',
    'permissions-policy': 'camera=(), geolocation=(), microphone=(), display-capture=()',
    // Addresses of such pages contain tokens and codes.
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-robots-tag': 'noindex',
  }
}

/** The texts of a page that only shows a message. */
export interface Message {
  title: string
  text: string
  links?: { href: string; text: string }[]
}

export interface Pages {
  /** A page whose script reads `data`. @throws 503 while nothing is built */
  render(name: string, given?: { title: string; data: object }): Promise<string>
  /** A page without a script. @throws 503 while nothing is built */
  message(message: Message): Promise<string>
}

const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)

export function pagesOf(built: Built): Pages {
  async function filled(name: string, values: Record<string, string>): Promise<string> {
    const page = (await built())?.pages.get(name)
    if (page === undefined) throw fault.unavailable('the pages of this service are not built: run script/setup')
    return page.replaceAll(/__(TITLE|DATA|TEXT|LINKS)__/g, (_, key: string) => values[key] ?? '')
  }
  return {
    render: (name, given) => filled(name, given ? { TITLE: escaped(given.title), DATA: escaped(JSON.stringify(given.data)) } : {}),
    message: ({ title, text, links = [] }) =>
      filled('message', {
        TITLE: escaped(title),
        TEXT: escaped(text),
        LINKS: links.map((link) => `<a class="button" href="${escaped(link.href)}">${escaped(link.text)}</a>`).join(' '),
      }),
  }
}
