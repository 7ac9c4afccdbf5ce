// What a login that has succeeded leaves for checks.
import { expect, test } from 'vitest'
import { button, input, link, password } from '../../../../../test/support/page-models.ts'
import { SECRETS, World, type Site } from '../../../../../test/support/login-site.ts'
import { workOn } from './worker.ts'

const { username, password: right } = SECRETS

test('a page that fails after the form was sent is not the one that checks open', async () => {
  const site: Site = ({ pathname }, state) => {
    if (pathname === '/broken') return { parts: [], more: { status: 502, body: 'the server behind it does not answer' } }
    if (state.user !== '') return { parts: [link('Sign out', '/logout'), link('Settings', '/settings')], more: { headings: ['Welcome back'] } }
    return {
      parts: [input('Username', { name: 'username' }), password('Password', { name: 'password' }), button('Sign in')],
      more: { title: 'Sign in', headings: ['Sign in'] },
      press: () => {
        state.user = username
        return '/broken'
      },
    }
  }
  const world = new World(site).withStored({ username, password: right })
  await workOn((await world.flows.claimNext())!, world.tools(), new AbortController().signal)
  expect(world.row.end).toMatchObject({ state: 'SUCCESS', postLoginUrl: 'https://example.test/' })
})
