// Connections and their logins as callers see them, by the Node SDK and by raw requests. A function of the test acts as the engine.
import Kernel from '@onkernel/sdk'
import { describe, expect, test } from 'vitest'
import { conforms } from '../../../../test/support/contract.ts'
import { newId } from '../../../base/ids.ts'
import { until } from '../../../base/wait.ts'
import type { Connection, FlowEvent, LoginBegun, TimelineItem } from './contract.ts'
import { INPUT_MS } from './engine/person.ts'
import { browserOf } from './wanted-browser.ts'
import { json, pauseOf, serviceWithWorker } from './worker.suite.ts'

const WAIT_MS = 20_000
const SECRET = 'CANARY-typed-password'

const { cloud, worker, wanted, create, read, login: startLogin, submit, succeed } = await serviceWithWorker({ COB_MAX_HEALTH_CHECKS: '1' })
const sdk = new Kernel({ apiKey: cloud.key, baseURL: cloud.url, maxRetries: 0 })
const login = async (id: string, body: object = {}) => json<LoginBegun>(await startLogin(id, body))
const inputUntil = () => new Date(Date.now() + INPUT_MS)
const takeAnswer = (id: string) => until('an answer', WAIT_MS, () => worker.flows.takeAnswer(id))

/** A connection whose login waits for a person. */
async function asking(more: object = {}) {
  const { id } = await create(more)
  const begun = await login(id)
  const flow = await worker.claim(id)
  expect(await worker.flows.ask(flow.id, pauseOf('i1'), 'AWAITING_INPUT', inputUntil())).toBe(true)
  return { id, begun, flow }
}

