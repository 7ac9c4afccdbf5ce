// Logins at a fake site: secrets, sites that fail, and how flows end.
import { describe, expect, test } from 'vitest'
import { button, frame, input, link, password, press } from '../../../../../test/support/page-models.ts'
import { answering, endOf, enter, HOME, loginForm, plain, right, run, STORED, username } from '../../../../../test/support/login-runs.ts'
import { workOn } from './worker.ts'
import { World, type Site } from '../../../../../test/support/login-site.ts'

describe('secrets', () => {
  test('are not typed at a host that is not allowed', async () => {
    const world = await run(
      new World((url, state) =>
        url.hostname === 'example.test'
          ? { parts: [link('Sign in', '/login', { href_host: 'example.test.evil.test' })], more: { headings: ['Welcome'] } }
          : plain()(url, state),
      ).withStored(STORED),
    )
    expect(endOf(world)).toBe('domain_not_allowed')
    expect(world.sent).toEqual([])
  })
  test.each(['in.site-99.test', 'example.test', 'site-3.test'])('are typed at %s, one of as many allowed domains as there may be', async (host) => {
    const allowed_domains = Array.from({ length: 100 }, (_, at) => `www.site-${at}.test`)
      .with(3, 'site-3.test')
      .with(99, 'site-99.test')
    const connection = { login_url: `https://${host}/login`, allowed_domains }
    const world = await run(new World(plain(), { connection }).withStored(STORED))
    expect(endOf(world)).toBe('SUCCESS')
    const evil = await run(new World(plain(), { connection: { ...connection, login_url: 'https://evil.test/' } }).withStored(STORED))
    expect([endOf(evil), evil.sent]).toEqual(['domain_not_allowed', []])
  })
  const SSO: Site = (url, state) => {
    if (state.user !== '') return HOME
    if (url.hostname === 'accounts.google.com')
      return { ...loginForm(), press: (_, v) => (v['Password'] === right ? enter(state, 'https://example.test/home') : '/') }
    return { ...loginForm({}, [link('Sign in with Google', '/o/oauth2', { href_host: 'accounts.google.com' })]), press: () => '/login' }
  }
  test('go to an identity provider that the credential names', async () => {
    const world = await run(new World(SSO).withStored(STORED, { ssoProvider: 'google' }))
    expect(endOf(world)).toBe('SUCCESS')
    expect(world.sent.map(({ host }) => host)).toEqual(['accounts.google.com'])
    expect(world.learned).toMatchObject({ ssoProvider: 'google' })
  })
  test('do not go to another identity provider than the one that was chosen', async () => {
    // The login URL itself redirects the browser.
    const site: Site = ({ hostname }) =>
      hostname === 'example.test' ? { ...loginForm({}, [press('Sign in with Google')]), press: () => 'https://tenant.auth0.com/' } : loginForm()
    const world = await run(new World(site).withStored(STORED, { ssoProvider: 'google' }))
    expect(world.opened).toEqual(['https://example.test/login'])
    expect(endOf(world)).toBe('domain_not_allowed')
    expect(world.sent).toEqual([])
  })
  test('do not go to an identity provider that nobody chose', async () => {
    const world = await run(new World(SSO, { connection: { login_url: 'https://accounts.google.com/' } }).withStored(STORED))
    expect(endOf(world)).toBe('domain_not_allowed')
    expect(world.sent).toEqual([])
  })
  test('do not go to a frame of another host', async () => {
    const site: Site = () => ({
      parts: [input('Username', { frame: 1 }), password('Password', { frame: 1 }), button('Sign in', { frame: 1 })],
      more: { title: 'Sign in', frames: [frame('evil.test', '/form', 800, 600)] },
    })
    const world = await run(new World(site).withStored(STORED))
    expect(endOf(world)).toBe('domain_not_allowed')
    expect(world.sent).toEqual([])
  })
})

