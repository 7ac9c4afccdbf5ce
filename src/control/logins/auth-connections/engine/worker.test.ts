// Logins at a fake site: the actions of a flow on each kind of page.
import { describe, expect, test } from 'vitest'
import { button, input, link, password, press } from '../../../../../test/support/page-models.ts'
import { answering, code, endOf, enter, HOME, isError, loginForm, plain, right, run, STORED, username, wrong } from '../../../../../test/support/login-runs.ts'
import { World, type Site, type SitePage } from '../../../../../test/support/login-site.ts'

describe('a login', () => {
  test('with a stored credential asks nobody, and saves the profile', async () => {
    const world = await run(new World(plain()).withStored(STORED))
    expect(endOf(world)).toBe('SUCCESS')
    expect(world.pauses).toEqual([])
    expect(world.profile).toEqual({ user: username, saves: 1 })
    expect(world.learned).toMatchObject({
      requirements: ['identifier', 'password'],
      keys: ['username', 'password'],
      marks: { signsOut: true, cookies: [{ name: 'session' }] },
    })
  })
  test('without a credential asks for the fields, and keeps what was typed', async () => {
    const world = new World(plain())
    world.person = answering(STORED)
    await run(world)
    expect(endOf(world)).toBe('SUCCESS')
    expect(world.pauses.map(({ fields }) => fields.map(({ key, reason }) => `${key} ${reason}`))).toEqual([['username missing', 'password missing']])
    expect(world.kept).toEqual([{ into: undefined, name: 'profile-example.test', values: STORED }])
    expect(world.row.end).toMatchObject({ credentialId: [...world.keptIds][0] })
  })
  test('keeps nothing that was typed when the connection says so', async () => {
    const world = new World(plain(), { connection: { save_credentials: false } })
    world.person = answering(STORED)
    expect((await run(world)).kept).toEqual([])
  })
  test('asks only for the fields that a credential has not', async () => {
    const world = new World(plain()).withStored({ email: username })
    world.person = answering({ password: right })
    await run(world)
    expect(endOf(world)).toBe('SUCCESS')
    expect(world.pauses.map(({ fields }) => fields.map(({ key }) => key))).toEqual([['password']])
    expect(world.kept).toEqual([{ into: 'credential', name: 'profile-example.test', values: { password: right } }])
  })
  test('tries a stored wrong password once', async () => {
    const world = await run(new World(plain()).withStored({ username, password: wrong }))
    expect(world.row.end).toMatchObject({ state: 'FAILED', errorCode: 'credentials_invalid', websiteError: 'Wrong username or password.' })
    expect(world.sentOf(wrong)).toBe(1)
    expect(world.profile.saves).toBe(0)
    expect(world.row.end).toMatchObject({ refused: 'credential 1' })
  })
  test('that the site answers with the same form, without a word, has had its stored password refused', async () => {
    const world = await run(new World(() => ({ ...loginForm(), press: () => '/login' })).withStored(STORED))
    expect(world.row.end).toMatchObject({ errorCode: 'navigation_confused', refused: 'credential 1' })
    expect(world.sentOf(right)).toBe(1)
  })
  test('at which nothing follows a form has not had its stored password refused: maybe it was not sent', async () => {
    const world = await run(new World(() => ({ ...loginForm(), press: () => undefined, isSilent: true })).withStored(STORED))
    expect(world.row.end).toMatchObject({ errorCode: 'navigation_confused' })
    expect(world.row.end).not.toHaveProperty('refused')
    expect(world.sentOf(right)).toBe(1)
  })
  test('presses a button that is enabled a moment after the fields were filled', async () => {
    let looks = 0
    const site: Site = (_, state) =>
      state.user !== ''
        ? HOME
        : { ...loginForm(), isBusy: () => looks++ < 1, press: (label) => (label === 'Sign in' ? enter(state) : undefined), isSilent: true }
    const world = await run(new World(site).withStored(STORED))
    expect(endOf(world)).toBe('SUCCESS')
    expect(world.sentOf(right)).toBe(1)
  })
  test('whose password a person types does not have the stored one refused', async () => {
    const world = new World(() => ({ ...loginForm(), press: () => '/login' })).withStored({ username })
    world.person = answering({ username, password: wrong })
    await run(world)
    expect(world.row.end).toMatchObject({ errorCode: 'navigation_confused' })
    expect(world.row.end).not.toHaveProperty('refused')
  })
  test.each([
    { what: 'a password field that takes it and shows none', field: 'Password' },
    { what: 'a field after the password that cannot be filled', field: 'Company' },
  ])('types a stored password once: $what', async ({ field }) => {
    const company = input('Company', { name: 'company', required: true })
    const form = { ...loginForm(), parts: [input('Username'), password('Password'), company, button('Sign in')] }
    const site: Site = () => ({ ...form, refuses: (label) => (label === field ? 'after' : undefined) })
    const world = await run(new World(site).withStored({ ...STORED, company: 'c1' }))
    expect(endOf(world)).toBe('navigation_confused')
    expect(world.typed.filter((value) => value === right)).toHaveLength(1)
  })
  test('tries again when the page has changed before the password was in it', async () => {
    let changes = 2
    const site: Site = (url, state) => ({ ...plain()(url, state), refuses: (label) => (label === 'Password' && changes-- > 0 ? 'before' : undefined) })
    const world = await run(new World(site).withStored(STORED))
    expect(endOf(world)).toBe('SUCCESS')
    expect(world.typed.filter((value) => value === right)).toHaveLength(1)
  })
  test('asks again for what a person typed and the site refused, with its words', async () => {
    const world = new World(plain())
    let asked: string | null | undefined
    const answers = answering({ username, password: wrong }, STORED)
    world.person = (pause, step) => {
      asked = world.row.websiteError
      return answers(pause, step)
    }
    await run(world)
    expect(endOf(world)).toBe('SUCCESS')
    expect(asked).toBe('Wrong username or password.')
    expect(world.pauses[1]!.fields.map(({ key, reason }) => `${key} ${reason}`)).toEqual(['username rejected', 'password rejected'])
    expect(world.pauses[0]!.interactionId).not.toBe(world.pauses[1]!.interactionId)
  })
  test('ends after five refusals of what a person typed', async () => {
    const world = new World(plain())
    world.person = answering({ username, password: wrong })
    await run(world)
    expect(endOf(world)).toBe('max_attempts_reached')
    expect(world.sentOf(wrong)).toBe(5)
  })
  test('fills two pages', async () => {
    const site: Site = ({ pathname }, state) => {
      if (state.user !== '') return HOME
      if (pathname === '/pw')
        return {
          parts: [password('Password'), button('Sign in')],
          more: { title: 'Sign in' },
          press: (_, v) => (v['Password'] === right ? enter(state) : '/pw'),
        }
      return { parts: [input('Email', { type: 'email' }), button('Next')], more: { title: 'Sign in', headings: ['Sign in'] }, press: () => '/pw' }
    }
    expect(endOf(await run(new World(site).withStored(STORED)))).toBe('SUCCESS')
  })
  describe('at a site of two pages that begins again after a wrong password', () => {
    const site: Site = ({ pathname }, state) => {
      if (state.user !== '') return HOME
      if (pathname === '/pw') {
        const press = (_label: string, { Password: given }: Record<string, string>) =>
          given === right ? enter(state) : ((state.step['wrong'] = true), '/login')
        return { parts: [password('Password'), button('Sign in')], more: { title: 'Sign in' }, press }
      }
      return {
        parts: [input('Email', { type: 'email' }), button('Next')],
        more: { title: 'Sign in', ...(state.step['wrong'] === true && isError) },
        press: () => '/pw',
      }
    }
    test('tries a stored wrong password once, and ends with the words of the site', async () => {
      for (const type of ['login', 'reauth'] as const) {
        const world = await run(new World(site, { flow: { type } }).withStored({ username, password: wrong }))
        expect(world.row.end).toMatchObject({ errorCode: 'credentials_invalid', websiteError: 'Wrong username or password.', refused: 'credential 1' })
        expect(world.sentOf(wrong)).toBe(1)
      }
    })
    test('asks a person for both again, with the words of the site', async () => {
      const world = new World(site)
      const said: (string | null | undefined)[] = []
      const answers = answering({ email: username }, { password: wrong }, { email: username }, { password: right })
      world.person = (pause, step) => {
        said.push(world.row.websiteError)
        return answers(pause, step)
      }
      expect(endOf(await run(world))).toBe('SUCCESS')
      expect(world.pauses.map(({ fields }) => fields.map(({ key, reason }) => `${key} ${reason}`))).toEqual([
        ['email missing'],
        ['password missing'],
        ['email rejected'],
        ['password rejected'],
      ])
      expect(said[2]).toBe('Wrong username or password.')
    })
  })
  test('fills one more field that a person answers, and keeps it', async () => {
    const site: Site = (_, state) =>
      state.user !== ''
        ? HOME
        : {
            ...loginForm({}, []),
            parts: [input('Company ID', { required: true, name: 'company' }), ...loginForm().parts],
            press: (_label, v) => (v['Company ID'] === 'c1' ? enter(state) : '/login'),
          }
    const world = new World(site).withStored(STORED)
    world.person = answering({ company_id: 'c1' })
    expect(endOf(await run(world))).toBe('SUCCESS')
    expect(world.kept[0]!.values).toEqual({ company_id: 'c1' })
  })
  test('of a profile that is logged in already ends at once, without a credential', async () => {
    const world = new World(plain(), { connection: { status: 'AUTHENTICATED', post_login_url: 'https://example.test/home' } }).withStored(STORED)
    world.profile.user = username
    await run(world)
    expect(endOf(world)).toBe('SUCCESS')
    expect(world.sent).toEqual([])
  })
  test('goes on with a form that has grown by a code, and leaves the button alone when the page sends the code by itself', async () => {
    let presses = 0
    const site: Site = (_, state) => {
      const count = (next: () => string | undefined) => () => (presses++, next())
      if (state.user !== '') return { ...HOME, press: count(() => undefined) }
      if (!state.step['isRight']) {
        const press = (_label: string, values: Record<string, string>) => ((state.step['isRight'] = values['Password'] === right), '/login')
        return { ...loginForm(), press }
      }
      const filled = { has_value: true }
      const fields = [input('Username', { name: 'username', ...filled }), password('Password', filled), input('Code', { autocomplete: 'one-time-code' })]
      return { ...loginForm(), parts: [...fields, button('Sign in')], sendsItself: (values) => 'Code' in values, press: count(() => enter(state)) }
    }
    const world = await run(new World(site).withStored(STORED, { totp: true }))
    expect(endOf(world)).toBe('SUCCESS')
    expect(presses).toBe(1)
    expect(world.sentOf(right)).toBe(1)
  })
  test('says yes to staying signed in', async () => {
    const world = await run(
      new World(
        plain('/stay', (path, state) =>
          path === '/stay' && state.user === ''
            ? { parts: [press('Yes'), press('No')], more: { headings: ['Stay signed in?'] }, press: (label) => (label === 'Yes' ? enter(state) : '/nope') }
            : undefined,
        ),
      ).withStored(STORED),
    )
    expect(endOf(world)).toBe('SUCCESS')
  })
  test('finds the form behind a link of the start page', async () => {
    const base = plain()
    const world = new World(
      (url, state) =>
        url.pathname === '/' && state.user === ''
          ? { parts: [link('Log in', '/login'), link('Prices', '/p')], more: { headings: ['Shop'] } }
          : base(url, state),
      {
        connection: { login_url: null },
      },
    ).withStored(STORED)
    expect(endOf(await run(world))).toBe('SUCCESS')
  })
  test('fails when no page has a form', async () => {
    const world = await run(new World(() => ({ parts: [], more: { status: 404, headings: ['Not found'] } })).withStored(STORED))
    expect(endOf(world)).toBe('login_form_not_found')
  })
})

