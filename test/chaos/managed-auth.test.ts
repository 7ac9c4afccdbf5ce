// Kills the service, an agent or Chromium during logins. Each login continues or ends with the right code, a stored password is sent at most once, and no browser
// remains.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sleep, until } from '../../src/base/wait.ts'
import { startLoginNet } from '../logins/net.ts'
import { canaries, startCanarySite, type CanaryHost, type CanarySite } from '../support/canary-site.ts'
import { startCloud, type OwnCloud } from '../support/cloud.ts'
import { agentOf, killChromium } from '../support/inside.ts'
import { shown, type Shown } from '../support/managed-auth.ts'
import { amount } from '../support/long.ts'
import { seeded } from '../support/seeded.ts'

const STEP_MS = 60_000
/** Kills of the service at random moments of a login. */
const KILLS = amount(1, 40)
/** The latest moment of a kill: a login at the site takes a few seconds. */
const WITHIN_MS = 6_000

const seed = Number(process.env.CHAOS_SEED ?? Date.now() % 1_000_000)
const random = seeded(seed)
const user = canaries()
const own = new AsyncDisposableStack()
let cloud: OwnCloud
let site: CanarySite
let proxy: string
beforeAll(async () => {
  process.stderr.write(`CHAOS_SEED=${seed}\n`)
  cloud = own.use(await startCloud())
  site = own.use(await startCanarySite(user))
  const net = own.use(await startLoginNet([site]))
  proxy = (await cloud.client.proxies.create({ type: 'custom', protocol: 'http', config: { host: 'host.cob.internal', port: net.port } })).id!
}, STEP_MS)
afterAll(() => own.disposeAsync(), STEP_MS)

let made = 0
/** Begins a login at a host of the site. The credential has everything that the login needs. */
async function begun(host: CanaryHost): Promise<{ id: string; before: number }> {
  const name = `chaos-${++made}`
  const { username, password, totpSecret } = user
  await cloud.client.credentials.create({
    name,
    domain: site.hostOf(host),
    values: { username, password },
    ...(host === 'totp' && { totp_secret: totpSecret }),
  })
  const { id } = await cloud.client.auth.connections.create({
    domain: site.hostOf(host),
    profile_name: name,
    login_url: `http://${site.hostOf(host)}/login`,
    proxy: { id: proxy },
    credential: { name },
  })
  const before = site.tries(host)
  await cloud.client.auth.connections.login(id)
  return { id, before }
}
const stateOf = (id: string) => shown(cloud, id)
/** Waits until the login has ended or asks its user. It asks when the service cannot know whether the password was sent. */
const settled = (id: string): Promise<Shown> =>
  until(
    'a login that has ended or asks',
    STEP_MS,
    async () => ((now) => (now.flow_status !== 'IN_PROGRESS' || now.flow_step === 'AWAITING_INPUT' ? now : undefined))(await stateOf(id)),
    { everyMs: 100 },
  )
/** Deletes the connection, and waits until its browser has ended. */
async function gone(id: string): Promise<void> {
  await cloud.client.auth.connections.delete(id)
  await until('the browsers of logins to end', STEP_MS, async () => {
    const rows = await cloud.query(`select id from browsers where state = 'running' and auth_flow_id is not null`)
    return rows.length === 0
  })
}
async function assertRight(id: string, host: CanaryHost, before: number, end: Shown): Promise<void> {
  expect(site.tries(host) - before).toBeLessThanOrEqual(1)
  if (end.flow_status === 'FAILED') expect(['browser_error', 'credentials_invalid']).toContain(end.error_code)
  else expect([end.flow_status, end.flow_step]).toEqual(end.flow_status === 'SUCCESS' ? ['SUCCESS', 'COMPLETED'] : ['IN_PROGRESS', 'AWAITING_INPUT'])
  if (end.flow_status === 'SUCCESS') expect(site.tries(host) - before).toBe(1)
  await gone(id)
}

test(`${KILLS} time(s) the service is killed at a random moment of a login`, { timeout: KILLS * 2 * STEP_MS }, async () => {
  for (let kill = 0; kill < KILLS; kill++) {
    const host = (['totp', 'two', 'plain'] as const)[kill % 3]!
    const { id, before } = await begun(host)
    await sleep(random() * WITHIN_MS)
    await cloud.kill()
    await cloud.start()
    await assertRight(id, host, before, await settled(id))
  }
})

test('the service is killed as soon as a login was asked for: the next one makes its browser and logs in', { timeout: 2 * STEP_MS }, async () => {
  const { id, before } = await begun('plain')
  await cloud.kill()
  await cloud.start()
  const end = await settled(id)
  expect([end.flow_status, end.error_code]).toEqual(['SUCCESS', null])
  await assertRight(id, 'plain', before, end)
})

test('the service is killed while the site has the password and has not answered: it is not sent again', { timeout: 2 * STEP_MS }, async () => {
  const letGo = site.hold()
  const { id, before } = await begun('plain')
  await until('the password at the site', STEP_MS, () => site.tries('plain') > before, { everyMs: 20 })
  await cloud.kill()
  letGo()
  await cloud.start()
  await assertRight(id, 'plain', before, await settled(id))
  expect(site.tries('plain') - before).toBe(1)
})

test.each(['agent', 'Chromium'] as const)(
  'the %s is killed while the site has the password: the login ends, and the password is not sent again',
  async (victim) => {
    const letGo = site.hold()
    const { id, before } = await begun('plain')
    await until('the password at the site', STEP_MS, () => site.tries('plain') > before, { everyMs: 20 })
    const browser = (await stateOf(id)).browser_session_id!
    if (victim === 'agent') process.kill(agentOf(cloud, browser), 'SIGKILL')
    else await killChromium(cloud, browser)
    letGo()
    const end = await settled(id)
    if (victim === 'agent') expect(end).toMatchObject({ flow_status: 'FAILED', error_code: 'browser_error' })
    await assertRight(id, 'plain', before, end)
  },
  STEP_MS,
)

test('a login whose time is over while the service is down ends when it is back, with its browser', { timeout: 2 * STEP_MS }, async () => {
  const letGo = site.hold()
  const { id } = await begun('two')
  await until('a browser', STEP_MS, async () => (await stateOf(id)).browser_session_id)
  await cloud.query(`update auth_flows set expires_at = now() where connection_id = $1`, [id])
  await cloud.kill()
  await cloud.start()
  const end = await until('its end', STEP_MS, async () => ((now) => (now.flow_status === 'IN_PROGRESS' ? undefined : now))(await stateOf(id)))
  letGo()
  expect(end.flow_status).toBe('EXPIRED')
  await gone(id)
})
