// The order in which links and addresses are tried to find a login form.
import { expect, test } from 'vitest'
import { button, context, input, link, page, press } from '../../../../../test/support/page-models.ts'
import { interpret } from './interpret.ts'

const home = { url: 'https://example.test/', headings: ['Welcome'] }
const links = (...parts: Parameters<typeof page>[0]) => interpret(page(parts, home), context()).loginLinks

test('links that say it come before links that only lead there, and registrations are none', () => {
  expect(
    links(
      link('My account', '/account'),
      link('Sign up', '/signup'),
      link('Sign in', '/session/new'),
      link('Members', '/login'),
      link('Forgot password?', '/forgot'),
    ),
  ).toEqual(['1.0.2', '1.0.3'])
})
test('a button that opens a dialog is a link, too; a login of another site comes last', () => {
  expect(links(link('Log in', '/login', { href_host: 'other.test' }), press('Login'))).toEqual(['1.0.1', '1.0.0'])
})
test('a search and an article about logins are none', () => {
  expect(
    links(
      input('Search', { type: 'search' }),
      button('Search'),
      link('How our support team helps you when you cannot log in to the portal any more', '/blog/1'),
    ),
  ).toEqual([])
})
