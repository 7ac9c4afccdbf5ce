// The engine over real rows, driven by callers: a login by submit, a service that stops in the middle, cancel, and browsers that nobody ended.
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../../../test/support/fast-cloud.ts'
import { button, input, link, password } from '../../../../../test/support/page-models.ts'
import { SECRETS, World, type Site } from '../../../../../test/support/login-site.ts'
import { sleep, until } from '../../../../base/wait.ts'
import type { Connection } from '../contract.ts'
import type { Flows } from '../flows.ts'
import { startWorker, type Worker } from '../worker.suite.ts'
import { makeEngine } from './engine.ts'

const WAIT_MS = 20_000
const { username, password: right, wrong } = SECRETS

const site: Site = (_, state) =>
  state.user !== ''
    ? { parts: [link('Sign out', '/logout'), link('Reports', '/r')], more: { headings: ['Welcome back'] } }
    : {
        parts: [input('Username'), password('Password'), button('Sign in')],
        more: { title: 'Sign in', headings: ['Sign in'], alerts: state.step['wrong'] === true ? [{ text: 'Wrong password.', by: 'role' }] : [] },
        press: (_label, { Username: user, Password: given }) => {
          if (user === username && given === right) state.user = user
          else state.step['wrong'] = true
          return '/login'
        },
      }

const scope = new AsyncDisposableStack()
let cloud: FastCloud
let rows: Worker
beforeAll(async () => {
  cloud = scope.use(await startFastCloud({ COB_WARM_BROWSERS: '0', COB_MAX_LOGINS: '50' }))
  rows = scope.use(startWorker(cloud.paths))
}, 60_000)
afterAll(() => scope.disposeAsync())

/** An engine of its own replica. Waits on pages are short, as nothing happens on this site by itself. */
function engineOf(world: World, flows: Flows = rows.flows, strayBrowsers: () => Promise<string[]> = async () => []) {
  const clock = { now: Date.now, sleep: (ms: number, signal: AbortSignal) => sleep(Math.min(ms, 10), signal) }
  const engine = makeEngine({ ...world.tools(), flows, clock, most: 2, strayBrowsers, everyMs: 200 })
  engine.start()
  let isEnded = false
  const end = async () => {
    if (!isEnded) await engine[Symbol.asyncDispose]()
    isEnded = true
  }
  onTestFinished(end)
  return { engine, end }
}

let made = 0
async function begin(more: object = {}): Promise<string> {
  const profile_name = `engine-${++made}`
  const { id } = (await (
    await cloud.send('POST', '/auth/connections', { domain: 'example.test', profile_name, login_url: 'https://example.test/login', ...more })
  ).json()) as Connection
  expect((await cloud.send('POST', `/auth/connections/${id}/login`, {})).status).toBe(200)
  return id
}
const read = async (id: string) => (await (await cloud.fetch(`/auth/connections/${id}`)).json()) as Connection
const reaches = (id: string, what: (connection: Connection) => boolean) =>
  until('the state of a connection', WAIT_MS, async () => {
    const now = await read(id)
    return what(now) && now
  })
const asks = (id: string) => reaches(id, ({ flow_step: step }) => step === 'AWAITING_INPUT')
const submit = (id: string, fields: Record<string, string>) => cloud.send('POST', `/auth/connections/${id}/submit`, { fields })

test('a login is driven to SUCCESS by what callers submit, after the site refused the first answer', async () => {
  const world = new World(site)
  engineOf(world)
  const id = await begin()
  expect((await asks(id)).fields!.map(({ ref, reason }) => `${ref} ${reason}`)).toEqual(['username missing', 'password missing'])
  expect((await submit(id, { username, password: wrong })).status).toBe(202)
  const again = await reaches(id, ({ website_error: error }) => error !== null)
  expect(again).toMatchObject({ website_error: 'Wrong password.', flow_step: 'AWAITING_INPUT' })
  expect((await submit(id, { username, password: right })).status).toBe(202)
  expect(await reaches(id, ({ status }) => status === 'AUTHENTICATED')).toMatchObject({ flow_status: 'SUCCESS', post_login_url: 'https://example.test/login' })
  expect(world.profile).toEqual({ user: username, saves: 1 })
  expect(world.openBrowsers()).toBe(0)
  const { rows: stored } = await sql`select row_to_json(f)::text as text from auth_flows f`.execute(rows.db)
  for (const secret of Object.values(SECRETS)) expect(JSON.stringify([stored, world.lines])).not.toContain(secret)
})

