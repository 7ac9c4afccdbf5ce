// Pages of real applications, as the agent reads them, are recognised.
import { describe, expect, test } from 'vitest'
import { context, savedPage } from '../../../../../test/support/page-models.ts'
import { interpret } from './interpret.ts'
import { SURE, type Interpretation } from './interpretation.ts'

interface Expected {
  kind: Interpretation['kind']
  /** role:key, in order. */
  fields?: string[]
  submit?: string
  proceed?: string
  links?: string[]
  choices?: string[]
  tick?: string[]
  error?: string | RegExp
  signOut?: string
}

const USER_AND_PASSWORD = ['identifier:username', 'password:password']
const LOGIN: Expected = { kind: 'login', fields: USER_AND_PASSWORD }

const ADMINER = ['select:system', 'text:server', ...USER_AND_PASSWORD, 'text:database']

/** The third element: whether the password was sent before. */
const PAGES: [name: string, expected: Expected, hasSubmitted?: boolean][] = [
  ['oidc-login', { ...LOGIN, submit: 'Sign-in' }],
  ['oidc-consent', { kind: 'consent', proceed: 'Continue' }, true],
  ['parse-dashboard-login', { ...LOGIN, submit: 'Log In' }],
  ['parse-dashboard-wrong', { ...LOGIN, submit: 'Log In', error: 'Invalid username or password' }, true],
  ['parse-dashboard-totp', { kind: 'login', fields: [...USER_AND_PASSWORD, 'code:code'], submit: 'Log In' }, true],
  ['parse-dashboard-logged-in', { kind: 'logged_in', signOut: 'Logout' }, true],
  ['node-red-login', { ...LOGIN, submit: 'Login' }],
  ['node-red-wrong', { ...LOGIN, submit: 'Login', error: 'Login failed' }, true],
  ['node-red-logged-in', { kind: 'logged_in' }, true],
  ['verdaccio-home', { kind: 'way_to_login', links: ['Login'] }],
  ['verdaccio-dialog', { ...LOGIN, submit: 'Login' }],
  ['verdaccio-wrong', { ...LOGIN, submit: 'Login', error: 'Invalid username or password' }, true],
  ['verdaccio-logged-in', { kind: 'logged_in' }, true],
  ['django-login', { ...LOGIN, submit: 'Log in' }],
  ['django-wrong', { ...LOGIN, submit: 'Log in', error: /^Please enter the correct username and password/ }, true],
  ['django-logged-in', { kind: 'logged_in', signOut: 'Log out' }, true],
  ['django-change-password', { kind: 'logged_in', signOut: 'Log out' }],
  ['jupyter-login', { kind: 'password', fields: ['password:password'], submit: 'Log in' }],
  ['jupyter-wrong', { kind: 'password', fields: ['password:password'], submit: 'Log in', error: 'Invalid credentials' }, true],
  ['jupyter-logged-in', { kind: 'logged_in' }, true],
  ['adminer-login', { kind: 'login', fields: ADMINER, submit: 'Login', tick: ['Permanent login'] }],
  ['adminer-wrong', { kind: 'login', fields: ADMINER, submit: 'Login', tick: ['Permanent login'], error: 'No such file or directory' }, true],
  ['dokuwiki-home', { kind: 'way_to_login', links: ['Log In'] }],
  ['dokuwiki-login', { ...LOGIN, submit: 'Log In', tick: ['Remember me'] }],
  ['dokuwiki-wrong', { ...LOGIN, submit: 'Log In', tick: ['Remember me'], error: 'Sorry, username or password was wrong.' }, true],
  ['dokuwiki-logged-in', { kind: 'logged_in', signOut: 'Log Out' }, true],
  ['dokuwiki-profile', { kind: 'logged_in', signOut: 'Log Out' }],
  ['roundcube-login', { kind: 'login', fields: [...USER_AND_PASSWORD, 'select:server'], submit: 'Login' }],
  ['roundcube-wrong', { kind: 'login', fields: [...USER_AND_PASSWORD, 'select:server'], submit: 'Login', error: 'Connection to storage server failed.' }, true],
  ['wordpress-login', { ...LOGIN, submit: 'Log In', tick: ['Remember Me'] }],
  [
    'wordpress-wrong',
    { ...LOGIN, submit: 'Log In', tick: ['Remember Me'], error: 'Error: The password you entered for the username jane is incorrect.' },
    true,
  ],
  ['wordpress-logged-in', { kind: 'logged_in', signOut: 'Log Out' }, true],
  ['wordpress-profile', { kind: 'logged_in', signOut: 'Log Out' }],
  ['wordpress-lost-password', { kind: 'sign_up', fields: ['text:user_login'], links: ['Log in'] }],
  ['simplesaml-login', { ...LOGIN, submit: 'Login' }],
  ['simplesaml-wrong', { ...LOGIN, submit: 'Login', error: /^Incorrect username or password/ }, true],
  ['simplesaml-logged-in', { kind: 'logged_in', signOut: 'Logout' }, true],
  ['simplesaml-error', { kind: 'error' }],
  ['lemonldap-login', { ...LOGIN, submit: 'Connect', tick: ['Stay connected on this device'] }],
  ['lemonldap-wrong', { ...LOGIN, submit: 'Connect', tick: ['Stay connected on this device'], error: 'Wrong credentials' }, true],
  ['lemonldap-method-choice', { kind: 'method_choice', choices: ['mfa_method:totp', 'mfa_method:sms'] }, true],
  ['lemonldap-totp', { kind: 'code', fields: ['totp_code:code'], submit: 'Connect' }, true],
  ['lemonldap-totp-wrong', { kind: 'error', error: 'Invalid verification code' }],
  ['lemonldap-second', { kind: 'code', fields: ['code:code'], submit: 'Connect' }, true],
  ['lemonldap-logged-in', { kind: 'logged_in', signOut: 'Logout' }, true],
  ['cockpit-login', { ...LOGIN, submit: 'Log in', choices: ['sign_in_method:undefined'] }],
  ['cockpit-notice', { kind: 'logged_in', error: '2 failed login attempts' }, true],
  ['deluge-login', { kind: 'password', fields: ['password:password'], submit: 'Login' }],
  ['deluge-logged-in', { kind: 'logged_in', signOut: 'Logout' }, true],
  ['artemis-login', { ...LOGIN, submit: 'Log in', tick: ['Remember username'] }],
  ['artemis-wrong', { ...LOGIN, submit: 'Log in', tick: ['Remember username'], error: 'Invalid login credentials' }, true],
  ['artemis-logged-in', { kind: 'logged_in' }, true],
  ['deluge-wrong', { kind: 'password', fields: ['password:password'], submit: 'Login', error: 'Login Failed' }, true],
  ['flask-appbuilder-wrong', { ...LOGIN, submit: '로그인', error: /유효하지않은 로그인/ }, true],
  ['qbittorrent-logged-in', { kind: 'logged_in' }, true],
  ['rabbitmq-wrong', { ...LOGIN, submit: 'Login', error: 'Login failed' }, true],
  ['ungit-logged-in', { kind: 'logged_in' }, true],
]

