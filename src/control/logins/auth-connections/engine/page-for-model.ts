// The part of a page that a model may see: its structure and its own words, without values, query strings, and personal data.
import type { Control, PageModel } from '../../../../agent/login/contract.ts'
import { withoutPersonal } from '../../../../base/redact/texts.ts'
import { stablePath } from './signature.ts'

const MAX_SHOWN = 150
const MAX_BODY = 3000
export type ControlForModel = Pick<
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

export interface PageForModel {
  host: string
  path: string
  title: string
  language: string
  status: number | null
  headings: string[]
  messages: string[]
  text: string
  controls: ControlForModel[]
}

/** A page in the form for a model. */
export function pageForModel(page: PageModel): PageForModel {
  const shown = page.controls.filter(({ visible }) => visible).slice(0, MAX_SHOWN)
  return {
    host: page.host,
    path: withoutPersonal(stablePath(page.url)),
    title: withoutPersonal(page.title),
    language: page.language,
    status: page.status,
    headings: page.headings.map(withoutPersonal),
    messages: page.alerts.map(({ text }) => withoutPersonal(text)),
    text: withoutPersonal(page.body).slice(0, MAX_BODY),
    controls: shown.map(controlForModel),
  }
}

function controlForModel(control: Control): ControlForModel {
  const { ref, tag, type, autocomplete, inputmode, maxlength, required, enabled, role, submits, in_dialog, form } = control
  const path =
    control.href_path === null ? '' : withoutPersonal(stablePath(`https://x.invalid${control.href_path.startsWith('/') ? '' : '/'}${control.href_path}`))
  return {
    ref,
    tag,
    type,
    name: withoutPersonal(control.name),
    id: withoutPersonal(control.id),
    autocomplete,
    inputmode,
    maxlength,
    label: withoutPersonal(control.label),
    placeholder: withoutPersonal(control.placeholder),
    near: withoutPersonal(control.near),
    described: withoutPersonal(control.described),
    required,
    enabled,
    role,
    submits,
    in_dialog,
    form,
    options: control.options.slice(0, 20).map(withoutPersonal),
    leads_to: control.href_host === null ? null : control.href_host + path,
    filled: control.has_value,
    invalid: control.invalid,
  }
}
