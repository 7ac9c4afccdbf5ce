// Following a deployment: first its present state, then its events, in order, each once.
import { describe, expect, test } from 'vitest'
import { deploy, deployed, fakeApps, inShort, reaches, readFrames, type Frame } from '../../../../test/support/apps.ts'
import { conforms } from '../../../../test/support/contract.ts'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog } from '../../../base/log.ts'
import { listenForEvents } from '../../../store/events.ts'
import { readEvents } from '../apps/app-events.ts'
import { follow } from '../apps/follow.ts'

const cloud = fastCloud({ COB_WARM_BROWSERS: '0' })

const open = (id: string, query = '', headers: Record<string, string> = {}) => cloud.fetch(`/deployments/${id}/events${query}`, { headers })
const logs = (...lines: string[]) => ({ FAKE_LOGS: JSON.stringify(lines) })
/** The first `count` events. */
const first = (response: Response, count: number): Promise<Frame[]> => {
  let left = count
  return readFrames(response, () => --left === 0)
}

describe('a follower of a deployment', () => {
  test('from the queue on gets each state, the output, the apps and then the running state', async () => {
    const hanging = await deploy(cloud, { env: { FAKE_HANG: '1' } })
    const { id } = await deploy(cloud, { env: { ...logs('one', 'two'), ...fakeApps({ a: ['x', 'y'], b: ['z'] }) }, version: 'v' })
    const events = readFrames(await open(id), (frame) => inShort(frame) === 'state: running')
    await cloud.fetch(`/deployments/${hanging.id}`, { method: 'DELETE' })
    const read = await events
    for (const { data } of read) conforms('DeploymentFollowResponse', data)
    expect(read.map(inShort)).toEqual(['state: queued', 'state: in_progress', 'log: one', 'log: two', 'app: a', 'app: b', 'state: running'])
    expect(read[4]!.data).toMatchObject({ app_name: 'a', version: 'v', region: 'aws.us-east-1a', actions: [{ name: 'x' }, { name: 'y' }] })
    expect(read[4]!.data.env_vars).toEqual({ FAKE_LOGS: '', FAKE_APPS: '' })
    expect(read.at(-1)!.data.deployment).toMatchObject({ id, status: 'running' })
    const apps = (await (await cloud.fetch('/apps?app_name=a')).json()) as { id: string }[]
    expect(apps.map((app) => app.id)).toEqual([read[4]!.data.id])
  })

  test('that runs already gets the apps and the state first, then the output so far', async () => {
    const { id } = await deployed(cloud, { env: { ...logs('one', 'two'), ...fakeApps({ late: ['x'] }) } })
    for (const query of ['', '?since=', '?since=1h'])
      expect((await first(await open(id, query), 4)).map(inShort)).toEqual(['app: late', 'state: running', 'log: one', 'log: two'])
  })

  test('gets many long lines complete and in order; the service reads them in small parts', async () => {
    const { id } = await deployed(cloud, { env: fakeApps({ long: ['x'] }) })
    await cloud.query("insert into app_events (deployment_id, kind, line) select $1, 'log', n || repeat('é', 30000) from generate_series(1, 40) n", [id])
    const part = await readEvents(cloud.db, { deployment: id }, 0)
    const logged = part.filter(({ kind }) => kind === 'log')
    expect(logged.length).toBeGreaterThan(1)
    expect(logged.length).toBeLessThan(7)
    const lines = (await first(await open(id), 43)).map(inShort).filter((line) => line.endsWith('é'))
    expect(lines).toEqual(Array.from({ length: 40 }, (_, index) => `log: ${index + 1}${'é'.repeat(30_000)}`))
  })

  test('gets no lines older than since, but all later ones', async () => {
    const { id } = await deployed(cloud, { env: { ...logs('old'), ...fakeApps({ since: ['x'] }) } })
    await cloud.query("update app_events set at = now() - interval '1 hour' where deployment_id = $1 and kind = 'log'", [id])
    const recent = readFrames(await open(id, '?since=5m'))
    const all = readFrames(await open(id, '?since=2h'))
    await cloud.query("with new as (insert into app_events (deployment_id, kind, line) values ($1, 'log', 'new')) select pg_notify('app_events', $1)", [id])
    await first(await open(id), 4)
    await cloud.fetch(`/deployments/${id}`, { method: 'DELETE' })
    expect((await recent).map(inShort)).toEqual(['app: since', 'state: running', 'log: new', 'state: stopped'])
    expect((await all).map(inShort)).toEqual(['app: since', 'state: running', 'log: old', 'log: new', 'state: stopped'])
  })

  test('whose build fails gets its output before the state, which has the reason and ends the stream', async () => {
    const { id } = await deploy(cloud, { env: { ...logs('line 1', 'line 2'), FAKE_FAIL: 'no such module' }, version: newId() })
    const live = await readFrames(await open(id))
    await reaches(cloud, id, 'failed')
    const late = await readFrames(await open(id))
    for (const read of [live, late]) {
      for (const { data } of read) conforms('DeploymentFollowResponse', data)
      expect(read.map(inShort).slice(-3)).toEqual(['log: line 1', 'log: line 2', 'state: failed'])
      expect(read.at(-1)!.data.deployment).toMatchObject({ id, status: 'failed', status_reason: 'no such module' })
    }
    expect(late.map(inShort)).toHaveLength(3)
    expect((await readFrames(await open(id, '?since=2999-01-01'))).map(inShort)).toEqual(['state: failed'])
  })
})