describe('a second factor', () => {
  const CODE: SitePage = {
    parts: [input('Code from your authenticator app', { autocomplete: 'one-time-code', inputmode: 'numeric', maxlength: 6 }), button('Verify')],
    more: { headings: ['Two-factor authentication'] },
  }
  const label = 'Code from your authenticator app'
  const withCode = (check: (value: string) => boolean, page = CODE): Site =>
    plain('/code', (path, state) =>
      path === '/code' && state.user === ''
        ? {
            ...page,
            more: { ...page.more, ...(state.step['badCode'] === true && { alerts: [{ text: 'Invalid code.', by: 'role' as const }] }) },
            press: (_, v) => (check(v[label]!) ? enter(state) : ((state.step['badCode'] = true), '/code')),
          }
        : undefined,
    )
  test('is made of the stored secret, with seconds left', async () => {
    const world: World = new World(withCode((value) => value === String(Math.floor(world.clock.at / 30_000) % 1_000_000).padStart(6, '0'))).withStored(STORED, {
      totp: true,
    })
    world.clock.at = Math.ceil(world.clock.at / 30_000) * 30_000 - 2000
    expect(endOf(await run(world))).toBe('SUCCESS')
    expect(world.learned!.requirements).toEqual(['identifier', 'password', 'totp'])
  })
  test('that was refused is tried once more, with the next code', async () => {
    const world = await run(new World(withCode(() => false)).withStored(STORED, { totp: true }))
    const codes = world.sent.flatMap(({ values }) => values[label] ?? [])
    expect(endOf(world)).toBe('credentials_invalid')
    expect(codes).toHaveLength(2)
    expect(codes[0]).not.toBe(codes[1])
  })
  test('that a person types is never kept', async () => {
    const world = new World(withCode((value) => value === code)).withStored(STORED)
    world.person = answering({ code })
    await run(world)
    expect(endOf(world)).toBe('SUCCESS')
    expect(world.kept).toEqual([])
  })
  test('that nobody is there for ends a re-login', async () => {
    const world = new World(
      withCode(() => true),
      { flow: { type: 'reauth' } },
    ).withStored(STORED)
    expect(endOf(await run(world))).toBe('session_expired')
  })
  const METHODS: SitePage = {
    parts: [press('Text message to •••92'), press('Authenticator app')],
    more: { headings: ['Choose how to verify'] },
  }
  const choosing = plain('/choose', (path, state) => {
    if (state.user !== '') return undefined
    if (path === '/choose') return { ...METHODS, press: (chosen) => ((state.step['chosen'] = chosen), '/code') }
    return path === '/code' ? { ...CODE, press: () => enter(state) } : undefined
  })
  test('is chosen by a person', async () => {
    const world = new World(choosing).withStored(STORED)
    world.person = ({ choices, fields }) =>
      fields.length > 0 ? { values: { [fields[0]!.id]: code } } : { choice: choices.find(({ mfa }) => mfa === 'sms')!.id }
    await run(world)
    expect(endOf(world)).toBe('SUCCESS')
    expect(world.pauses[0]!.choices.map(({ mfa, maskedDestination }) => `${mfa} ${maskedDestination}`)).toEqual(['sms •••92', 'totp undefined'])
    expect(world.learned!.steps.flatMap(({ choice }) => choice?.mfa ?? [])).toEqual(['sms'])
  })
  test('is chosen by itself when its secret is stored', async () => {
    const world = await run(new World(choosing).withStored(STORED, { totp: true }))
    expect(endOf(world)).toBe('SUCCESS')
    expect(world.pauses).toEqual([])
  })
  test('on a phone is waited for, and the flow goes on by itself', async () => {
    let steps: string[] = []
    const world: World = new World(
      plain('/wait', (path, state) =>
        path === '/wait' && state.user === '' && world.reads < 9
          ? {
              parts: [link('Use another method', '/other')],
              more: { headings: ['Approve sign in'], body: 'Approve sign in. Waiting for you to approve the request on your phone.' },
            }
          : path === '/wait'
            ? ((state.user = username), HOME)
            : undefined,
      ),
    ).withStored(STORED)
    world.person = (_, step) => (steps.push(step), undefined)
    await run(world)
    expect(endOf(world)).toBe('SUCCESS')
    expect(new Set(steps)).toEqual(new Set(['AWAITING_EXTERNAL_ACTION']))
    expect(world.learned!.requirements).toContain('push')
  })
})
