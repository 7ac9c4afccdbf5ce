// Properties of the interpreter for any page, also a hostile one.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { context, page, savedPage } from '../../../../../test/support/page-models.ts'
import { MAX_BODY_TEXT, MAX_CONTROLS, PageModel, type Control } from '../../../../agent/login/contract.ts'
import { interpret } from './interpret.ts'
import { PAGE_KINDS, type Interpretation } from './interpretation.ts'

const LABELS = `| Username | E-Mail | Passwort | Password | Confirm password | New password | Code | Sign in | Log in | Weiter | Sign out | Register | Create account
  | Continue with Google | Use another way | Text message to •••92 | Choose an account | jane@example.com | Trust this device | ログイン | パスワード | تسجيل الدخول
  | Search | Newsletter | Accept all cookies | Incorrect password | Forgot password? | Authorize | Cancel | Yes | No | Choose an organization | Check your phone`
/** Words that rules look for, and arbitrary texts. */
const text = (maxLength: number) =>
  fc
    .oneof(fc.constantFrom(...LABELS.split('|').map((label) => label.trim())), fc.string({ maxLength: Math.min(maxLength, 60), unit: 'grapheme' }))
    .map((value) => value.slice(0, maxLength))

const control = fc.record<Partial<Control>>({
  tag: fc.constantFrom('input', 'input', 'input', 'select', 'textarea', 'button', 'a', 'other'),
  type: fc.constantFrom('', 'text', 'email', 'tel', 'password', 'password', 'checkbox', 'radio', 'submit', 'button', 'search', 'number'),
  name: text(100),
  id: text(100),
  autocomplete: fc.constantFrom('', '', 'off', 'username', 'email', 'current-password', 'new-password', 'one-time-code', 'username webauthn'),
  inputmode: fc.constantFrom('', 'numeric'),
  maxlength: fc.constantFrom(null, 1, 1, 6, 100),
  pattern: fc.constantFrom('', '\\d{6}', '[0-9]*'),
  required: fc.boolean(),
  visible: fc.boolean(),
  covered: fc.boolean(),
  enabled: fc.boolean(),
  has_value: fc.boolean(),
  checked: fc.constantFrom(null, true, false),
  label: text(300),
  placeholder: text(100),
  near: text(300),
  form: fc.constantFrom(null, 0, 1),
  invalid: fc.boolean(),
  described: text(300),
  role: fc.constantFrom('', 'button', 'link', 'textbox', 'checkbox', 'radio', 'option', 'search'),
  href_host: fc.constantFrom(null, 'example.test', 'accounts.google.com', 'github.com'),
  href_path: fc.constantFrom(null, '/login', '/logout', '/auth/google', '/o/oauth2/auth', '/register'),
  submits: fc.boolean(),
  options: fc.array(text(100), { maxLength: 4 }),
  in_dialog: fc.boolean(),
  box: fc.record({
    x: fc.integer({ min: -100, max: 2000 }),
    y: fc.integer({ min: -100, max: 3000 }),
    width: fc.integer({ min: 0, max: 800 }),
    height: fc.integer({ min: 0, max: 800 }),
  }),
})
const anyPage = fc
  .record({
    controls: fc.array(control, { maxLength: 24 }),
    headings: fc.array(text(300), { maxLength: 4 }),
    body: text(300),
    title: text(100),
    url: fc.oneof(fc.webUrl(), fc.constantFrom('https://example.test/login', 'https://example.test/#/register', 'about:blank', '')),
    status: fc.constantFrom(null, 200, 401, 404, 503),
    passkey_asked: fc.boolean(),
    alerts: fc.array(fc.record({ text: text(300), by: fc.constantFrom('role' as const, 'live' as const, 'invalid' as const, 'class' as const) }), {
      maxLength: 4,
    }),
  })
  .map(({ controls, ...more }) => page(controls, more))
const anyContext = fc.record({ domain: fc.domain(), hasSubmitted: fc.boolean(), ssoProvider: fc.constantFrom(undefined, 'google') })

const refsOf = (found: Interpretation) => [
  ...found.fields.flatMap(({ ref, boxes }) => [ref, ...(boxes ?? [])]),
  ...found.choices.map(({ ref }) => ref),
  ...found.tick,
  ...found.loginLinks,
  ...[found.submit, found.proceed, found.dismiss, found.signOut].filter((ref) => ref !== undefined),
]

