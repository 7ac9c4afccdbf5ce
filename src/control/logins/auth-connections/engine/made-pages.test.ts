// Pages that no available application shows, written by hand in short form, are recognised.
import { describe, expect, test } from 'vitest'
import { box, button, context, frame, input, link, page, password, press, radio } from '../../../../../test/support/page-models.ts'
import type { PageModel } from '../../../../agent/login/contract.ts'
import { interpret } from './interpret.ts'

const read = (model: PageModel, hasSubmitted = false) => interpret(model, context({ hasSubmitted }))
const roles = (model: PageModel, hasSubmitted = false) => read(model, hasSubmitted).fields.map(({ role, key }) => `${role}:${key}`)
const choices = (model: PageModel) => read(model).choices.map(({ type, provider, mfa, label }) => `${type} ${provider ?? mfa ?? ''} ${label}`)
const USER_AND_PASSWORD = ['identifier:username', 'password:password']

describe('fields', () => {
  test('that have only placeholders, and no words in their names', () => {
    const model = page([
      input('Enter any login', { label_from: 'placeholder', autocomplete: 'off', name: 'a' }),
      password('and password', { name: 'b' }),
      button('Sign-in'),
    ])
    expect(roles(model)).toEqual(USER_AND_PASSWORD)
  })
  test('that have no words at all', () => {
    expect(roles(page([input('', { name: 'f1' }), password('', { name: 'f2' }), button('')], { url: 'https://example.test/' }))).toEqual(USER_AND_PASSWORD)
  })
  test('in no form, with a button that is disabled until something was typed', () => {
    const model = page([input('Email', { form: null }), password('Password', { form: null }), press('Sign in', { enabled: false }), press('Cancel')])
    expect(roles(model)).toEqual(['identifier:email', 'password:password'])
    expect(read(model).submit).toBe('1.0.2')
  })
  test('of servers, systems and databases are asked for besides', () => {
    const model = page([
      { tag: 'select', label: 'System', form: 0, has_value: true, options: ['MySQL', 'PostgreSQL'], name: 'auth[driver]' },
      input('Server', { name: 'auth[server]' }),
      input('Username', { name: 'auth[username]' }),
      password('Password', { name: 'auth[password]' }),
      input('Database', { name: 'auth[db]' }),
      button('Login'),
      box('Permanent login', { name: 'auth[permanent]' }),
    ])
    expect(roles(model)).toEqual(['select:system', 'text:server', 'identifier:username', 'password:password', 'text:database'])
    expect(read(model).fields[0]).toMatchObject({ isFilled: true, options: ['MySQL', 'PostgreSQL'] })
    expect(read(model).tick).toEqual(['1.0.6'])
  })
  test('of a company, that have to be filled', () => {
    expect(roles(page([input('Company ID', { required: true, name: 'cid' }), input('User'), password('Password'), button('Log in')]))).toEqual([
      'text:company_id',
      ...USER_AND_PASSWORD,
    ])
  })
  test('of a language are not asked for', () => {
    expect(
      roles(page([input('User'), password('Password'), { tag: 'select', label: 'Language', form: 0, options: ['English', 'Deutsch'] }, button('Log in')])),
    ).toEqual(USER_AND_PASSWORD)
  })
  test('get their keys from labels, short texts beside them or their names, not from examples in them', () => {
    const model = page([
      { tag: 'select', label: 'System', near: 'System', label_from: 'near', form: 0, has_value: true, name: 'auth[driver]' },
      input('localhost', { label_from: 'placeholder', placeholder: 'localhost', near: 'Server', name: 'auth[server]' }),
      input('Username', { name: 'auth[username]' }),
      password('Password'),
      input('データベース', { name: 'auth[db]' }),
      button('Login'),
    ])
    expect(roles(model)).toEqual(['select:system', 'text:server', ...USER_AND_PASSWORD, 'text:db'])
  })
  test('of an account page are left: to delete the account, to change its address', () => {
    const rest = [link('Log out', '/logout')]
    const at = { url: 'https://example.test/profile', headings: ['Profile'] }
    expect(read(page([password('Current password'), button('Remove my account'), ...rest], at)).kind).toBe('logged_in')
    expect(read(page([input('Email'), password('Password'), button('Save'), ...rest], at)).kind).toBe('logged_in')
    expect(read(page([input('Code'), button('Verify'), ...rest], { headings: ['Two-factor authentication'] })).kind).toBe('code')
  })
  test('of terms that have to be agreed to are asked for, and not ticked', () => {
    const found = read(page([input('User'), password('Password'), box('I agree to the terms', { required: true }), button('Log in')]))
    expect(found.fields.map(({ role, key }) => `${role}:${key}`)).toEqual([...USER_AND_PASSWORD, 'checkbox:terms'])
    expect(found.tick).toEqual([])
  })
  test('of a name that is remembered are filled already; the password never is', () => {
    const found = read(page([input('User', { has_value: true }), password('Password', { has_value: true }), button('Log in')]))
    expect(found.fields.map(({ isFilled }) => isFilled)).toEqual([true, false])
  })
  test('that take a name or an address have the key username; one for a phone number has phone', () => {
    expect(roles(page([input('Email or username'), password('Password'), button('Log in')]))).toEqual(USER_AND_PASSWORD)
    expect(roles(page([input('Mobile number', { type: 'tel' }), password('Password'), button('Log in')]))).toEqual(['identifier:phone', 'password:password'])
  })
  test('whose password is shown at the moment', () => {
    expect(roles(page([input('User'), input('Password', { name: 'password', autocomplete: 'current-password' }), button('Log in')]))).toEqual(USER_AND_PASSWORD)
  })
  test('that say new-password only to keep password managers out', () => {
    const model = page([input('User'), password('Password', { autocomplete: 'new-password' }), link('Forgot password?', '/f', { form: 0 }), button('Log in')])
    expect(roles(model)).toEqual(USER_AND_PASSWORD)
  })
  test('in another frame have the host of that frame', () => {
    const model = page([input('User', { frame: 1 }), password('Password', { frame: 1 }), button('Log in', { frame: 1 })], {
      frames: [frame('id.example.test', '/login', 400, 400)],
    })
    expect(read(model).fields.map(({ host }) => host)).toEqual(['id.example.test', 'id.example.test'])
  })
})

