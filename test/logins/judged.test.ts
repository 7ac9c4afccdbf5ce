// Tests the login of each application: by the SDK's submit, by the hosted page, with a wrong password, with a stored credential, and again after its session has ended.
// With COB_TEST_LOGINS=quick, only the first and the last of these run.
import { readdirSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { processesUsing } from '../../src/base/processes.ts'
import { until } from '../../src/base/wait.ts'
import type { Cloud } from '../support/cloud.ts'
import { cpuOfNewSessions } from '../support/check-cpu.ts'
import { driveHostedPage } from '../support/hosted-page.ts'
import { checkNow, driven, personOf, shown, timeline } from '../support/managed-auth.ts'
import { invitePerson, type Person } from '../support/person.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { serveSockets } from '../support/upstreams.ts'
import { randomPassword, sendings, type LoginApp } from './app.ts'
import { IS_QUICK, TESTED } from './list.ts'
import { startLoginNet, type LoginNet } from './net.ts'
import { SCRATCH_PREFIX } from './program.ts'
import { totpCode } from './totp.ts'

const REAUTH_MS = 120_000
/** The limit for a login, two checks and a second login, with the two minutes after which RabbitMQ's session ends. */
const STORED_MS = 420_000

let cloud: Cloud
let net: LoginNet
let proxy: string
let visitor: Person
/** The address to which the hosted page returns the person. */
let back: string
const ended = new AsyncDisposableStack()
beforeAll(async () => {
  cloud = ended.use(await shareCloud())
  net = ended.use(await startLoginNet([]))
  visitor = ended.use(await invitePerson())
  const site = ended.use(await serveSockets(createServer((_request, response) => response.setHeader('content-type', 'text/html').end('<title>back</title>'))))
  back = `http://127.0.0.1:${site.port}/done`
  proxy = (await cloud.client.proxies.create({ type: 'custom', protocol: 'http', config: { host: 'host.cob.internal', port: net.port } })).id!
  ended.defer(() => cloud.client.proxies.delete(proxy))
})
afterAll(() => ended.disposeAsync())

/** The limit for processes to end and folders to be removed, which takes less than a second. */
const LEFT_MS = 10_000
/** The folders of applications, and the processes that use one. Empty when everything has ended. */
const left = async () => [
  ...readdirSync(tmpdir()).filter((name) => name.startsWith(SCRATCH_PREFIX)),
  ...(await processesUsing(SCRATCH_PREFIX, '')).flatMap(({ pid }) => (pid === process.pid ? [] : [`process ${pid}`])),
]

describe.each(TESTED)('$name', ({ name, start }) => {
  let app: LoginApp
  let made = 0
  const own = new AsyncDisposableStack()
  beforeAll(async () => {
    app = own.use(await start())
    net.add(app)
  })
  afterAll(async () => {
    await own.disposeAsync()
    await until('nothing of the application to be left', LEFT_MS, async () => (await left()).length === 0, { everyMs: 100 })
  })
  const code = () => (app.user.totpSecret === undefined ? '' : totpCode(app.user.totpSecret))

  /** A connection with its own profile. Disposing it deletes both. */
  async function connection(more: object = {}) {
    const profile = `${name}-${++made}`
    const { id } = await cloud.client.auth.connections.create({
      domain: app.hosts[0]!,
      profile_name: profile,
      allowed_domains: app.hosts,
      // Without a login_url the engine would try https, which these applications do not serve. Applications without a login page get their start page.
      login_url: app.loginUrl ?? app.homeUrl,
      proxy: { id: proxy },
      save_credentials: false,
      ...more,
    })
    return {
      id,
      profile,
      async [Symbol.asyncDispose]() {
        await cloud.client.auth.connections.delete(id)
        await cloud.client.profiles.delete(profile)
      },
    }
  }

  /** The text of the application's page and its frames, in a session with the profile. Resolves as soon as the text matches, or after 10 seconds. */
  async function shownWith(profile: string, wanted: RegExp = app.proof.text): Promise<string> {
    const { session_id: id } = await cloud.client.browsers.create({ profile: { name: profile }, proxy_id: proxy })
    try {
      const { result } = await cloud.client.browsers.playwright.execute(id, {
        code: `let shown = ''; await page.goto(${JSON.stringify(app.proof.url)}); const wanted = new RegExp(${JSON.stringify(wanted.source)}, ${JSON.stringify(wanted.flags)});
          const read = async () => (await Promise.all(page.frames().map((frame) => frame.evaluate(() => document.body?.innerText ?? '').catch(String)))).join('\\n');
          for (let tries = 0; tries < 50; tries++) { if (wanted.test(shown = await read())) return shown; await page.waitForTimeout(200) } return page.url() + ' ' + shown`,
        timeout_sec: 60,
      })
      return String(result)
    } finally {
      await cloud.client.browsers.deleteByID(id)
    }
  }

  test('a first login by submitting what is asked', async () => {
    await using it = await connection()
    await cloud.client.auth.connections.login(it.id)
    const began = performance.now()
    const { end, asked } = await driven(cloud, it.id, personOf(app.user, code))
    console.log(name, 'first login', Math.round(performance.now() - began), 'ms', JSON.stringify(asked))
    expect(end).toMatchObject({ flow_status: 'SUCCESS', flow_step: 'COMPLETED', status: 'AUTHENTICATED' })
    expect(await shownWith(it.profile)).toMatch(app.proof.text)
  })

  // script/test has time for only the first and the last test.
  if (!IS_QUICK) {
    test('a first login by the hosted page', async () => {
      await using it = await connection()
      const { hosted_url: url } = await cloud.client.auth.connections.login(it.id)
      const page = await visitor.newPage()
      try {
        expect(await driveHostedPage(page, url, back, { user: app.user, code })).toEqual({ profile_name: it.profile, domain: app.hosts[0] })
      } finally {
        await visitor.leave()
      }
      expect(await shown(cloud, it.id)).toMatchObject({ flow_status: 'SUCCESS', status: 'AUTHENTICATED' })
      expect(await shownWith(it.profile)).toMatch(app.proof.text)
    })

    test('a wrong password is told with the words of the site, and the right one then works', async () => {
      await using it = await connection()
      await cloud.client.auth.connections.login(it.id)
      let tries = 0
      const right = personOf(app.user, code)
      const { end, asked } = await driven(cloud, it.id, {
        ...right,
        value: (field) => (field.type === 'password' && tries++ === 0 ? 'not-the-password-1' : right.value(field)),
      })
      expect(end).toMatchObject({ flow_status: 'SUCCESS' })
      expect(asked.some(({ error }) => error !== null && error !== '')).toBe(true)
      if (app.notice) expect(await shownWith(it.profile, app.notice)).toMatch(app.notice)
    })

    test('a stored credential logs in without a person, and again when the site has ended the session', { timeout: STORED_MS }, async () => {
      const { totpSecret, ...values } = app.user
      const stored = await cloud.client.credentials.create({
        name: `${name}-stored`,
        domain: app.hosts[0]!,
        values,
        ...(totpSecret !== undefined && { totp_secret: totpSecret }),
      })
      try {
        await using it = await connection({ credential: { name: stored.name } })
        await cloud.client.auth.connections.login(it.id)
        const { end, asked } = await driven(cloud, it.id, { value: () => undefined, choose: (choices) => choices[0] })
        expect(end).toMatchObject({ flow_status: 'SUCCESS', can_reauth: true })
        expect(asked.flatMap(({ fields }) => fields)).toEqual([])
        const { done: check, seconds } = await cpuOfNewSessions(cloud, () => checkNow(cloud, it.id))
        expect(check.status).toBe('AUTHENTICATED')
        console.log(name, 'health check', seconds.toFixed(2), 's of CPU')
        await app.endSessions()
        expect((await checkNow(cloud, it.id)).status).toBe('NEEDS_AUTH')
        const again = await until(
          'a login again',
          REAUTH_MS,
          async () => (await timeline(cloud, it.id, 'reauth')).find(({ status }) => status !== 'IN_PROGRESS'),
          { everyMs: 200 },
        )
        expect(again.status).toBe('SUCCESS')
        expect((await shown(cloud, it.id)).status).toBe('AUTHENTICATED')
        expect(await shownWith(it.profile)).toMatch(app.proof.text)
      } finally {
        await cloud.client.credentials.delete(stored.id)
      }
    })
  }

  test('a stored password that is wrong is tried once', async () => {
    const { totpSecret: _, ...values } = app.user
    // No other test sends this password, and forms must encode it.
    const password = `${randomPassword()} +&%`
    const stored = await cloud.client.credentials.create({
      name: `${name}-wrong`,
      domain: app.hosts[0]!,
      values: { ...values, password },
    })
    try {
      await using it = await connection({ credential: { name: stored.name } })
      await cloud.client.auth.connections.login(it.id)
      const { end } = await driven(cloud, it.id, { value: () => undefined, choose: (choices) => choices[0] })
      expect(end).toMatchObject({ flow_status: 'FAILED', error_code: 'credentials_invalid' })
      expect(sendings(app, password)).toBe(1)
      // Check that the proof of the other tests is one: a guest does not see it.
      expect(await shownWith(it.profile, /\w/)).not.toMatch(app.proof.text)
    } finally {
      await cloud.client.credentials.delete(stored.id)
    }
  })
})