describe('a site that fails', () => {
  test('with 5xx is tried again once', async () => {
    const base = plain()
    const world: World = new World((url, state) => (world.opened.length < 2 ? { parts: [], more: { status: 503 } } : base(url, state))).withStored(STORED)
    expect(endOf(await run(world))).toBe('SUCCESS')
    expect(world.opened.slice(0, 2)).toEqual(['https://example.test/login', 'https://example.test/login'])
  })
  test('for good ends with website_error', async () => {
    expect(endOf(await run(new World(() => ({ parts: [], more: { status: 503 } })).withStored(STORED)))).toBe('website_error')
  })
  test('by HTTP authentication is refused', async () => {
    expect(endOf(await run(new World(() => ({ parts: [], more: { http_auth: true, status: 401 } })).withStored(STORED)))).toBe('unsupported_auth_method')
  })
  test('by a wall against programs is told so', async () => {
    expect(endOf(await run(new World(() => ({ parts: [], more: { status: 403, headings: ['Access denied'] } })).withStored(STORED)))).toBe('bot_detected')
  })
  test('by going in circles ends', async () => {
    const world = await run(
      new World(({ pathname }) => ({ parts: [press('Continue')], more: { headings: ['Notice'] }, press: () => (pathname === '/a' ? '/b' : '/a') })).withStored(
        STORED,
      ),
    )
    expect(endOf(world)).toBe('stuck_in_loop')
  })
  test('by showing a captcha waits for a person, and ends with captcha_blocked', async () => {
    const world = await run(new World(() => ({ ...loginForm({ frames: [frame('www.google.com', '/recaptcha/api2/anchor', 304, 78)] }) })).withStored(STORED))
    expect(endOf(world)).toBe('captcha_blocked')
    expect(world.pauses[0]!.external?.action).toBe('captcha')
    expect(world.sent).toEqual([])
  })
})

describe('a flow', () => {
  test('that nobody answers expires', async () => {
    expect(endOf(await run(new World(plain())))).toBe('EXPIRED')
  })
  test('that is cancelled ends its browser', async () => {
    const world = new World(plain())
    world.person = () => void (world.row.state = 'CANCELED')
    await run(world)
    expect(world.row.end).toBeUndefined()
  })
  test('whose profile is saved is a SUCCESS, also when what follows fails at first', async () => {
    const world = new World(plain()).withStored(STORED)
    const { browsers, ...tools } = world.tools()
    let fails = 1
    const failing = {
      ...browsers,
      finish: async (...given: Parameters<typeof browsers.finish>) => {
        if (!given[1].save && fails-- > 0) throw new Error('the database is away')
        return browsers.finish(...given)
      },
    }
    await workOn((await world.flows.claimNext())!, { ...tools, browsers: failing }, new AbortController().signal)
    expect([world.row.state, world.profile.saves]).toEqual(['IN_PROGRESS', 1])
    expect(endOf(await run(world))).toBe('SUCCESS')
    expect([world.sentOf(right), world.profile]).toEqual([1, { user: username, saves: 1 }])
  })
  test('whose browser ends before a password was sent starts again', async () => {
    const world = new World(plain())
    const answers = answering(STORED)
    world.person = (pause, step) => {
      if (world.browsers.size > 1) return answers(pause, step)
      world.browsers.forEach((browser) => (browser.isGone = true))
      return undefined
    }
    expect(endOf(await run(world))).toBe('SUCCESS')
    expect(world.browsers.size).toBe(2)
  })
  test('whose browser ends after a password was sent fails', async () => {
    const world: World = new World(
      plain('/wait', () => (world.sent.length > 0 && world.browsers.forEach((browser) => (browser.isGone = true)), undefined)),
    ).withStored(STORED)
    expect(endOf(await run(world))).toBe('browser_error')
    expect(world.sentOf(right)).toBe(1)
  })
})

describe('a health check', () => {
  const check = (site: Site) =>
    new World(site, { flow: { type: 'health_check' }, connection: { status: 'AUTHENTICATED', post_login_url: 'https://example.test/home' } }).withStored(STORED)
  test('of a session that is good says so, and saves nothing', async () => {
    const world = check(plain())
    world.profile.user = username
    await run(world)
    expect(endOf(world)).toBe('AUTHENTICATED')
    expect(world.profile.saves).toBe(0)
  })
  test('of one that has ended says so, and types nothing', async () => {
    const world = await run(check(plain()))
    expect(endOf(world)).toBe('NEEDS_AUTH')
    expect(world.sent).toEqual([])
  })
  test('of a site that fails says nothing', async () => {
    expect(endOf(await run(check(() => ({ parts: [], more: { status: 502 } }))))).toBe('website_error')
  })
})
