// Pages with captchas, failures and messages of the site, written by hand in short form, are recognised.
import { describe, expect, test } from 'vitest'
import { button, context, frame, input, link, page, password } from '../../../../../test/support/page-models.ts'
import type { PageModel } from '../../../../agent/login/contract.ts'
import { interpret } from './interpret.ts'

const read = (model: PageModel, hasSubmitted = false) => interpret(model, context({ hasSubmitted }))

describe('captchas', () => {
  const form = [input('User'), password('Password'), button('Log in')]
  test.each([
    ['newassets.hcaptcha.com', '/captcha/v1/static/hcaptcha.html', 400, 600],
    ['www.google.com', '/recaptcha/api2/bframe', 400, 580],
    ['client-api.arkoselabs.com', '/fc/', 308, 300],
  ])('a puzzle of %s is for a person', (host, path, width, height) => {
    expect(read(page(form, { frames: [frame(host, path, width, height)] }))).toMatchObject({ kind: 'captcha', external: { action: 'captcha' } })
  })
  test('a box to tick at a form is for a person after the form was filled', () => {
    const frames = [frame('challenges.cloudflare.com', '/turnstile/x', 300, 65)]
    expect(read(page(form, { frames }))).toMatchObject({ kind: 'login', external: { action: 'captcha' } })
    expect(read(page(form, { frames }), true)).toMatchObject({ kind: 'captcha' })
    expect(read(page([], { frames }))).toMatchObject({ kind: 'captcha' })
  })
  test('a badge, or one that is not shown, is none', () => {
    const frames = [
      frame('www.google.com', '/recaptcha/api2/anchor?size=invisible', 256, 60),
      frame('www.google.com', '/recaptcha/api2/bframe', 400, 580, { visible: false }),
    ]
    expect(read(page(form, { frames }))).toMatchObject({ kind: 'login', external: undefined })
  })
})

describe('what fails', () => {
  test('a server, an address, a session', () => {
    expect(read(page([], { status: 503, headings: ['Service Unavailable'] })).kind).toBe('error')
    expect(read(page([], { error: 'net::ERR_NAME_NOT_RESOLVED', status: null })).kind).toBe('error')
    expect(read(page([link('Log in', '/login')], { headings: ['Your session has expired'] }))).toMatchObject({ kind: 'error', loginLinks: ['1.0.0'] })
    expect(read(page([], { http_auth: true, status: 401 })).kind).toBe('http_auth')
  })
  const form = (more: Parameters<typeof page>[1] = {}, described = '', invalid = false) =>
    page([input('User', { described, invalid }), password('Password'), button('Log in')], more)
  test('is told in the words of the site', () => {
    expect(read(form({ alerts: [{ text: 'Wrong password. Try again.' }] }), true).websiteError).toBe('Wrong password. Try again.')
    expect(
      read(
        form({
          alerts: [
            { text: 'Your account has been locked.', by: 'role' },
            { text: 'We use cookies. Error.', by: 'class' },
          ],
        }),
        true,
      ).websiteError,
    ).toBe('Your account has been locked.')
    expect(read(form({}, 'We could not find this user', true), true).websiteError).toBe('We could not find this user')
    expect(read(form({ headings: ['Shop'], body: 'Shop User Password The user name or password is incorrect. Log in' }), true).websiteError).toBe(
      'The user name or password is incorrect.',
    )
    expect(read(form({ alerts: [{ text: 'Ups! Bitte melden Sie sich beim Support.', by: 'role' }] }), true).websiteError).toBe(
      'Ups! Bitte melden Sie sich beim Support.',
    )
  })
  test('is told without a mark, too', () => {
    const body = 'Sorry, we do not know these details. User Password Log in'
    expect(read(form({ body }), true).websiteError).toBe('Sorry, we do not know these details.')
    expect(read(form({ body })).websiteError).toBeUndefined()
  })
  test('is not what is always written there', () => {
    const hints = [{ text: 'Warning: this is a private system.' }, { text: 'You have been signed out successfully.', by: 'role' as const }]
    expect(read(form({ alerts: hints })).websiteError).toBeUndefined()
    expect(read(form({ alerts: hints.slice(1) }), true).websiteError).toBeUndefined()
    expect(read(form({}, 'At least 8 characters'), true).websiteError).toBeUndefined()
    expect(read(form({ body: 'Forgot your password? Wrong shop? See the map.' }), true).websiteError).toBeUndefined()
  })
})

test('ids in a path do not change the signature; another form does', () => {
  const at = (url: string, parts = [input('User'), password('Password'), button('Log in')]) => read(page(parts, { url })).signature
  expect(at('https://example.test/interaction/x7GhPq2LmN8vRtYw1/login?a=1')).toBe(at('https://example.test/interaction/Kd93mZpQ4rTv6bXy2/login?b=2#c'))
  expect(at('https://example.test/a')).not.toBe(at('https://example.test/b'))
  expect(at('https://example.test/a')).not.toBe(at('https://example.test/a', [password('Password'), button('Log in')]))
})
