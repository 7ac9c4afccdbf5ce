// What a model may see of a page: its structure and its own words, without values, query strings, and what tells of a person.
import type { Control, PageModel } from '../../../../agent/login/contract.ts'
import { stablePath } from './signature.ts'

const MAX_SHOWN = 150
const MAX_BODY = 3000
/** The user's part of an address may be of any length. A mask (`j***@example.com`) tells of a person, too. */
const ADDRESS = /[\p{L}\p{N}._%+*•-]{1,64}@[\p{L}\p{N}.*•-]{1,190}/gu
/** Phone numbers, years of birth, accounts. A single digit ("6-digit code", "step 2 of 3") is a word of the page. */
const NUMBER = /\p{N}(?:[\s.()/-]?\p{N})+|[*•●]{2,40}[\s\p{N}-]{0,20}\p{N}/gu
const WEB_ADDRESS = /\bhttps?:\/\/[^\s"'<>]{1,2000}/giu
/** Keys and tokens. */
const TOKEN = /\b(?=[\w-]{0,200}\d)(?=[\w-]{0,200}[A-Za-z])[\w-]{16,200}\b/gu

export type RedactedControl = Pick<
  Control,
  | 'ref'
  | 'tag'
  | 'type'
  | 'name'
  | 'id'
  | 'autocomplete'
  | 'inputmode'
  | 'maxlength'
  | 'label'
  | 'placeholder'
  | 'near'
  | 'described'
  | 'required'
  | 'enabled'
  | 'role'
  | 'submits'
  | 'in_dialog'
  | 'form'
  | 'options'
> & { leads_to: string | null; filled: boolean; invalid: boolean }

export interface RedactedPage {
  host: string
  path: string
  title: string
  language: string
  status: number | null
  headings: string[]
  messages: string[]
  text: string
  controls: RedactedControl[]
}

/** A page as a model may see it. */
export function redactPage(page: PageModel): RedactedPage {
  const shown = page.controls.filter(({ visible }) => visible).slice(0, MAX_SHOWN)
  return {
    host: page.host,
    path: redactText(stablePath(page.url)),
    title: redactText(page.title),
    language: page.language,
    status: page.status,
    headings: page.headings.map(redactText),
    messages: page.alerts.map(({ text }) => redactText(text)),
    text: redactText(page.body).slice(0, MAX_BODY),
    controls: shown.map(redactControl),
  }
}

/** A text of a page without web addresses' queries, e-mail addresses, numbers and tokens. */
export function redactText(text: string): string {
  return text
    .replaceAll(WEB_ADDRESS, (address) => (URL.canParse(address) ? `[link to ${new URL(address).hostname}]` : '[link]'))
    .replaceAll(ADDRESS, '[address]')
    .replaceAll(TOKEN, '[token]')
    .replaceAll(NUMBER, '[number]')
}

function redactControl(control: Control): RedactedControl {
  const { ref, tag, type, autocomplete, inputmode, maxlength, required, enabled, role, submits, in_dialog, form } = control
  const path = control.href_path === null ? '' : redactText(stablePath(`https://x.invalid${control.href_path.startsWith('/') ? '' : '/'}${control.href_path}`))
  return {
    ref,
    tag,
    type,
    name: redactText(control.name),
    id: redactText(control.id),
    autocomplete,
    inputmode,
    maxlength,
    label: redactText(control.label),
    placeholder: redactText(control.placeholder),
    near: redactText(control.near),
    described: redactText(control.described),
    required,
    enabled,
    role,
    submits,
    in_dialog,
    form,
    options: control.options.slice(0, 20).map(redactText),
    leads_to: control.href_host === null ? null : control.href_host + path,
    filled: control.has_value,
    invalid: control.invalid,
  }
}