describe('the page', () => {
  test.each(PAGES)('%s is understood', (name, expected, hasSubmitted = false) => {
    const model = savedPage(name)
    const found = interpret(model, context({ domain: model.host, hasSubmitted }))
    const label = (ref: string | undefined) => model.controls.find((control) => control.ref === ref)?.label
    const { fields = [], links = [], choices = [], tick = [], error } = expected
    expect({
      kind: found.kind,
      fields: found.fields.map(({ role, key }) => `${role}:${key}`),
      submit: label(found.submit),
      proceed: label(found.proceed),
      links: found.loginLinks.map(label),
      choices: found.choices.map(({ type, provider, mfa }) => `${type}:${provider ?? mfa}`),
      tick: found.tick.map(label),
      error: found.websiteError,
      signOut: label(found.signOut),
      dismiss: label(found.dismiss),
    }).toEqual({
      kind: expected.kind,
      fields,
      submit: expected.submit,
      proceed: expected.proceed,
      links,
      choices,
      tick,
      error: error instanceof RegExp ? expect.stringMatching(error) : error,
      signOut: expected.signOut,
      dismiss: undefined,
    })
    expect(found.confidence).toBeGreaterThanOrEqual(SURE)
  })

  test.each(['parse-dashboard', 'node-red', 'django', 'jupyter', 'adminer', 'dokuwiki', 'roundcube', 'wordpress', 'simplesaml', 'lemonldap'])(
    '%s has the same signature after a wrong password',
    (app) => {
      const signature = (state: string, hasSubmitted: boolean) => interpret(savedPage(`${app}-${state}`), context({ hasSubmitted })).signature
      expect(signature('wrong', true)).toBe(signature('login', false))
    },
  )

  test.each(PAGES.filter(([name]) => name.endsWith('-login')).map(([name]) => name))('%s shows no message of its own before anything was sent', (name) => {
    expect(interpret(savedPage(name), context()).websiteError).toBeUndefined()
  })

  test('a field with an example in it is called by the text beside it', () => {
    const { fields } = interpret(savedPage('adminer-login'), context())
    expect(fields.map(({ label }) => label)).toEqual(['System', 'Server', 'Username', 'Password', 'Database'])
  })
})