describe('connections', () => {
  test('are made with their profile, have defaults, and conform to the contract', async () => {
    const one = await sdk.auth.connections.create({ domain: 'Site.Test', profile_name: 'kim' })
    conforms('ManagedAuth', one)
    expect(one).toMatchObject({
      domain: 'site.test',
      profile_name: 'kim',
      status: 'NEEDS_AUTH',
      auto_reauth: true,
      health_checks: true,
      health_check_interval: 3600,
      record_session: false,
      save_credentials: true,
      can_reauth: false,
      can_reauth_reason: 'no_prior_successful_login',
      browser: { stealth: true },
      flow_status: null,
      fields: null,
      hosted_url: null,
    })
    expect((await json<{ name: string }>(await cloud.fetch('/profiles/kim'))).name).toBe('kim')
    // For another domain, the same profile is used.
    await sdk.auth.connections.create({ domain: 'other.test', profile_name: 'kim' })
    const profiles = await cloud.query<{ count: number }>(`select count(*)::int as count from profiles where name = 'kim'`)
    expect(profiles[0]!.count).toBe(1)
  })

  test('exist once for each profile and domain, and the refusal names the one that is there', async () => {
    const body = wanted()
    const answers = await Promise.all([1, 2, 3].map(() => cloud.send('POST', '/auth/connections', body)))
    const bodies = await Promise.all(answers.map((answer) => json<{ id?: string; existing_id?: string; code?: string }>(answer)))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409, 409])
    const { id } = bodies.find((one) => one.id !== undefined)!
    expect(bodies.filter((one) => one.existing_id === id && one.code === 'conflict').length).toBe(2)
  })

  test('are listed by domain, profile and part of them, in pages, newest first', async () => {
    const domain = `${newId()}.test`
    const ids = []
    for (let count = 0; count < 3; count++) ids.unshift((await create({ domain })).id)
    const list = async (query: string) => {
      const response = await cloud.fetch(`/auth/connections?${query}`)
      return { ids: (await json<Connection[]>(response)).map(({ id }) => id), next: response.headers.get('x-next-offset') }
    }
    expect(await list(`domain=${domain.toUpperCase()}`)).toEqual({ ids, next: '0' })
    expect(await list(`query=${domain.slice(2, 20)}&limit=2`)).toEqual({ ids: ids.slice(0, 2), next: '2' })
    expect(await list(`query=${domain.slice(2, 20)}&limit=2&offset=2`)).toEqual({ ids: ids.slice(2), next: '0' })
    const { profile_name: profile } = await read(ids[0]!)
    expect((await list(`profile_name=${profile}`)).ids).toEqual([ids[0]])
    expect((await list(`query=${ids[1]}`)).ids).toEqual([ids[1]])
    const found = []
    for await (const one of sdk.auth.connections.list({ domain })) found.push(one.id)
    expect(found).toEqual(ids)
  })

  test('are changed in what is sent only; an empty login_url clears it, allowed domains are replaced', async () => {
    const { id } = await create({ login_url: 'https://site.test/in', allowed_domains: ['a.test'], health_check_interval: 600 })
    const before = await read(id)
    expect(await sdk.auth.connections.update(id, { allowed_domains: ['*.B.test'], auto_reauth: false })).toMatchObject({
      ...before,
      allowed_domains: ['b.test'],
      auto_reauth: false,
    })
    expect(await json<Connection>(await cloud.send('PATCH', `/auth/connections/${id}`, { login_url: '' }))).not.toHaveProperty('login_url')
    expect((await cloud.query<{ version: number }>('select version from auth_connections where id = $1', [id]))[0]!.version).toBe(3)
  })

  test.each([
    [{ health_check_interval: 299 }, 'health_check_interval'],
    [{ health_check_interval: 86_401 }, 'health_check_interval'],
    [{ domain: 'https://site.test' }, 'domain'],
    [{ domain: 'localhost:80' }, 'domain'],
    [{ login_url: 'javascript:alert(1)' }, 'login_url'],
    [{ profile_name: 'no/slashes' }, 'profile_name'],
    [{ credential: { provider: 'op' } }, 'credential.path'],
    [{ credential: { name: 'a', provider: 'op' } }, 'credential.provider'],
    [{ credential: { name: 'nobody' } }, 'credential.name'],
    [{ credential: { provider: 'nobody', auto: true } }, 'credential.provider'],
    [{ proxy: { name: 'nobody' } }, 'proxy.name'],
    [{ browser: { proxy: {} } }, 'browser.proxy'],
    [{ browser: { proxy: { id: 'x', mode: 'direct' } } }, 'browser.proxy'],
    [{ browser: { region: 'eu-nowhere' } }, 'browser.region'],
    [{ browser_telemetry: { export: { otlp: { destination: { name: 'nobody' } } } } }, 'telemetry'],
  ])('are refused with %j, which names %s', async (more, named) => {
    const response = await cloud.send('POST', '/auth/connections', wanted(more))
    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining(named) as string])
  })

  test('name a proxy, the nested one first; an ambiguous name is refused, and a proxy in use cannot be deleted', async () => {
    const proxy = async (name: string) =>
      (await json<{ id: string }>(await cloud.send('POST', '/proxies', { type: 'custom', name, config: { host: 'proxy.test', port: 8080 } }))).id
    const [one, other] = [await proxy('one'), await proxy('other')]
    await proxy('twice')
    await proxy('twice')
    const connection = await create({ proxy: { name: 'one' }, browser: { proxy: { id: other } } })
    expect(connection).toMatchObject({ proxy_id: other, browser: { proxy: { id: other } } })
    const ambiguous = await cloud.send('POST', '/auth/connections', wanted({ proxy: { name: 'twice' } }))
    expect([ambiguous.status, (await json<{ code: string }>(ambiguous)).code]).toEqual([400, 'ambiguous_proxy_name'])
    const refused = await cloud.fetch(`/proxies/${other}`, { method: 'DELETE' })
    expect([refused.status, (await json<{ code: string }>(refused)).code]).toEqual([400, 'resource_in_use'])
    expect((await cloud.fetch(`/proxies/${one}`, { method: 'DELETE' })).status).toBe(204)
    const direct = await json<Connection>(await cloud.send('PATCH', `/auth/connections/${connection.id}`, { browser: { proxy: { mode: 'direct' } } }))
    expect(direct.browser.proxy).toEqual({ mode: 'direct' })
    expect((await cloud.fetch(`/proxies/${other}`, { method: 'DELETE' })).status).toBe(204)
  })

  test('keep the telemetry destination that they export to from being deleted', async () => {
    const destination = await json<{ id: string }>(await cloud.send('POST', '/telemetry/destinations', { name: 'ours', endpoint: 'http://192.0.2.1:4318' }))
    const telemetry = { enabled: true, export: { otlp: { destination: { name: 'ours' } } } }
    const connection = await create({ browser: { telemetry }, browser_telemetry: { enabled: false } })
    expect(connection.browser.telemetry).toMatchObject({ export: { otlp: { enabled: true, destination: destination.id } } })
    expect(connection.browser_telemetry).toEqual(connection.browser.telemetry)
    const remove = () => cloud.fetch(`/telemetry/destinations/${destination.id}`, { method: 'DELETE' })
    expect((await remove()).status).toBe(409)
    const changed = await json<Connection>(await cloud.send('PATCH', `/auth/connections/${connection.id}`, { browser: { telemetry: { enabled: false } } }))
    expect([changed.browser.telemetry, changed.browser.stealth]).toEqual([null, true])
    expect((await remove()).status).toBe(204)
  })

  test('of which one is overridden by a login: its proxy, recording and stealth are those that this login asks for', async () => {
    const { id } = await create({ browser: { stealth: true }, record_session: false })
    await login(id, { record_session: true, browser: { stealth: false, proxy: { mode: 'direct' } } })
    const flow = await worker.claim(id)
    expect(flow.asked).toEqual({ record_session: true, proxy_id: null, browser: { stealth: false } })
    const connection = (await worker.flows.connectionOf(flow))!
    expect(browserOf({ ...connection, proxy_id: 'p1' }, flow)).toEqual({ proxyId: undefined, stealth: false, telemetry: undefined, record: true })
    expect(browserOf({ ...connection, proxy_id: 'p1' }, { asked: {}, type: 'login' })).toMatchObject({ proxyId: 'p1', stealth: true, record: false })
  })

  test('are deleted with their login, and their profile stays; with their profile they go', async () => {
    const { id, flow } = await asking()
    const { profile_name: profile } = await read(id)
    expect((await cloud.fetch(`/auth/connections/${id}`, { method: 'DELETE' })).status).toBe(204)
    expect((await cloud.fetch(`/auth/connections/${id}`)).status).toBe(404)
    expect(await worker.flows.remember(flow.id, {})).toBe(false)
    expect((await cloud.fetch(`/profiles/${profile}`)).status).toBe(200)
    const next = await asking({ profile_name: profile })
    expect((await cloud.fetch(`/profiles/${profile}`, { method: 'DELETE' })).status).toBe(204)
    expect((await cloud.fetch(`/auth/connections/${next.id}`)).status).toBe(404)
    expect(await worker.flows.submitting(next.flow.id)).toBe(false)
  })
})