describe('a search, a newsletter, a contact form', () => {
  test('beside a login form in the header of a home page take no name', () => {
    const model = page(
      [
        input('Search', { type: 'search' }),
        button('Go'),
        input('Email', { form: 1 }),
        password('Password', { form: 1 }),
        button('Log in', { form: 1 }),
        input('Your email', { form: 2, type: 'email' }),
        button('Subscribe', { form: 2 }),
      ],
      { url: 'https://example.test/', headings: ['Welcome to our shop'] },
    )
    expect(read(model).kind).toBe('login')
    expect(read(model).fields.map(({ ref }) => ref)).toEqual(['1.0.2', '1.0.3'])
    expect(read(model).submit).toBe('1.0.4')
  })
  test('in one form around the whole page with a login take no name either', () => {
    const model = page([
      input('Search'),
      button('Search'),
      input('User name'),
      password('Password'),
      button('Sign in'),
      input('Newsletter'),
      button('Subscribe'),
    ])
    expect(read(model).fields.map(({ ref }) => ref)).toEqual(['1.0.2', '1.0.3'])
    expect(read(model).submit).toBe('1.0.4')
  })
  test('whose heading alone says newsletter takes no name', () => {
    const model = page([link('Mein Konto', '/mein-konto'), input('Ihre E-Mail-Adresse', { type: 'email', near: 'Newsletter' }), button('Anmelden')], {
      url: 'https://example.test/',
      headings: ['Angebote'],
    })
    expect(read(model)).toMatchObject({ kind: 'way_to_login', fields: [] })
  })
  test('alone are no login', () => {
    const home = { url: 'https://example.test/', headings: ['News'] }
    for (const label of ['Subscribe', 'Sign up for our newsletter', 'Abonnieren'])
      expect(read(page([input('Your email', { type: 'email' }), button(label), link('Log in', '/login')], home)).kind).toBe('way_to_login')
    expect(
      read(page([input('Your name'), input('Your email', { type: 'email' }), { tag: 'textarea', label: 'Message', form: 0 }, button('Send')], home)).fields,
    ).toEqual([])
  })
})