test('a service that stops leaves the flow to another one, with the same question and the same browser', async () => {
  const world = new World(site)
  const { end } = engineOf(world)
  const id = await begin()
  const before = await asks(id)
  await end()
  expect(await read(id)).toMatchObject({ flow_status: 'IN_PROGRESS', interaction_id: before.interaction_id })
  engineOf(world, rows.as('another'))
  expect((await submit(id, { username, password: right })).status).toBe(202)
  await reaches(id, ({ flow_status: status }) => status === 'SUCCESS')
  expect(world.browsers.size).toBe(1)
})

test('deleting a connection ends the browser of its login', async () => {
  const world = new World(site)
  const { engine } = engineOf(world)
  const id = await begin()
  await asks(id)
  expect((await cloud.send('DELETE', `/auth/connections/${id}`, undefined)).status).toBe(204)
  await until('the browser has ended', WAIT_MS, () => world.openBrowsers() === 0)
  await until('the worker has ended', WAIT_MS, () => engine.working === 0)
})

test('browsers of flows that ended while nobody worked on them are ended', async () => {
  const world = new World(site)
  const { browser } = await world.loginBrowsers.make({} as never, AbortSignal.timeout(WAIT_MS))
  engineOf(world, rows.flows, async () => [browser.id])
  await until('the browser has ended', WAIT_MS, () => world.openBrowsers() === 0)
})

test('a worker that has given up, as the database was away, leaves its flow to the next one, and a stored password is sent once', async () => {
  const world = new World(site).withStored({ username, password: right })
  const hasGivenUp = () => world.lines.some((line) => line.includes('given up'))
  let backAt = Infinity
  const away = new Proxy(rows.flows, {
    get(from, name) {
      const value: unknown = Reflect.get(from, name)
      if (typeof value !== 'function') return value
      return (...given: unknown[]): unknown => {
        // Once the site has the password, nothing more can be stored for a while: not even how the login ends.
        if (hasGivenUp()) backAt = Math.min(backAt, Date.now() + 300)
        if (world.sentOf(right) > 0 && Date.now() < backAt && name !== 'onNews') throw new Error('the database is away')
        return value.apply(from, given) as unknown
      }
    },
  })
  engineOf(world, away)
  const name = `engine-${++made}`
  await cloud.send('POST', '/credentials', { name, domain: 'example.test', values: { username, password: right } })
  const end = await reaches(await begin({ credential: { name } }), ({ flow_status: status }) => status !== 'IN_PROGRESS')
  expect(end).toMatchObject({ flow_status: 'SUCCESS', status: 'AUTHENTICATED' })
  expect([hasGivenUp(), world.sentOf(right), world.browsers.size]).toEqual([true, 1, 1])
})

test('a flow that was claimed, and of whose claim the answer was lost, is worked on', async () => {
  const world = new World(site)
  let isLost = false
  const losing: Flows = {
    ...rows.flows,
    async claimNext() {
      const flow = await rows.flows.claimNext()
      if (!flow || isLost) return flow
      isLost = true
      throw new Error('the connection to the database broke')
    },
  }
  engineOf(world, losing)
  const id = await begin()
  await asks(id)
  expect(isLost).toBe(true)
  await cloud.send('DELETE', `/auth/connections/${id}`, undefined)
})

test('no more flows are worked on at once than is said', async () => {
  const world = new World(site)
  const { engine } = engineOf(world)
  const ids = [await begin(), await begin(), await begin()]
  const waiting = async () => (await Promise.all(ids.map(read))).filter(({ flow_step: step }) => step === 'AWAITING_INPUT').length
  await until('two ask', WAIT_MS, async () => (await waiting()) === 2)
  expect(engine.working).toBe(2)
  const [first, last] = [true, false].map(
    async (isAsked) => (await Promise.all(ids.map(read))).find(({ flow_step: step }) => (step === 'AWAITING_INPUT') === isAsked)!.id,
  )
  const third = await last!
  await submit(await first!, { username, password: right })
  // The profile of the pretended site is one for all: it is logged in now.
  await reaches(third, ({ flow_status: status }) => status === 'SUCCESS')
  expect(engine.working).toBeLessThanOrEqual(2)
})
