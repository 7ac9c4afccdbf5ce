// Logins by the real service in real Chromium, on test pages: how each kind of page ends. managed-auth-clients.test.ts tests what clients see of a login.
import { describe, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import type { PageName } from '../logins/apps/own-pages/pages.ts'
import { totpCode } from '../logins/totp.ts'
import { forTests } from '../support/for-tests.ts'
import { checkNow, driven, shown, timeline, type Person } from '../support/managed-auth.ts'
import { ownSite, type OwnSite } from '../support/own-site.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const STEP_MS = 60_000
const SECRET = 'JBSWY3DPEHPK3PXP'
/** Gives no answer, because all values are stored. */
const NOBODY: Person = { value: () => undefined, choose: () => undefined }

const cloud = forTests(() => shareCloud())

const begin = ({ id }: OwnSite) => cloud.client.auth.connections.login(id)
const stored =
  (values: Record<string, string> = {}) =>
  async (site: Pick<OwnSite, 'store'>) => ({ credential: { name: await site.store(values) } })
const paused = ({ id }: OwnSite, step: string) =>
  until(
    `the step ${step}`,
    STEP_MS,
    async () => {
      const now = await shown(cloud, id)
      if (now.flow_status !== 'IN_PROGRESS') throw new Error(`it has ended: ${now.flow_status} ${now.error_code} ${now.error_message}`)
      return now.flow_step === step ? now : undefined
    },
    { everyMs: 100 },
  )
const ended = async ({ id }: OwnSite) =>
  until(
    'the end',
    STEP_MS,
    async () => {
      const now = await shown(cloud, id)
      return now.flow_status === 'IN_PROGRESS' ? undefined : now
    },
    { everyMs: 100 },
  )
const reauth = ({ id }: OwnSite) =>
  until('a login again', STEP_MS, async () => (await timeline(cloud, id, 'reauth')).find(({ status }) => status !== 'IN_PROGRESS'), { everyMs: 100 })

const NAMES = ['username', 'password']
describe.concurrent('a person who submits what is asked is let in', () => {
  /** The questions that the login asks, in order: fields, or choices. */
  const PAGES: [PageName, string[][]][] = [
    ['two-step', [['email'], ['password']]],
    ['accounts', [['ann@example.test', 'bob@example.test'], ['password']]],
    ['code-boxes', [NAMES, ['code']]],
    ['mail-code', [NAMES, ['code']]],
    ['remember-device', [NAMES, ['code']]],
    ['cookie-banner', [NAMES]],
    ['dialog', [NAMES]],
    ['frame', [NAMES]],
    ['shadow', [NAMES]],
    ['script-basic', [NAMES]],
    ['alert-error', [NAMES]],
  ]
  test.each(PAGES)('%s', async (name, questions) => {
    await using site = await ownSite(cloud, name)
    await begin(site)
    const { end, asked } = await driven(cloud, site.id, site.person)
    expect(end).toMatchObject({ flow_status: 'SUCCESS', flow_step: 'COMPLETED', status: 'AUTHENTICATED', error_code: null })
    expect(asked.map(({ fields, choices }) => (fields.length > 0 ? fields : choices).map((text) => (/code/.test(text) ? 'code' : text)))).toEqual(questions)
    expect(end.post_login_url).toBe(site.page.homeUrl)
  })

  test('sms-choice, by the type of the method, and by the id of the choice', async () => {
    const byWay = async (answer: (now: Awaited<ReturnType<typeof paused>>) => object) => {
      await using site = await ownSite(cloud, 'sms-choice', async ({ store }) => ({ credential: { name: await store() } }))
      await begin(site)
      const now = await paused(site, 'AWAITING_INPUT')
      expect(now.mfa_options).toMatchObject([{ type: 'sms', target: expect.stringContaining('92') as string }, { type: 'email' }])
      expect(now.choices).toMatchObject([
        { type: 'mfa_method', mfa_type: 'sms', masked_destination: expect.stringContaining('92') as string },
        { type: 'mfa_method', mfa_type: 'email' },
      ])
      await cloud.client.auth.connections.submit(site.id, answer(now))
      const { end, asked } = await driven(cloud, site.id, site.person)
      expect(asked.map(({ fields }) => fields)).toEqual([['code']])
      expect(end).toMatchObject({ flow_status: 'SUCCESS', can_reauth: false, can_reauth_reason: 'requires_sms_code' })
      return site.id
    }
    await Promise.all([byWay(() => ({ mfa_option_id: 'sms' })), byWay(({ choices }) => ({ selected_choice_id: choices![0]!.id }))])
  })

  test('push goes on by itself when the person has approved it elsewhere', async () => {
    await using site = await ownSite(cloud, 'push', stored())
    await begin(site)
    const now = await paused(site, 'AWAITING_EXTERNAL_ACTION')
    expect(now.external_action_message).toContain('Approve the log-in on your phone')
    site.pages.approve()
    expect(await ended(site)).toMatchObject({ flow_status: 'SUCCESS', can_reauth: false, can_reauth_reason: 'requires_external_action' })
    expect(await site.isLoggedIn()).toBe(true)
  })
})

describe.concurrent('a login that cannot succeed says why', () => {
  test('captcha waits for a person at the live view, and nothing is sent', async () => {
    await using site = await ownSite(cloud, 'captcha', stored())
    await begin(site)
    const now = await paused(site, 'AWAITING_EXTERNAL_ACTION')
    expect([now.fields, (await fetch(now.live_view_url!)).status]).toEqual([null, 200])
    expect(site.pages.requests().filter(({ method }) => method === 'POST')).toEqual([])
  })

  test.each([
    ['passkey', 'unsupported_auth_method'],
    ['basic-auth', 'unsupported_auth_method'],
  ] as const)('%s: %s', async (name, code) => {
    await using site = await ownSite(cloud, name, stored())
    await begin(site)
    expect(await ended(site)).toMatchObject({ flow_status: 'FAILED', flow_step: 'COMPLETED', error_code: code })
  })

  test.each(['phishing', 'frame-elsewhere'] as const)('%s: a host that is not allowed is sent nothing', async (name) => {
    await using site = await ownSite(cloud, name, stored())
    await begin(site)
    expect(await ended(site)).toMatchObject({ flow_status: 'FAILED', error_code: 'domain_not_allowed' })
    expect([site.pages.stolen(), site.sent().filter((body) => body !== '')]).toEqual([[], []])
  })

  test('frame-elsewhere is logged in when its host is allowed', async () => {
    await using site = await ownSite(cloud, 'frame-elsewhere', async (own) => ({ ...(await stored()(own)), allowed_domains: ['forms.frame-host.test'] }))
    await begin(site)
    expect(await ended(site)).toMatchObject({ flow_status: 'SUCCESS' })
  })

  test('a stored password that is wrong is sent once, and the words of the site are told, whatever they look like', async () => {
    await using site = await ownSite(cloud, 'bare-error', stored({ password: 'not-the-password' }))
    await begin(site)
    expect(await ended(site)).toMatchObject({
      flow_status: 'FAILED',
      error_code: 'credentials_invalid',
      website_error: 'Sorry, we do not know these details.',
    })
    expect(site.sent().filter((body) => body.includes('not-the-password'))).toHaveLength(1)
  })

  test.each([
    ['script-basic', 'Login failed'],
    ['alert-error', 'We do not know [redacted] by this word.'],
  ] as const)('%s: a stored password that is wrong is told as such, though the page asks by HTTP or tells it in a dialog', async (name, words) => {
    await using site = await ownSite(cloud, name, stored({ password: 'not-the-password' }))
    await begin(site)
    expect(await ended(site)).toMatchObject({ flow_status: 'FAILED', error_code: 'credentials_invalid', website_error: words })
    const sent = site.pages.requests().filter(({ body, authorization }) => `${body} ${authorization}`.includes('not-the-password'))
    expect(sent).toHaveLength(1)
  })

  test('a site that fails', async () => {
    await using site = await ownSite(cloud, 'plain', stored())
    site.pages.breakWith(503)
    await begin(site)
    expect(await ended(site)).toMatchObject({ flow_status: 'FAILED', error_code: 'website_error', error_message: expect.stringContaining('503') as string })
  })
})

/** Three logins and two checks, one after the other, while four other tests run: 95 s on a busy machine. */
const FIVE_BROWSERS_MS = 240_000

describe.concurrent('a connection that was logged in', () => {
  test('is checked, and logged in again without a person, when the site has ended its session', { timeout: FIVE_BROWSERS_MS }, async () => {
    await using site = await ownSite(cloud, 'plain', stored())
    await begin(site)
    const { end, asked } = await driven(cloud, site.id, NOBODY)
    expect([end.flow_status, end.can_reauth, end.can_reauth_reason, asked]).toEqual(['SUCCESS', true, 'has_credential', []])
    expect((await checkNow(cloud, site.id)).status).toBe('AUTHENTICATED')
    // A second login of a connection that is logged in sends no password.
    const before = site.sent().filter((body) => body.includes('password')).length
    const second = await begin(site)
    expect(second.flow_type).toBe('REAUTH')
    expect((await ended(site)).flow_status).toBe('SUCCESS')
    expect(site.sent().filter((body) => body.includes('password'))).toHaveLength(before)
    await site.page.endSessions()
    const check = await checkNow(cloud, site.id)
    expect([check.status, check.previous_status]).toEqual(['NEEDS_AUTH', 'AUTHENTICATED'])
    // The newest login, which starts when the check ends.
    await until('a login again', STEP_MS, async () => (await timeline(cloud, site.id, 'reauth'))[0]!.status !== 'IN_PROGRESS', { everyMs: 100 })
    expect((await shown(cloud, site.id)).status).toBe('AUTHENTICATED')
    expect(await site.isLoggedIn()).toBe(true)
    const items = await timeline(cloud, site.id)
    expect(items.map(({ type, status }) => `${type} ${status}`)).toEqual([
      'reauth SUCCESS',
      'health_check NEEDS_AUTH',
      'reauth SUCCESS',
      'health_check AUTHENTICATED',
      'login SUCCESS',
    ])
    expect(items.every(({ browser_session_id: browser }) => typeof browser === 'string')).toBe(true)
  })

  test('by a code of the message needs a person when the site has ended its session', async () => {
    await using site = await ownSite(cloud, 'mail-code', stored())
    await begin(site)
    const { end, asked } = await driven(cloud, site.id, site.person)
    expect([end.flow_status, asked.map(({ fields }) => fields)]).toEqual(['SUCCESS', [['code']]])
    await site.page.endSessions()
    expect((await checkNow(cloud, site.id)).status).toBe('NEEDS_AUTH')
    expect(await shown(cloud, site.id)).toMatchObject({ status: 'NEEDS_AUTH', can_reauth: false, can_reauth_reason: 'requires_email_code' })
    expect(await timeline(cloud, site.id, 'reauth')).toEqual([])
  })

  test('is not logged in again by itself past a captcha', async () => {
    await using site = await ownSite(cloud, 'captcha', stored())
    // Simulate a connection that logged in before the site had a captcha.
    const learned = {
      requirements: ['identifier', 'password'],
      keys: ['username', 'password'],
      steps: [],
      marks: { cookies: [], signsOut: true, redirects: false },
    }
    await cloud.query(`update auth_connections set status = 'AUTHENTICATED', learned = $2, post_login_url = $3, checked_at = now() where id = $1`, [
      site.id,
      JSON.stringify(learned),
      site.page.homeUrl,
    ])
    expect((await checkNow(cloud, site.id)).status).toBe('NEEDS_AUTH')
    expect(await reauth(site)).toMatchObject({ status: 'FAILED', error_code: 'captcha_blocked' })
  })

  test('takes codes of the stored secret by itself', async () => {
    await using site = await ownSite(cloud, 'remember-device', async ({ store }) => ({ credential: { name: await store({}, SECRET) } }))
    Object.defineProperty(site.page.user, 'code', { get: () => totpCode(SECRET) })
    await begin(site)
    const { end, asked } = await driven(cloud, site.id, NOBODY)
    expect([end.flow_status, end.can_reauth_reason, asked]).toEqual(['SUCCESS', 'requirements_satisfiable', []])
  })
})