describe('forms for new passwords', () => {
  test('beside a login form leave that one', () => {
    const model = page([
      input('Email', { type: 'email' }),
      password('Password'),
      button('Log in'),
      input('First name', { form: 1 }),
      input('Email', { type: 'email', form: 1 }),
      password('Password', { form: 1 }),
      password('Confirm password', { form: 1 }),
      button('Register', { form: 1 }),
    ])
    expect(read(model).kind).toBe('login')
    expect(read(model).fields.map(({ ref }) => ref)).toEqual(['1.0.0', '1.0.1'])
  })
  test('a registration with one password, and a way to the login', () => {
    const model = page([input('Full name'), input('Email', { type: 'email' }), password('Password'), button('Sign up'), link('Log in', '/login')], {
      url: 'https://example.test/signup',
    })
    expect(read(model)).toMatchObject({ kind: 'sign_up', loginLinks: ['1.0.4'] })
    expect(roles(model)).not.toContain('password:password')
  })
  test('asking where to send a link gets no name', () => {
    const model = page([input('Email', { type: 'email' }), button('Send reset link'), link('Back to log in', '/login')], {
      url: 'https://example.test/forgot',
      headings: ['Reset your password'],
    })
    expect(read(model).kind).toBe('sign_up')
    expect(roles(model)).toEqual(['text:email'])
  })
})

