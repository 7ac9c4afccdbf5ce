// What a successful login records for checks, and the results of checks on changing pages.
import { expect, test } from 'vitest'
import { endOf, run } from '../../../../../test/support/login-runs.ts'
import { button, input, link, password, savedPage } from '../../../../../test/support/page-models.ts'
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

/** A check of Deluge, whose page looks the same for users and guests until its server has answered. Each read gives the next of these pages. */
async function checked(...names: string[]): Promise<World> {
  const url = 'https://example.test/'
  const marks = { cookies: [], signsOut: true, redirects: false, insteadOf: 'example.test/' }
  const learned = { requirements: [], keys: [], ssoProvider: undefined, steps: [], loginPath: 'example.test/', marks }
  const site: Site = () => {
    const { controls, url: _url, host: _host, frames: _frames, ...more } = savedPage(names[Math.min(world.reads, names.length) - 1] ?? names[0]!)
    return { parts: controls, more }
  }
  const world: World = new World(site, {
    flow: { type: 'health_check' },
    connection: { status: 'AUTHENTICATED', login_url: url, post_login_url: url, learned },
  })
  return run(world)
}

test.each(['deluge-logged-in', 'deluge-login'])('a page that still waits for its server is read again until it says something: %s', async (later) => {
  const world = await checked('deluge-waiting', 'deluge-waiting', later)
  expect(endOf(world)).toBe(later === 'deluge-login' ? 'NEEDS_AUTH' : 'AUTHENTICATED')
  expect(world.opened).toEqual(['https://example.test/'])
  expect(world.reads).toBe(3)
})

test('a page that says nothing for good is read four times, and the check could not tell', async () => {
  const world = await checked('deluge-waiting')
  expect(endOf(world)).toBe('website_error')
  expect(world.reads).toBe(4)
})

test('a page that has failed is not waited for', async () => {
  const site: Site = () => ({ parts: [], more: { status: 502 } })
  const world = await run(new World(site, { flow: { type: 'health_check' }, connection: { status: 'AUTHENTICATED' } }))
  expect(endOf(world)).toBe('website_error')
  expect(world.reads).toBe(world.opened.length)
})
