// Pages for tests of the login engine: saved pages of real applications, and pages built in a few words.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PageModel, type Control, type Frame } from '../../src/agent/login/contract.ts'
import type { PageContext } from '../../src/control/logins/auth-connections/engine/interpretation.ts'
import { PACKAGE_DIR } from '../../src/base/paths.ts'

/** The model that the agent read from a page of a real application. */
export const savedPage = (name: string): PageModel => PageModel.parse(JSON.parse(readFileSync(join(PACKAGE_DIR, 'test/data/logins', `${name}.json`), 'utf8')))

export const context = (more: Partial<PageContext> = {}): PageContext => ({ domain: 'example.test', hasSubmitted: false, ssoProvider: undefined, ...more })

type Part = Partial<Control>

export const input = (label: string, more: Part = {}): Part => ({ tag: 'input', type: 'text', label, label_from: 'for', form: 0, ...more })
export const password = (label: string, more: Part = {}): Part => input(label, { type: 'password', ...more })
export const button = (label: string, more: Part = {}): Part => ({ tag: 'button', type: 'submit', label, label_from: 'text', form: 0, submits: true, ...more })
/** A button outside of any form. */
export const press = (label: string, more: Part = {}): Part => button(label, { type: 'button', form: null, submits: false, ...more })
export const box = (label: string, more: Part = {}): Part => input(label, { type: 'checkbox', checked: false, label_from: 'wrap', ...more })
export const radio = (label: string, more: Part = {}): Part => box(label, { type: 'radio', ...more })
export const link = (label: string, path = '#', more: Part = {}): Part => ({
  tag: 'a',
  label,
  label_from: 'text',
  href_host: path.startsWith('#') ? null : 'example.test',
  href_path: path.startsWith('#') ? null : path,
  ...more,
})
export const frame = (host: string, path: string, width: number, height: number, more: Partial<Frame> = {}): Frame => ({
  url: `https://${host}${path}`,
  host,
  parent: 0,
  name: '',
  title: '',
  visible: true,
  box: { x: 400, y: 300, width, height },
  ...more,
})

/** A page with these controls, one below the other. Everything else is as on a plain page. */
export function page(
  parts: Part[],
  more: Partial<Omit<PageModel, 'controls' | 'alerts'>> & { alerts?: Partial<PageModel['alerts'][number]>[] } = {},
): PageModel {
  const controls = parts.map((part, index): Control => ({
    ref: `1.0.${index}`,
    frame: 0,
    tag: 'other',
    type: '',
    name: '',
    id: '',
    autocomplete: '',
    inputmode: '',
    maxlength: null,
    pattern: '',
    required: false,
    visible: true,
    covered: false,
    enabled: true,
    has_value: false,
    checked: null,
    label: '',
    label_from: 'none',
    placeholder: '',
    near: '',
    form: null,
    invalid: false,
    described: '',
    role: '',
    href_host: null,
    href_path: null,
    submits: false,
    options: [],
    in_dialog: false,
    box: { x: 400, y: 200 + index * 40, width: 300, height: 30 },
    xpath: `/html[1]/body[1]/*[${index + 1}]`,
    ...part,
  }))
  const { frames = [], alerts = [], ...rest } = more
  const mostForm = Math.max(-1, ...controls.map(({ form }) => form ?? -1))
  return PageModel.parse({
    generation: 1,
    url: 'https://example.test/login',
    host: 'example.test',
    title: '',
    language: '',
    status: 200,
    error: null,
    http_auth: false,
    passkey_asked: false,
    forms: Array.from({ length: mostForm + 1 }, () => ({ frame: 0, action_host: 'example.test', action_path: '/session', method: 'post' })),
    controls,
    headings: [],
    has_dialog: controls.some(({ in_dialog }) => in_dialog),
    body: [...(rest.headings ?? []), ...parts.map(({ label = '' }) => label)].join(' '),
    ...rest,
    alerts: alerts.map((alert) => ({ text: '', by: 'class', control: null, ...alert })),
    frames: [frame('example.test', '/login', 1280, 720, { parent: null, box: { x: 0, y: 0, width: 1280, height: 720 } }), ...frames],
  })
}