describe('a second factor', () => {
  test.each([
    ['Enter the code we sent by text message to •••92', 'code', 'sms', '•••92'],
    ['We emailed a code to j***@example.com', 'code', 'email', 'j***@example.com'],
    ['Open your authenticator app and enter the code', 'totp_code', 'totp', 'authenticator'],
  ] as const)('%s', (body, role, codeBy, hint) => {
    const model = page([input('Code', { name: 'code' }), button('Verify'), link('Use another method')], { body, headings: ['Verify'] })
    const [field] = read(model).fields
    expect(field).toMatchObject({ role, codeBy })
    expect(field!.hint).toContain(hint)
    expect(choices(model)).toEqual(['mfa_method switch Use another method'])
  })
  test('in one box for each character', () => {
    for (const count of [4, 6, 8]) {
      const boxes = Array.from({ length: count }, (_, index) =>
        input('', { maxlength: 1, inputmode: 'numeric', box: { x: 100 + index * 40, y: 300, width: 30, height: 30 } }),
      )
      const [field] = read(page([...boxes, button('Verify', { box: { x: 100, y: 360, width: 100, height: 30 } })], { headings: ['Enter code'] })).fields
      expect(field!.boxes).toEqual(boxes.map((_, index) => `1.0.${index}`))
    }
  })
  test('offers what its links say, which do not change where the code comes from', () => {
    const model = page(
      [
        input('Code', { autocomplete: 'one-time-code' }),
        button('Verify'),
        link('Use your authenticator app instead'),
        link('Call me at •••• 92'),
        link('Resend code'),
        box('Trust this device'),
      ],
      {
        headings: ['Check your phone'],
        body: 'We sent a text message to •••• 92. Use your authenticator app instead Call me at •••• 92 Resend code',
      },
    )
    expect(read(model).fields[0]).toMatchObject({ role: 'code', codeBy: 'sms' })
    expect(read(model).choices.map(({ mfa, maskedDestination }) => [mfa, maskedDestination])).toEqual([
      ['totp', undefined],
      ['call', '•••• 92'],
    ])
    expect(read(model).tick).toEqual(['1.0.5'])
  })
  test('a postcode, a coupon or a card number is no code', () => {
    for (const label of ['Postal code', 'Promo code', 'Card number'])
      expect(read(page([input(label, { inputmode: 'numeric', maxlength: 6 }), button('Continue')], { url: 'https://example.test/cart' })).kind).not.toBe('code')
  })
  test('a choice of methods, as buttons', () => {
    const model = page(
      [
        press('Text me a code at •••92'),
        press('Email j***@example.com'),
        press('Approve on my phone: push notification'),
        press('Security key'),
        link('Cancel', '/x'),
      ],
      {
        headings: ['Choose how to verify it is you'],
      },
    )
    expect(read(model).kind).toBe('method_choice')
    expect(read(model).choices.map(({ type, mfa }) => [type, mfa])).toEqual([
      ['mfa_method', 'sms'],
      ['mfa_method', 'email'],
      ['mfa_method', 'push'],
      ['mfa_method', 'passkey'],
    ])
    expect(read(model).choices[1]!.maskedDestination).toBe('j***@example.com')
  })
  test('a choice of methods whose words name several', () => {
    const model = page(
      [
        press('Approve a request on my Authenticator app'),
        press('Use a verification code'),
        press('Text +XX XXXXXXXX92'),
        press('Call +XX XXXXXXXX92'),
        link("I can't use my Authenticator app right now"),
      ],
      {
        headings: ['Verify your identity'],
      },
    )
    expect(read(model).choices.map(({ mfa, maskedDestination }) => [mfa, maskedDestination])).toEqual([
      ['push', undefined],
      ['totp', undefined],
      ['sms', 'XXXXXXXX92'],
      ['call', 'XXXXXXXX92'],
      ['switch', undefined],
    ])
  })
  test('a choice of methods, as radio buttons that are sent', () => {
    const model = page([radio('SMS', { name: 'm' }), radio('Authenticator app', { name: 'm' }), button('Continue')], {
      headings: ['Two-factor authentication'],
    })
    expect(read(model)).toMatchObject({ kind: 'method_choice', submit: '1.0.2' })
    expect(read(model).choices.map(({ ref }) => ref)).toEqual(['1.0.0', '1.0.1'])
  })
  test('an answer on the phone', () => {
    const model = page([link('Try another way')], { headings: ['Approve sign in'], body: 'Open the app on your phone and tap Yes to approve the request.' })
    expect(read(model)).toMatchObject({ kind: 'external_wait', external: { action: 'push' } })
    expect(choices(model)).toEqual(['mfa_method switch Try another way'])
  })
  test('a link in a mail', () => {
    const model = page([link('Resend')], { headings: ['Check your inbox'], body: 'We sent you a link to j***@example.com. Click the link to sign in.' })
    expect(read(model)).toMatchObject({ kind: 'external_wait', external: { action: 'email_link' } })
  })
  test('a passkey as the only method', () => {
    expect(read(page([press('Use your passkey')], { headings: ['Log in'], body: 'Log in This site uses passkeys only.' }))).toMatchObject({
      kind: 'passkey_prompt',
      choices: [],
    })
  })
  test('a passkey, with the password as a way out', () => {
    const model = page([press('Continue'), link('Use your password instead')], { headings: ['Use your passkey to sign in'], passkey_asked: true })
    expect(read(model)).toMatchObject({ kind: 'passkey_prompt', external: { action: 'passkey' } })
    expect(choices(model)).toEqual(['mfa_method password Use your password instead'])
  })
})