describe('a login', () => {
  test('asks in both generations, takes an answer once, succeeds, and is followed by the Node SDK', async () => {
    const { id } = await sdk.auth.connections.create(wanted() as never)
    const begun = await sdk.auth.connections.login(id, { record_session: true })
    conforms('LoginResponse', begun)
    expect(begun).toMatchObject({ id, flow_type: 'LOGIN' })
    expect(begun.hosted_url).toContain(encodeURIComponent(begun.handoff_code!))
    // The login is in the timeline at once.
    const [first] = await json<TimelineItem[]>(await cloud.fetch(`/auth/connections/${id}/timeline`))
    expect(first).toMatchObject({ type: 'login', status: 'IN_PROGRESS', step: 'INITIALIZED' })

    const states: FlowEvent[] = []
    const stream = await sdk.auth.connections.follow(id)
    const followed = (async () => {
      for await (const event of stream) states.push(event as never)
    })()
    // Quick changes may be joined into one event.
    const seen = (step: string) => until(`${step} is followed`, WAIT_MS, () => states.some((event) => 'flow_step' in event && event.flow_step === step))
    await seen('DISCOVERING')
    const flow = await worker.claim(id)
    expect(flow).toMatchObject({ type: 'login', asked: { record_session: true } })
    await worker.flows.ask(flow.id, pauseOf('i1'), 'AWAITING_INPUT', inputUntil())
    const shown = await sdk.auth.connections.retrieve(id)
    conforms('ManagedAuth', shown)
    expect(shown).toMatchObject({
      flow_status: 'IN_PROGRESS',
      flow_step: 'AWAITING_INPUT',
      fields: [
        { id: 'f1', ref: 'email', type: 'identifier' },
        { id: 'f2', ref: 'password', type: 'password' },
      ],
      discovered_fields: [
        { name: 'email', type: 'email', selector: '//input[1]' },
        { name: 'password', type: 'password' },
      ],
      pending_sso_buttons: [{ provider: 'github', selector: '//a[1]' }],
      mfa_options: [{ type: 'sms', target: '•••92' }],
      sign_in_options: [{ id: 'c3', label: 'kim@example.com' }],
      sso_provider: 'github',
      hosted_url: begun.hosted_url,
    })
    await seen('AWAITING_INPUT')
    expect(await sdk.auth.connections.submit(id, { fields: { email: 'kim', password: SECRET } })).toEqual({ accepted: true })
    const again = await submit(id, { fields: { email: 'kim', password: SECRET } })
    expect(again.status).toBe(409)
    const answer = await takeAnswer(flow.id)
    expect(answer).toEqual({ interactionId: 'i1', values: { f1: 'kim', f2: SECRET } })
    expect(await worker.flows.takeAnswer(flow.id)).toBeUndefined()
    expect(await read(id)).toMatchObject({ flow_step: 'SUBMITTING', fields: null, choices: null, discovered_fields: null })
    await seen('SUBMITTING')
    await worker.flows.keepTyped(flow.id, answer.values)
    expect(await worker.flows.openTyped(flow.id)).toEqual(answer.values)
    expect(await succeed(flow.id, 'https://site.test/home')).toBe(true)
    await followed
    for (const event of states) conforms('ConnectionFollowResponse', event)
    expect(states.map((event) => ('flow_step' in event ? event.flow_step : event.event))).toEqual(['DISCOVERING', 'AWAITING_INPUT', 'SUBMITTING', 'COMPLETED'])
    expect(states.at(-1)).toMatchObject({ flow_status: 'SUCCESS', post_login_url: 'https://site.test/home' })
    expect(await read(id)).toMatchObject({ status: 'AUTHENTICATED', flow_status: 'SUCCESS', hosted_url: null, post_login_url: 'https://site.test/home' })
    const items = await json<TimelineItem[]>(await cloud.fetch(`/auth/connections/${id}/timeline`))
    conforms('ManagedAuthTimelineEvent', items, true)
    expect(items).toMatchObject([{ id: flow.id, status: 'SUCCESS', step: 'COMPLETED' }])
    const kept = await cloud.query<{ answer: unknown; typed: unknown }>('select answer, typed from auth_flows where id = $1', [flow.id])
    expect(kept).toEqual([{ answer: null, typed: null }])
  })

  test('keeps what is typed sealed: neither the database nor an answer shows it', async () => {
    const { id, flow } = await asking()
    await submit(id, { field_values: { f1: 'kim', f2: SECRET } })
    const texts = [
      JSON.stringify((await cloud.query('select f::text as text from auth_flows f where id = $1', [flow.id]))[0]),
      await (await cloud.fetch(`/auth/connections/${id}`)).text(),
      await (await cloud.fetch(`/auth/connections/${id}/timeline`)).text(),
    ]
    for (const text of texts) for (const form of [SECRET, Buffer.from(SECRET).toString('hex')]) expect(text).not.toContain(form)
    expect((await takeAnswer(flow.id)).values.f2).toBe(SECRET)
  })

  test('refuses answers at the wrong step, to an old question, and of nothing', async () => {
    const { id } = await create()
    expect((await submit(id, { selected_choice_id: 'c1' })).status).toBe(400)
    await login(id)
    const flow = await worker.claim(id)
    expect((await submit(id, { selected_choice_id: 'c1' })).status).toBe(400)
    await worker.flows.ask(flow.id, pauseOf('i2'), 'AWAITING_INPUT', inputUntil())
    expect((await submit(id, { selected_choice_id: 'c1', interaction_id: 'i1' })).status).toBe(409)
    expect((await submit(id, { sso_provider: 'github', sso_button_selector: '//a[1]' })).status).toBe(400)
    expect((await submit(id, { fields: {} })).status).toBe(400)
    // Of two simultaneous submissions, one is accepted.
    const both = await Promise.all([submit(id, { selected_choice_id: 'c1' }), submit(id, { selected_choice_id: 'c2' })])
    expect(both.map(({ status }) => status).toSorted()).toEqual([202, 409])
  })

  test('shows what the site has said, and what a person has to do elsewhere', async () => {
    const { id, flow } = await asking()
    await worker.flows.ask(flow.id, pauseOf('i2'), 'AWAITING_INPUT', inputUntil(), 'Wrong password')
    expect(await read(id)).toMatchObject({ website_error: 'Wrong password', interaction_id: 'i2', flow_step: 'AWAITING_INPUT', external_action_message: null })
    const pause = { ...pauseOf('i3'), fields: [], external: { action: 'push' as const, message: 'Approve on your phone' } }
    await worker.flows.ask(flow.id, pause, 'AWAITING_EXTERNAL_ACTION', inputUntil())
    expect(await read(id)).toMatchObject({ external_action_message: 'Approve on your phone', fields: null, website_error: null })
    const [item] = await json<TimelineItem[]>(await cloud.fetch(`/auth/connections/${id}/timeline`))
    expect(item!.step).toBe('AWAITING_HUMAN_INTERVENTION')
    expect((await submit(id, { mfa_option_id: 'sms' })).status).toBe(202)
    await worker.flows.finish(flow.id, { state: 'FAILED', errorCode: 'credentials_invalid', errorMessage: 'wrong', websiteError: 'Wrong password' })
    expect(await read(id)).toMatchObject({ flow_status: 'FAILED', error_code: 'credentials_invalid', website_error: 'Wrong password', status: 'NEEDS_AUTH' })
  })

  test('is one at a time; one whose time is over makes way', async () => {
    const { id, flow } = await asking()
    const second = await cloud.send('POST', `/auth/connections/${id}/login`, {})
    expect([second.status, (await json<{ code: string }>(second)).code]).toEqual([409, 'flow_in_progress'])
    await cloud.query(`update auth_flows set expires_at = now() - interval '1 second' where id = $1`, [flow.id])
    expect((await cloud.send('POST', `/auth/connections/${id}/login`, {})).status).toBe(200)
    expect((await worker.flows.get(flow.id))!.state).toBe('EXPIRED')
    const { id: other } = await create()
    const many = await Promise.all(Array.from({ length: 4 }, () => cloud.fetch(`/auth/connections/${other}/login`, { method: 'POST' })))
    expect(many.map(({ status }) => status).toSorted()).toEqual([200, 409, 409, 409])
  })

  test('expires when nobody answers in time, or its own time is over', async () => {
    const { id, flow } = await asking()
    await cloud.query(`update auth_flows set input_until = now() - interval '1 second' where id = $1`, [flow.id])
    await until('it expires', WAIT_MS, async () => (await read(id)).flow_status === 'EXPIRED')
    expect(await worker.flows.remember(flow.id, {})).toBe(false)
    const [item] = await json<TimelineItem[]>(await cloud.fetch(`/auth/connections/${id}/timeline`))
    expect(item).toMatchObject({ status: 'EXPIRED', step: 'EXPIRED' })
  })

  test('is refused when too many are in progress', async () => {
    const few = worker.as('few', { maxPending: 0 })
    const { id } = await create()
    const row = (await worker.db.selectFrom('auth_connections').selectAll().where('id', '=', id).executeTakeFirstOrThrow()) as never
    await expect(few.begin(row, 'login', {})).rejects.toMatchObject({ code: 'too_many_pending_sessions', status: 409 })
  })

  test('belongs to one replica: another one changes nothing, and takes it over when the first is dead', async () => {
    const { id, flow } = await asking()
    const other = worker.as('other')
    expect(await other.submitting(flow.id)).toBe(false)
    expect(await other.finish(flow.id, { state: 'CANCELED', errorMessage: 'x' })).toBe(false)
    expect(await other.takeAnswer(flow.id)).toBeUndefined()
    await cloud.query(`update auth_flows set replica = 'dead' where id = $1`, [flow.id])
    expect(await worker.flows.remember(flow.id, {})).toBe(false)
    expect(await until('it is taken over', WAIT_MS, async () => ((await other.claimNext())?.id === flow.id ? true : undefined))).toBe(true)
    expect(await read(id)).toMatchObject({ flow_step: 'AWAITING_INPUT', interaction_id: 'i1' })
    await other.giveBack([])
    expect((await worker.flows.get(flow.id))!.replica).toBeNull()
  })

  test('wakes those who follow it: the worker hears an answer, and a cancellation', async () => {
    const { id, flow } = await asking()
    const next = worker.flows.next(flow.id, AbortSignal.timeout(WAIT_MS))
    await submit(id, { selected_choice_id: 'c1' })
    await next.promise
    next.leave()
    let news = 0
    const leave = worker.flows.onNews(() => void news++)
    await cloud.fetch(`/auth/connections/${id}`, { method: 'DELETE' })
    await until('the news', WAIT_MS, () => news > 0)
    leave()
  })
})

