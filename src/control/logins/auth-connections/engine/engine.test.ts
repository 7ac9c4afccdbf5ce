// The engine over real rows, driven by callers: a login by submit, a service that stops in the middle, cancel, and browsers that were not ended.
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { button, input, link, password } from '../../../../../test/support/page-models.ts'
import { SECRETS, World, type Site } from '../../../../../test/support/login-site.ts'
import { sleep, until } from '../../../../base/wait.ts'
import type { Connection } from '../contract.ts'
import type { Flows } from '../flows.ts'
import { serviceWithWorker } from '../worker.suite.ts'
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

const { cloud, worker: rows, create, read, login, submit: answer } = await serviceWithWorker()

/** An engine of its own replica. Its waits on pages are short, because this site does nothing by itself. */
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

async function begin(more: object = {}): Promise<string> {
  const { id } = await create({ domain: 'example.test', login_url: 'https://example.test/login', ...more })
  expect((await login(id)).status).toBe(200)
  return id
}
const reaches = (id: string, what: (connection: Connection) => boolean) =>
  until('the state of a connection', WAIT_MS, async () => {
    const now = await read(id)
    return what(now) && now
  }).catch(async (error: unknown) => {
    const { rows: flows } = await sql`select state, step, replica, browser_id, error_message from auth_flows where connection_id = ${id}`.execute(rows.db)
    throw new Error(`its flows are ${JSON.stringify(flows)}`, { cause: error })
  })
const asks = (id: string) => reaches(id, ({ flow_step: step }) => step === 'AWAITING_INPUT')
const submit = (id: string, fields: Record<string, string>) => answer(id, { fields })

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
        // After the site has the password, nothing can be stored for a while, not even the end of the login.
        if (hasGivenUp()) backAt = Math.min(backAt, Date.now() + 300)
        if (world.sentOf(right) > 0 && Date.now() < backAt && name !== 'onNews') throw new Error('the database is away')
        return value.apply(from, given) as unknown
      }
    },
  })
  engineOf(world, away)
  const name = 'engine'
  await cloud.send('POST', '/credentials', { name, domain: 'example.test', values: { username, password: right } })
  const end = await reaches(await begin({ credential: { name } }), ({ flow_status: status }) => status !== 'IN_PROGRESS')
  expect(end).toMatchObject({ flow_status: 'SUCCESS', status: 'AUTHENTICATED' })
  expect([hasGivenUp(), world.sentOf(right), world.browsers.size]).toEqual([true, 1, 1])
})

test('a flow that was claimed, and of whose claim the answer was lost, is worked on', async () => {
  const world = new World(site)
  let isLost = false
  const losing = rows.as('worker')
  losing.claimNext = async () => {
    const flow = await rows.flows.claimNext()
    if (!flow || isLost) return flow
    isLost = true
    throw new Error('the connection to the database broke')
  }
  engineOf(world, losing)
  const id = await begin()
  await asks(id)
  expect(isLost).toBe(true)
  await cloud.send('DELETE', `/auth/connections/${id}`, undefined)
})

test('a flow that is claimed while its service stops is given back', async () => {
  const world = new World(site)
  const [asked, goesOn, claimed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<unknown>()]
  const slow = rows.as('worker')
  const { end } = engineOf(world, slow)
  await sleep(50)
  slow.claimNext = async () => {
    asked.resolve()
    await goesOn.promise
    const flow = await rows.flows.claimNext()
    claimed.resolve(flow)
    return flow
  }
  const id = await begin()
  await asked.promise
  const ended = end()
  await Promise.race([ended, sleep(100)])
  goesOn.resolve()
  expect(await claimed.promise).toMatchObject({ connection_id: id })
  await ended
  const { rows: flows } = await sql`select state, replica from auth_flows where connection_id = ${id}`.execute(rows.db)
  expect(flows).toEqual([{ state: 'IN_PROGRESS', replica: null }])
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
  // All logins share the fake site's profile, so it is logged in now.
  await reaches(third, ({ flow_status: status }) => status === 'SUCCESS')
  expect(engine.working).toBeLessThanOrEqual(2)
})