describe('choices', () => {
  test('of accounts', () => {
    const model = page([press('Jane Doe jane@example.com'), press('Use another account')], { headings: ['Choose an account'] })
    expect(read(model).kind).toBe('account_choice')
    expect(choices(model)).toEqual(['account  Jane Doe jane@example.com', 'account  Use another account'])
  })
  test('of organisations', () => {
    const model = page([press('Acme'), press('Globex'), link('Sign out', '/logout'), link('Help', '/help')], { headings: ['Select an organization'] })
    expect(read(model).kind).toBe('organization_choice')
    expect(choices(model)).toEqual(['other  Acme', 'other  Globex'])
  })
  test.each([
    [press('Continue with Google'), 'google'],
    [press('Sign in with GitHub'), 'github'],
    [press('Sign in with Microsoft'), 'microsoft'],
    [link('', '/auth/facebook', { label: 'Facebook' }), 'facebook'],
    [link('Log in', '/o/oauth2/v2/auth', { href_host: 'accounts.google.com' }), 'google'],
    [press('Sign in with Acme Corp'), 'acme_corp'],
    [press('Single sign-on (SSO)'), 'sso'],
  ])('of another service: $0.label', (part, provider) => {
    const model = page([input('Email'), password('Password'), button('Log in'), part], { headings: ['Log in'] })
    expect(read(model).choices.map(({ type, provider: name }) => [type, name])).toEqual([['sso_provider', provider]])
    expect(read(model).submit).toBe('1.0.2')
  })
  test('a form that only sends to another service is its button', () => {
    const model = page([button('GitHub')], {
      forms: [{ frame: 0, action_host: 'example.test', action_path: '/auth/github', method: 'post' }],
      headings: ['Welcome'],
    })
    expect(read(model)).toMatchObject({ kind: 'sso_only' })
  })
  test('a device or another account is no service; the name of a company comes first', () => {
    expect(read(page([input('User'), password('Password'), button('Log in'), press('Log in with a device')])).choices).toEqual([])
    expect(read(page([input('Your workspace', { name: 'domain' }), button('Continue')], { headings: ['Sign in to your workspace'] }))).toMatchObject({
      kind: 'identifier',
      fields: [{ role: 'text' }],
    })
  })
  test('links to pages of other services are none', () => {
    const model = page([
      input('Email'),
      password('Password'),
      button('Log in'),
      link('GitHub', '/acme', { href_host: 'github.com' }),
      link('Follow us on Facebook', '/acme', { href_host: 'www.facebook.com' }),
      link('Share on X', '/intent', { href_host: 'x.com' }),
    ])
    expect(read(model).choices).toEqual([])
  })
  test('only other services', () => {
    expect(read(page([press('Continue with Google'), press('Continue with Apple'), link('Terms', '/terms')], { headings: ['Sign in to Acme'] }))).toMatchObject(
      { kind: 'sso_only' },
    )
  })
  test('of another way to sign in', () => {
    const model = page([input('Email'), button('Next'), press('Sign in with a passkey'), link('Use phone number instead')], { headings: ['Sign in'] })
    expect(read(model).choices.map(({ type }) => type)).toEqual(['sign_in_method', 'identifier_method'])
  })
})

describe('pages between', () => {
  test('whether to stay signed in: yes', () => {
    const model = page([box('Don’t show this again'), press('No'), press('Yes')], { headings: ['Stay signed in?'] })
    expect(read(model)).toMatchObject({ kind: 'trust_device', proceed: '1.0.2' })
  })
  test('whether to trust the browser: yes', () => {
    const model = page([press("Don't trust"), press('Not now'), press('Trust')], { headings: ['Trust this browser?'] })
    expect(read(model)).toMatchObject({ kind: 'trust_device', proceed: '1.0.2' })
  })
  test('access to an account: allowed, never refused', () => {
    const model = page([press('Cancel'), button('Authorize Acme'), link('Sign out', '/logout')], { headings: ['Acme wants to access your account'] })
    expect(read(model)).toMatchObject({ kind: 'consent', proceed: '1.0.1' })
  })
  test('a form under a cookie banner: it is refused first', () => {
    const model = page(
      [
        input('User', { covered: true }),
        password('Password', { covered: true }),
        button('Log in', { covered: true }),
        press('Accept all'),
        press('Only necessary'),
      ],
      { body: 'We use cookies' },
    )
    expect(read(model)).toMatchObject({ kind: 'login', dismiss: '1.0.4' })
  })
  test('a banner that covers nothing is left', () => {
    expect(
      read(page([input('User'), password('Password'), button('Log in'), press('Accept all'), press('Reject all')], { body: 'We use cookies' })).dismiss,
    ).toBeUndefined()
  })
  test('a notice', () => {
    expect(read(page([press('Continue')], { headings: ['We have updated our services'], url: 'https://example.test/notice' }))).toMatchObject({
      kind: 'interstitial',
      proceed: '1.0.0',
    })
  })
})
