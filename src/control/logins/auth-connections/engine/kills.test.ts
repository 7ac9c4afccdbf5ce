// A worker that is killed at any call: another one continues over the same rows, and a stored password is never sent twice.
import { describe, expect, test } from 'vitest'
import { button, input, link, password } from '../../../../../test/support/page-models.ts'
import { SECRETS, World, type Site } from '../../../../../test/support/login-site.ts'
import type { LoginBrowser } from './browser.ts'
import type { Tools } from './work.ts'
import { workOn } from './worker.ts'

const { username, password: right } = SECRETS
const STORED = { username, password: right }
const CODE = 'Code from your authenticator app'

/** Two pages, then a code from the secret. */
const site: Site = ({ pathname }, state) => {
  if (state.user !== '') return { parts: [link('Sign out', '/logout'), link('Reports', '/r'), link('Settings', '/s')], more: { headings: ['Welcome back'] } }
  if (pathname === '/pw')
    return { parts: [password('Password'), button('Sign in')], more: { title: 'Sign in' }, press: (_, v) => (v['Password'] === right ? '/code' : '/login') }
  if (pathname === '/code')
    return {
      parts: [input(CODE, { autocomplete: 'one-time-code', inputmode: 'numeric', maxlength: 6 }), button('Verify')],
      more: { headings: ['Two-factor authentication'] },
      press: (_, v) => {
        if (/^\d{6}$/.test(v[CODE] ?? '')) state.user = username
        return state.user === '' ? '/code' : '/home'
      },
    }
  return { parts: [input('Username'), button('Next')], more: { title: 'Sign in', headings: ['Sign in'] }, press: () => '/pw' }
}

/** Tools that fail at the n-th outside call: before it is done, or after. All later calls fail, too. */
function mortal(tools: Tools, at: number, when: 'before' | 'after', stop: AbortController): { tools: Tools; calls: () => number } {
  let calls = 0
  const die = (): never => {
    stop.abort(new Error('killed'))
    throw new Error('killed')
  }
  const wrap = <T extends object>(target: T): T =>
    new Proxy(target, {
      get(from, name) {
        const value: unknown = Reflect.get(from, name)
        if (typeof value !== 'function') return value
        return (...given: unknown[]): unknown => {
          const isSync = name === 'next' || name === 'onNews' || name === 'now'
          if (isSync)
            return stop.signal.aborted && name === 'next'
              ? { promise: Promise.reject(new Error('killed')), leave: () => {} }
              : (value.apply(from, given) as unknown)
          return (async () => {
            calls++
            if (stop.signal.aborted || (calls === at && when === 'before')) die()
            const answer: unknown = await value.apply(from, given)
            if (calls === at && when === 'after') die()
            if (name === 'make') return { ...(answer as object), browser: wrap((answer as { browser: LoginBrowser }).browser) }
            return name === 'find' && answer !== undefined ? wrap(answer as object) : answer
          })()
        }
      },
    })
  const { flows, browsers, credentials, clock, ...rest } = tools
  return { tools: { ...rest, flows: wrap(flows), browsers: wrap(browsers), credentials: wrap(credentials), clock: wrap(clock) }, calls: () => calls }
}

async function killedAt(world: World, at: number, when: 'before' | 'after'): Promise<number> {
  const stop = new AbortController()
  const { tools, calls } = mortal(world.tools(), at, when, stop)
  await workOn((await world.flows.claimNext())!, tools, stop.signal)
  return calls()
}

const KINDS = [
  { name: 'with a stored credential', make: () => new World(site).withStored(STORED, { totp: true }) },
  {
    name: 'with a person who types',
    make: () => {
      const world = new World(site)
      world.person = ({ fields }) => ({ values: Object.fromEntries(fields.map(({ id, key }) => [id, { ...STORED, code: '123456' }[key] ?? ''])) })
      return world
    },
  },
]

describe.each(KINDS)('a flow $name', ({ name, make }) => {
  const isStored = name.includes('stored')
  test.each(['before', 'after'] as const)('whose worker is killed %s any of its calls ends right, and sends a stored password once', async (when) => {
    const all = await killedAt(make(), Infinity, when)
    expect(all).toBeGreaterThan(30)
    const ends = new Set<string>()
    for (let at = 1; at <= all; at++) {
      const world = make()
      await killedAt(world, at, when)
      if (world.row.state === 'IN_PROGRESS') await workOn((await world.flows.claimNext())!, world.tools(), new AbortController().signal)
      const { end } = world.row
      const label = `killed ${when} call ${at}: ${JSON.stringify(end)}`
      expect(['SUCCESS', 'FAILED'], label).toContain(world.row.state)
      if (isStored) expect(world.sentOf(right), label).toBeLessThanOrEqual(1)
      if (end?.state === 'FAILED') expect(end.errorCode, label).toBe('browser_error')
      if (end?.state === 'SUCCESS') expect(world.profile.user, label).toBe(username)
      if (!isStored && end?.state === 'SUCCESS') expect(world.keptIds.size, label).toBe(1)
      // A browser that was created but not recorded is a stray; the engine ends it by its flow.
      const open = [...world.browsers.values()].filter(({ isGone, id }) => !isGone && id === world.row.browser_id)
      expect(open, label).toEqual([])
      ends.add(end?.state === 'FAILED' ? end.errorCode : String(end?.state))
    }
    // The flow survives most kills. It does not survive one while the stored password is sent.
    expect(ends).toContain('SUCCESS')
  })

  test('whose workers are killed again and again goes on', async () => {
    const world = make()
    for (let life = 1; life < 60 && world.row.state === 'IN_PROGRESS'; life++) await killedAt(world, 9, 'after')
    await (world.row.state === 'IN_PROGRESS' && workOn((await world.flows.claimNext())!, world.tools(), new AbortController().signal))
    expect(world.row.state).not.toBe('IN_PROGRESS')
    if (isStored) expect(world.sentOf(right)).toBeLessThanOrEqual(1)
  })
})

/** Refuses every password on the same page: at once with a message, or silently. */
const refusing =
  (says: boolean): Site =>
  (_, state) => ({
    parts: [input('Username'), password('Password'), button('Sign in')],
    more: { title: 'Sign in', headings: ['Sign in'], alerts: says && state.step['sent'] === true ? [{ text: 'Wrong username or password.', by: 'role' }] : [] },
    press: () => {
      state.step['sent'] = true
      return '/login'
    },
  })

test.each([
  { what: 'refuses it', says: true },
  { what: 'shows its form again and says nothing', says: false },
])('a stored password is sent once, wherever its worker is killed, to a site that $what', async ({ says }) => {
  const make = () => new World(refusing(says)).withStored(STORED)
  const codes = ['browser_error', says ? 'credentials_invalid' : 'navigation_confused']
  for (const when of ['before', 'after'] as const) {
    const all = await killedAt(make(), Infinity, when)
    for (let at = 1; at <= all; at++) {
      const world = make()
      await killedAt(world, at, when)
      if (world.row.state === 'IN_PROGRESS') await workOn((await world.flows.claimNext())!, world.tools(), new AbortController().signal)
      const { end } = world.row
      const label = `killed ${when} call ${at}: ${JSON.stringify(end)}`
      expect(world.sentOf(right), label).toBeLessThanOrEqual(1)
      expect(codes, label).toContain(end?.state === 'FAILED' ? end.errorCode : end?.state)
      expect(world.profile.saves, label).toBe(0)
    }
  }
})