describe('any page', () => {
  test('is interpreted, in words of ours, with controls of its own', () => {
    fc.assert(
      fc.property(anyPage, anyContext, (model, about) => {
        const found = interpret(model, about)
        const refs = new Set(model.controls.map(({ ref }) => ref))
        expect(PAGE_KINDS).toContain(found.kind)
        expect(found.confidence).toBeGreaterThanOrEqual(0)
        expect(found.confidence).toBeLessThanOrEqual(1)
        expect(refsOf(found).filter((ref) => !refs.has(ref))).toEqual([])
        expect(new Set(found.fields.map(({ key }) => key)).size).toBe(found.fields.length)
        // Controls to fill and press can be used.
        const used = [...found.fields.map(({ ref }) => ref), ...found.tick, ...(found.dismiss === undefined ? [] : [found.dismiss])]
        expect(model.controls.filter(({ ref, visible, enabled }) => used.includes(ref) && !(visible && enabled))).toEqual([])
      }),
      { numRuns: 600 },
    )
  })

  test('gives the same answer twice, and is not changed', () => {
    fc.assert(
      fc.property(anyPage, anyContext, (model, about) => {
        const before = structuredClone(model)
        const found = interpret(model, about)
        expect(interpret(structuredClone(model), { ...about })).toEqual(found)
        expect(model).toEqual(before)
      }),
    )
  })

  test('has a signature that values, messages and the order of its controls do not change', () => {
    fc.assert(
      fc.property(anyPage, anyContext, fc.integer(), (model, about, seed) => {
        const other: PageModel = {
          ...model,
          controls: model.controls.toSorted((a, b) => Math.sin(seed + Number(a.ref.slice(4))) - Math.sin(seed + Number(b.ref.slice(4)))),
        }
        expect(interpret(other, about).signature).toBe(interpret(model, about).signature)
      }),
    )
  })

  test('that asks for a new password gets no password', () => {
    const registration = fc.record({
      around: fc.array(control, { maxLength: 4 }),
      confirm: fc.constantFrom(
        'Confirm password',
        'Repeat password',
        'Passwort wiederholen',
        'Confirmez le mot de passe',
        'Repita la contraseña',
        'Powtórz hasło',
      ),
      autocomplete: fc.constantFrom('', 'new-password'),
      submit: fc.constantFrom('Create account', 'Sign up', 'Registrieren', 'Créer un compte', 'Continue', 'Save'),
    })
    fc.assert(
      fc.property(registration, anyContext, ({ around, confirm, autocomplete, submit }, about) => {
        const form = { tag: 'input' as const, type: 'password', form: 7 }
        const model = page([
          { tag: 'input', type: 'email', label: 'Email', form: 7, box: { x: 0, y: 0, width: 100, height: 20 } },
          { ...form, label: 'Password', autocomplete, box: { x: 0, y: 30, width: 100, height: 20 } },
          { ...form, label: confirm, autocomplete, box: { x: 0, y: 60, width: 100, height: 20 } },
          { tag: 'button', label: submit, submits: true, form: 7, box: { x: 0, y: 90, width: 100, height: 20 } },
          ...around,
        ])
        const found = interpret(model, about)
        expect(found.fields.filter(({ ref, role }) => role === 'password' && ['1.0.1', '1.0.2'].includes(ref))).toEqual([])
      }),
    )
  })

  test.each(['node-red-login', 'django-login', 'parse-dashboard-login', 'jupyter-login'])('%s has the same signature with other links on it', (name) => {
    const model = savedPage(name)
    const links = page(
      Array.from({ length: 30 }, (_, index) => ({
        tag: 'a' as const,
        label: `Topic ${index}`,
        href_path: `/t/${index}`,
        href_host: model.host,
        box: { x: 900, y: index * 20, width: 80, height: 16 },
      })),
    ).controls.map((one, index) => ({ ...one, ref: `9.0.${index}` }))
    const other = { ...model, controls: [...links, ...model.controls] }
    expect(interpret(other, context()).signature).toBe(interpret(model, context()).signature)
  })
})

describe('a page at all limits', () => {
  const long = (word: string, most: number) => `${word} `.repeat(Math.ceil(most / (word.length + 1))).slice(0, most)
  const full = (word: string) =>
    page(
      Array.from({ length: MAX_CONTROLS }, (_, index) => ({
        tag: index % 2 === 0 ? ('input' as const) : ('button' as const),
        type: index % 4 === 0 ? 'text' : 'password',
        form: index % 5 === 0 ? null : index % 90,
        label: long(word, 300),
        near: long(word, 300),
        described: long(word, 300),
        placeholder: long(word, 300),
        name: long(word, 200),
        id: long(word, 200),
        submits: true,
      })),
      {
        body: long(word, MAX_BODY_TEXT),
        headings: Array.from({ length: 30 }, () => long(word, 300)),
        alerts: Array.from({ length: 20 }, () => ({ text: long(word, 500) })),
      },
    )

  // Quadratic time would be minutes here.
  test.each(['password', 'sign in with', 'x*', '***', 'a@', 'enter code', '.', 'パスワード', 'ending in', '1 (', 'é', 'mit'])(
    'of "%s" is interpreted',
    (word) => {
      expect(PAGE_KINDS).toContain(interpret(full(word), context({ hasSubmitted: true })).kind)
    },
  )
})
