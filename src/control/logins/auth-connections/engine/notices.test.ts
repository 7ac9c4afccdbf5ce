// Notices of applications: a page behind a login with a notice about a failure is no failed login. On a page with little else, the notice is about the page
// itself.
import { describe, expect, test } from 'vitest'
import { answering, endOf, enter, loginForm, run, STORED } from '../../../../../test/support/login-runs.ts'
import { World, type Site } from '../../../../../test/support/login-site.ts'
import { context, input, link, page, press } from '../../../../../test/support/page-models.ts'
import type { PageModel } from '../../../../agent/login/contract.ts'
import { interpret } from './interpret.ts'
import { judge } from './verify.ts'

const NOTICES = [
  '1 failed login attempt',
  'There were 3 failed login attempts since the last successful login.',
  'Your password has expired soon: invalid after 5 days.',
  'The licence of this server has expired.',
  'Scheduled: under maintenance on Sunday. The service will be temporarily unavailable.',
  'Error: updates could not be fetched.',
  '2 fehlgeschlagene Anmeldeversuche. Ihr Kennwort ist in 3 Tagen ungültig.',
  'Wartungsarbeiten am Sonntag: der Dienst ist nicht verfügbar.',
  'Échec de la dernière connexion. Votre mot de passe a expiré.',
  'Último acceso fallido: contraseña incorrecta. Servicio no disponible el domingo.',
  'Accesso fallito il 3 maggio. La licenza è scaduta.',
  'Последняя попытка входа: неверный пароль. Сервис недоступен в воскресенье.',
  '前回のログインに失敗しました。日曜日はメンテナンスです。',
  '上次登录失败：密码错误。许可证无效。',
]

/** A menu of an application without a visible link to sign out. */
const MENU = Array.from({ length: 14 }, (_, at) => link(`Section ${at + 1}`, `/section/${at + 1}`))
const behind = (more: Parameters<typeof page>[1], parts = MENU): PageModel => page(parts, { url: 'https://example.test/home', title: 'Server', ...more })
const kindOf = (model: PageModel, hasSubmitted: boolean) => interpret(model, context({ hasSubmitted })).kind

describe.each(NOTICES)('%s', (text) => {
  test('as a message of an application: the user is logged in', () => {
    const model = behind({ alerts: [{ text, by: 'role' }] })
    expect(kindOf(model, true)).toBe('logged_in')
    // It also decides nothing in a check, which finds the link to sign out in the closed menu.
    const menu = behind({ alerts: [{ text, by: 'class' }], headings: [text] }, [...MENU, link('Log out', '/logout', { visible: false })])
    expect(judge(menu, interpret(menu, context()), undefined)).toBe('AUTHENTICATED')
  })
  test('as a heading of an application: the user is logged in', () => {
    expect(kindOf(behind({ headings: ['Overview', text], body: `Overview ${text}` }), true)).toBe('logged_in')
  })
})

test('a box that filters a list is no form, also when the page has the words of one in its menus', () => {
  const body = 'File Logout Help Register to handle magnet links Password Forgot your password? All (0) Errored (0)'
  const model = behind({ body, alerts: [{ text: 'Errored (0)', by: 'class' }] }, [input('Filter list...', { form: null }), ...MENU])
  expect(kindOf(model, true)).toBe('logged_in')
})

test('a way out that is switched off is none: an application shows it to guests before it asks for a password', () => {
  const url = 'https://example.test/'
  const guests = page([...MENU, press('Logout', { enabled: false })], { url })
  const users = page([...MENU, press('Logout')], { url })
  expect(kindOf(users, false)).toBe('logged_in')
  expect(interpret(guests, context())).toMatchObject({ signOut: undefined })
  expect(kindOf(guests, false)).not.toBe('logged_in')
  const marks = { cookies: [], signsOut: true, redirects: false, insteadOf: 'example.test/' }
  const learned = { requirements: [], keys: [], ssoProvider: undefined, steps: [], loginPath: 'example.test/', marks }
  expect(judge(users, interpret(users, context()), learned)).toBe('AUTHENTICATED')
  expect(judge(guests, interpret(guests, context()), learned)).toBe('inconclusive')
})

test.each([
  'View login history',
  'Login activity',
  'Recent logins',
  'Verlauf der Anmeldung',
  'Historique de connexion',
  'Historial de inicio de sesión',
  'Cronologia di accesso',
  'История: вход',
  'Історія: вхід',
  'ログイン履歴',
  '登录记录',
  '로그인 기록',
])('a link that tells of logins is no way to log in, and a notice beside it denies none: %s', (label) => {
  const model = behind({ alerts: [{ text: NOTICES[0]!, by: 'class' }] }, [...MENU, press(label)])
  expect(kindOf(model, true)).toBe('logged_in')
  expect(interpret(page([link(label, '/account/login-history')]), context()).loginLinks).toEqual([])
})

test('a page that has nothing else, or a way to log in, says that it failed', () => {
  const text = 'Error: this account is locked.'
  expect(kindOf(behind({ alerts: [{ text, by: 'role' }] }, [link('Home', '/')]), true)).toBe('error')
  expect(kindOf(behind({ alerts: [{ text, by: 'role' }] }, [...MENU, link('Log in', '/login')]), true)).toBe('error')
  expect(kindOf(behind({ title: 'Internal server error' }), true)).toBe('error')
})

test('a page behind a 401 whose scripts ask by HTTP is the form on it, also with a challenge', () => {
  const { parts, more } = loginForm()
  expect(kindOf(page(parts, { ...more, http_auth: true, status: 401 }), true)).toBe('login')
  expect(kindOf(page([link('Home', '/')], { http_auth: true, status: 401 }), false)).toBe('http_auth')
})

const withNotice: Site = (_, state) =>
  state.user === '' ? { ...loginForm(), press: () => enter(state) } : { parts: MENU, more: { alerts: [{ text: NOTICES[0]!, by: 'role' }] } }

test('a login that leads to a page with such a notice succeeds, and its words are told as no message of the site', async () => {
  const world = await run(new World(withNotice).withStored(STORED))
  expect(endOf(world)).toBe('SUCCESS')
  expect(world.row.websiteError ?? null).toBeNull()
})

test('an application of one address without any sign of a user is known by what is in place of its form', async () => {
  const list = [link('/srv/login-notes', '/'), press('Refresh'), input('Path'), press('')]
  const site: Site = (_, state) => (state.user === '' ? { ...loginForm(), press: () => (enter(state), '/login') } : { parts: list })
  const world = new World(site, { connection: { login_url: 'https://example.test/login' } }).withStored(STORED)
  world.person = answering(STORED)
  await run(world)
  expect(world.row.end).toMatchObject({ state: 'SUCCESS', learned: { marks: { insteadOf: 'example.test/login' } } })
  const learned = (world.row.end as { learned: Parameters<typeof judge>[2] }).learned
  const at = (model: PageModel) => judge(model, interpret(model, context()), learned)
  const url = 'https://example.test/login'
  expect(at(page(list, { url }))).toBe('AUTHENTICATED')
  expect(at(page([], { url }))).toBe('inconclusive')
  expect(at(page([link('Log in', '/form')], { url }))).toBe('NEEDS_AUTH')
  expect(at(page(loginForm().parts, { ...loginForm().more, url }))).toBe('NEEDS_AUTH')
})