describe('following', () => {
  const follow = (id: string) => cloud.fetch(`/auth/connections/${id}/events`)
  const received = async (answer: Response): Promise<FlowEvent[]> =>
    [...(await answer.text()).matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data!) as FlowEvent)
  const events = async (id: string) => received(await follow(id))
  test('before any login: one heartbeat, then the end', async () => {
    const { id } = await create()
    expect((await events(id)).map(({ event }) => event)).toEqual(['sse_heartbeat'])
  })
  test('after the end: its state, then the end; of a connection that is deleted: canceled', async () => {
    const { id, flow } = await asking()
    const following = await follow(id)
    expect(following.status).toBe(200)
    await cloud.fetch(`/auth/connections/${id}`, { method: 'DELETE' })
    expect((await received(following)).at(-1)).toMatchObject({ flow_status: 'CANCELED', flow_step: 'COMPLETED' })
    const next = await asking()
    await succeed(next.flow.id)
    expect(await events(next.id)).toMatchObject([{ event: 'managed_auth_state', flow_status: 'SUCCESS' }])
    expect(flow.id).not.toBe(next.flow.id)
  })
  test('of no connection is 404', async () => {
    expect((await cloud.fetch(`/auth/connections/${newId()}/events`)).status).toBe(404)
  })
})

test('nothing of all this was an error of the service', () => {
  expect(cloud.errors).toEqual([])
})