test('a follower has its place when its stream opens: what happens right after is a new event, however late the first is asked for', async () => {
  const { id } = await deployed(cloud, { env: fakeApps({ placed: ['x'] }) })
  const address = { host: cloud.paths.postgresSocket, user: 'cob', database: 'postgres' }
  const { db } = cloud
  await using notifier = listenForEvents(address, silentLog)
  const events = await follow<{ event: string }>({
    db,
    notifier,
    source: { deployment: id },
    since: undefined,
    lastEventId: undefined,
    signal: AbortSignal.timeout(10_000),
    initial: { state: 'queued', at: new Date() },
    isLast: (state) => state === 'stopped',
    show: ({ kind, state }) => (kind === 'deletion' ? undefined : { event: state ?? kind }),
  })
  await cloud.fetch(`/deployments/${id}`, { method: 'DELETE' })
  const read: string[] = []
  for await (const { event } of events) read.push(event)
  expect(read).toEqual(['app', 'running', 'log', 'stopped'])
})

describe('a follower that reconnects with Last-Event-ID', () => {
  test('continues after that event, and gets nothing twice', async () => {
    const { id } = await deployed(cloud, { env: { ...logs('one', 'two', 'three'), ...fakeApps({ back: ['x'] }) } })
    const before = await first(await open(id), 4)
    expect(before.map(({ id: event }) => event !== undefined)).toEqual([false, false, true, true])
    const rest = readFrames(await open(id, '', { 'last-event-id': before.at(-1)!.id! }))
    await cloud.fetch(`/deployments/${id}`, { method: 'DELETE' })
    expect((await rest).map(inShort)).toEqual(['log: three', 'app: back', 'state: running', 'state: stopped'])
  })

  test('from an id that does not exist yet gets what comes from now on', async () => {
    const { id } = await deployed(cloud, { env: fakeApps({ back: ['x'] }) })
    const rest = readFrames(await open(id, '', { 'last-event-id': '999999999999999' }))
    await cloud.fetch(`/deployments/${id}`, { method: 'DELETE' })
    expect((await rest).map(inShort).at(-1)).toBe('state: stopped')
  })

  test('starts from the beginning if the id is unknown', async () => {
    const { id } = await deploy(cloud, { env: { FAKE_FAIL: 'x' }, version: newId() })
    await readFrames(await open(id))
    expect((await readFrames(await open(id, '', { 'last-event-id': 'abc' }))).map(inShort)).toEqual(['log: installing', 'state: failed'])
  })
})
