// The pages of sign-in that the service makes itself: without scripts, so that they work before anything is loaded.
import { createHash } from 'node:crypto'
import type { Bytes } from '../../../http/route.ts'

const STYLE = `:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif;background:#f3f5f8;color:#16202b}
main{max-width:28rem;margin:8vh auto;padding:1.5rem;background:#fff;border:1px solid #d5dbe3;border-radius:.75rem}
h1{font-size:1.25rem;margin:0 0 .75rem}dl{display:grid;grid-template-columns:auto 1fr;gap:.25rem 1rem}dd{margin:0;overflow-wrap:anywhere}
form{display:flex;flex-wrap:wrap;gap:.75rem;margin-top:1.25rem}fieldset{border:0;padding:0;margin:0 0 .25rem;flex-basis:100%}label{display:block}
button{font:inherit;padding:.5rem 1rem;border:1px solid #76818f;border-radius:.5rem;background:transparent;color:inherit;cursor:pointer}
select,input{font:inherit;padding:.4rem;max-width:100%}button.main{background:#0b6b58;border-color:#0b6b58;color:#fff}a{color:#0b6b58}:focus-visible{outline:3px solid #2f81f7;outline-offset:2px}
@media(prefers-color-scheme:dark){:root{background:#0e1116;color:#e9edf3}main{background:#171b22;border-color:#2b323d}a{color:#5ed1b8}}`
const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64')

const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/** Markup. Only {@link html} makes it, so that no text of others becomes a part of it unescaped. */
export class Markup {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

const escaped = (value: string | Markup | Markup[]): string =>
  value instanceof Markup
    ? value.text
    : Array.isArray(value)
      ? value.map(({ text }) => text).join('')
      : value.replaceAll(/[&<>"']/g, (character) => ESCAPES[character]!)

/** Markup from a template; texts in it are escaped. */
export const html = (parts: TemplateStringsArray, ...values: (string | Markup | Markup[])[]): Markup =>
  new Markup(String.raw({ raw: parts }, ...values.map(escaped)))

interface PageSettings {
  status?: number
  title: string
  body: Markup
  /** Where its form leads, besides this service: web browsers also check where the answer to a form redirects to. */
  formTo?: string
  cookies?: string[]
}

/** A page: no scripts, in nobody's frame, never cached. */
export function page({ status = 200, title, body, formTo, cookies = [] }: PageSettings): Bytes {
  const { text } = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title}</title>
        <link rel="icon" href="data:," />
        <style>
          ${new Markup(STYLE)}
        </style>
      </head>
      <body>
        <main>
          <h1>${title}</h1>
          ${body}
        </main>
      </body>
    </html> `
  return {
    body: Buffer.from(text),
    status,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; img-src data:; base-uri 'none'; form-action 'self'${formTo === undefined ? '' : ` ${formTo}`}; frame-ancestors 'none'`,
      'x-frame-options': 'DENY',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
      ...(cookies.length > 0 && { 'set-cookie': cookies }),
    },
  }
}

/** Sends the web browser on. */
export const redirect = (location: string, cookies: string[] = []): Bytes => ({
  body: Buffer.alloc(0),
  status: 303,
  headers: { location, 'cache-control': 'no-store', 'referrer-policy': 'no-referrer', ...(cookies.length > 0 && { 'set-cookie': cookies }) },
})
