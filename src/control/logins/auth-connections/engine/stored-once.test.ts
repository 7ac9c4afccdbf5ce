// Logins at a fake site whose form takes user, password and code at once: a stored password is not sent a second time with the next code.
import { describe, expect, test } from 'vitest'
import { button, input, password } from '../../../../../test/support/page-models.ts'
import { answering, endOf, enter, HOME, isError, right, run, STORED, username, wrong } from '../../../../../test/support/login-runs.ts'
import { World, type Site, type SitePage } from '../../../../../test/support/login-site.ts'

const CODE = 'Code from your authenticator app'

interface Form {
  /** The password field keeps its value. */
  keeps?: boolean
  /** The message after the form was sent. */
  says?: SitePage['more']
  /** The field that is then marked as wrong. */
  marks?: 'Username' | 'Password' | typeof CODE
}
const allInOne =
  (isRight: (values: Record<string, string>) => boolean, { keeps = false, says = isError, marks }: Form = {}): Site =>
  (_, state) => {
    if (state.user !== '') return HOME
    const wasSent = state.step['sent'] === true
    const mark = (label: string) => ({ invalid: wasSent && marks === label })
    return {
      parts: [
        input('Username', { name: 'username', has_value: wasSent, ...mark('Username') }),
        password('Password', { name: 'password', has_value: wasSent && keeps, ...mark('Password') }),
        input(CODE, { autocomplete: 'one-time-code', inputmode: 'numeric', maxlength: 6, ...mark(CODE) }),
        button('Sign in'),
      ],
      more: { title: 'Sign in', headings: ['Sign in'], ...(wasSent && says) },
      press: (_label, values) => {
        state.step['sent'] = true
        return isRight(values) ? enter(state) : '/login'
      },
    }
  }
const TYPES = ['login', 'reauth'] as const
const never = () => false
const codesOf = (world: World) => world.sent.flatMap(({ values }) => values[CODE] ?? [])

describe.each(TYPES)('a %s by a form that takes password and code at once', (type) => {
  const at = (site: Site) => new World(site, { flow: { type } }).withStored({ username, password: wrong }, { totp: true })
  test.each([
    { what: 'keeps the password and says that something is wrong', form: { keeps: true } },
    { what: 'clears the password and says that something is wrong', form: {} },
    { what: 'keeps the password and marks it', form: { keeps: true, marks: 'Password' } },
  ] satisfies { what: string; form: Form }[])('that $what sends it once, and the stored values count as refused', async ({ form }) => {
    const world = await run(at(allInOne(never, form)))
    expect(world.row.end).toMatchObject({ state: 'FAILED', errorCode: 'credentials_invalid', refused: 'credential 1' })
    expect(world.row.end).toMatchObject({ errorMessage: 'the site refused the stored credential' })
    expect(codesOf(world)).toHaveLength(1)
  })
  test('that keeps the password and says nothing sends it once', async () => {
    const world = await run(at(allInOne(never, { keeps: true, says: {} })))
    expect(world.row.end).toMatchObject({ state: 'FAILED', errorCode: 'navigation_confused', refused: 'credential 1' })
    expect(codesOf(world)).toHaveLength(1)
  })
  test('that keeps the password and marks only the code sends the next code, which may be right', async () => {
    const world: World = at(allInOne((values) => codesOf(world).length > 1 && values['Password'] === undefined, { keeps: true, marks: CODE }))
    expect(endOf(await run(world))).toBe('SUCCESS')
    expect([codesOf(world).length, world.sentOf(wrong)]).toEqual([2, 1])
  })
})

describe('a site that refuses the code on a page of its own and begins again', () => {
  const site: Site = ({ pathname }, state) =>
    pathname === '/code'
      ? {
          parts: [input(CODE, { autocomplete: 'one-time-code', inputmode: 'numeric', maxlength: 6 }), button('Verify')],
          more: { headings: ['Two-factor authentication'] },
          press: () => ((state.step['again'] = true), '/login'),
        }
      : {
          parts: [input('Username', { name: 'username' }), password('Password', { name: 'password' }), button('Sign in')],
          more: { title: 'Sign in', headings: ['Sign in'] },
          press: () => (state.step['again'] === true ? enter(state, '/login') : '/code'),
        }
  test('has refused what is stored when nobody is there: no check sends it again', async () => {
    const world = await run(new World(site, { flow: { type: 'reauth' } }).withStored(STORED, { totp: true }))
    expect(world.row.end).toMatchObject({ state: 'FAILED', errorCode: 'credentials_invalid', refused: 'credential 1' })
    expect(world.sentOf(right)).toBe(1)
  })
  test('asks a person for the password', async () => {
    const world = new World((url, state) => (state.user === '' ? site(url, state) : HOME)).withStored(STORED, { totp: true })
    world.person = answering({ password: right })
    expect(endOf(await run(world))).toBe('SUCCESS')
    expect(world.pauses.map(({ fields }) => fields.map(({ key }) => key))).toEqual([['password']])
  })
})
