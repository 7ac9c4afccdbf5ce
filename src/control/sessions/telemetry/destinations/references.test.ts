// The options of browsers that export telemetry: valid and refused values, answers, and that a destination in use cannot be deleted.
import { beforeAll, describe, expect, test } from 'vitest'
import { fastCloud, type Session } from '../../../../../test/support/fast-cloud.ts'
import { keepEvents } from '../../../../../test/support/kept-events.ts'
import { until } from '../../../../base/wait.ts'

const PATH = '/telemetry/destinations'
const SOON_MS = 20_000

/** Names of destinations. */
let one: string
let two: string
const make = async (name: string) => ((await (await cloud.send('POST', PATH, { name, endpoint: 'http://127.0.0.1:9' })).json()) as { id: string }).id
const cloud = fastCloud({ COB_WARM_BROWSERS: '0', COB_ALLOW_HOST_LOOPBACK: '1' })
beforeAll(async () => {
  ;[one, two] = [await make('one'), await make('two')]
})

const otlp = (destination: object) => ({ export: { otlp: { destination } } })
const to = (name: string, more: object = {}) => ({ enabled: true, ...otlp({ name }), ...more })
const update = (id: string, telemetry: object) => cloud.send('PATCH', `/browsers/${id}`, { telemetry })
const end = async (id: string) => void (await cloud.fetch(`/browsers/${id}`, { method: 'DELETE' }))
const message = async (answer: Response) => `${answer.status} ${((await answer.json()) as { message: string }).message}`
const shown = async (answer: Response) => ((await answer.json()) as Session).telemetry
const bound = (id: string) =>
  cloud.query<{ destination_id: string; from_ts: number; until_ts: number | null; is_kept: boolean }>(
    'select destination_id, from_ts::float8, until_ts::float8, is_kept from telemetry_exports where session_id = $1 order by id',
    [id],
  )

test('a destination may be named by id or name, without case; the answer has its id', async () => {
  for (const destination of [{ id: one }, { name: 'one' }, { name: 'ONE' }]) {
    const session = await cloud.create({ telemetry: { enabled: true, ...otlp(destination) } })
    expect(session.telemetry).toMatchObject({ export: { otlp: { enabled: true, destination: one } }, storage: { enabled: true } })
    expect(await bound(session.session_id)).toEqual([{ destination_id: one, from_ts: 0, until_ts: null, is_kept: true }])
    await end(session.session_id)
  }
  const without = await cloud.create({ telemetry: { enabled: true } })
  expect(without.telemetry).toMatchObject({ export: { otlp: { enabled: false } }, storage: { enabled: true } })
  expect(JSON.stringify(without.telemetry)).not.toContain('destination')
  await end(without.session_id)
})

test.each<[object, string]>([
  [to('none'), 'telemetry.export.otlp.destination.name: there is no such'],
  [{ enabled: true, ...otlp({ id: 'aaaaaaaaaaaaaaaaaaaaaaaa' }) }, 'telemetry.export.otlp.destination.id: there is no such'],
  [{ enabled: true, ...otlp({}) }, 'telemetry.export.otlp.destination: must have exactly one of id and name'],
  [{ enabled: true, ...otlp({ id: 'x', name: 'one' }) }, 'telemetry.export.otlp.destination: must have exactly one of id and name'],
  [otlp({ name: 'one' }), 'telemetry.export.otlp.destination: needs telemetry that is captured'],
  [{ enabled: false, ...otlp({ name: 'one' }) }, 'telemetry.export.otlp.destination: needs telemetry that is captured'],
  [{ enabled: true, export: { otlp: { enabled: false, destination: { name: 'one' } } } }, 'telemetry.export.otlp.enabled: cannot be false together'],
  [{ enabled: true, export: { otlp: { enabled: true } } }, 'telemetry.export.otlp.destination: must be given'],
  [{ enabled: true, storage: { enabled: false } }, 'telemetry.storage.enabled: can be false only with a destination'],
  [{ storage: { enabled: false } }, 'telemetry.storage.enabled: can be false only with a destination'],
  [{ enabled: true, export: { statsd: {} } }, 'telemetry.export'],
])('%j is refused in a create, and the field is named', async (telemetry, problem) => {
  const answer = await cloud.send('POST', '/browsers', { telemetry })
  expect(await message(answer)).toMatch(`400 ${problem}`)
})

test('what says nothing of an export is no export', async () => {
  for (const nothing of [{}, { otlp: {} }, { otlp: { enabled: false } }, null]) {
    const session = await cloud.create({ telemetry: { enabled: true, export: nothing, storage: { enabled: true } } })
    expect(session.telemetry).toMatchObject({ export: { otlp: { enabled: false } } })
    await end(session.session_id)
  }
})

describe('an update', () => {
  test('begins, moves and ends the export of a session, each from then on', async () => {
    const { session_id: id } = await cloud.create({ telemetry: { enabled: true } })
    expect(await shown(await update(id, otlp({ name: 'one' })))).toMatchObject({ export: { otlp: { enabled: true, destination: one } } })
    expect(await shown(await update(id, { browser: { console: { enabled: true } } }))).toMatchObject({
      browser: { console: { enabled: true } },
      export: { otlp: { enabled: true, destination: one } },
    })
    expect(await shown(await update(id, { enabled: true }))).toMatchObject({ browser: { console: { enabled: false } }, export: { otlp: { destination: one } } })
    expect(await shown(await update(id, otlp({ id: two })))).toMatchObject({ export: { otlp: { enabled: true, destination: two } } })
    expect(await shown(await update(id, { export: { otlp: { enabled: false } } }))).toMatchObject({ export: { otlp: { enabled: false } } })
    const times = await bound(id)
    expect(times).toMatchObject([{ destination_id: one }, { destination_id: two }])
    expect(times[0]!.from_ts).toBeGreaterThan(0)
    expect(times[1]!.from_ts).toBe(times[0]!.until_ts)
    expect(times[1]!.until_ts).toBeGreaterThan(times[1]!.from_ts)
    await end(id)
  })

  test('begins after all that is stored, also when the clock of the session is ahead', async () => {
    const { session_id: id } = await cloud.create({ telemetry: to('one') })
    const ahead = (Date.now() + 3600_000) * 1000
    await keepEvents(cloud, id, [['console_log', ahead, { text: 'of the first' }]])
    expect((await update(id, otlp({ name: 'two' }))).status).toBe(200)
    expect(await bound(id)).toMatchObject([
      { destination_id: one, until_ts: ahead + 1 },
      { destination_id: two, from_ts: ahead + 1 },
    ])
    await end(id)
  })

  test('cannot begin what nothing is captured for, nor change whether telemetry is stored', async () => {
    const { session_id: id } = await cloud.create({})
    expect(await message(await update(id, otlp({ name: 'one' })))).toMatch('400 telemetry.export.otlp.destination: needs telemetry that is captured')
    expect(await message(await update(id, to('one', { storage: { enabled: false } })))).toMatch('400 telemetry.storage.enabled: cannot be changed')
    expect(await message(await update(id, { enabled: true, export: { otlp: { enabled: true } } }))).toMatch(
      '400 telemetry.export.otlp.destination: must be given',
    )
    expect(await bound(id)).toEqual([])
    await end(id)
  })

  test('leaves a session that stores nothing without storage, also after capture was off', async () => {
    const { session_id: id, telemetry } = await cloud.create({ telemetry: to('one', { storage: { enabled: false } }) })
    expect(telemetry).toMatchObject({ storage: { enabled: false }, export: { otlp: { enabled: true, destination: one } } })
    expect(await message(await update(id, { storage: { enabled: true } }))).toMatch('400 telemetry.storage.enabled: cannot be changed')
    expect(await message(await update(id, { export: { otlp: { enabled: false } } }))).toMatch('400 telemetry.export.otlp.enabled: cannot be false')
    expect(await shown(await update(id, { enabled: false }))).toBeNull()
    expect(await shown(await update(id, { enabled: true }))).toMatchObject({
      storage: { enabled: false },
      export: { otlp: { enabled: true, destination: one } },
    })
    expect(await shown(await update(id, { storage: { enabled: false }, ...otlp({ name: 'two' }) }))).toMatchObject({ storage: { enabled: false } })
    expect((await bound(id)).map(({ is_kept: isKept, destination_id: where }) => [isKept, where])).toEqual([
      [false, one],
      [false, two],
    ])
    await end(id)
  })
})

test('a destination that a live session or a pool uses cannot be deleted; afterwards it can', async () => {
  const id = await make('in use')
  const remove = async () => cloud.fetch(`${PATH}/${id}`, { method: 'DELETE' })
  const session = await cloud.create({ telemetry: to('in use') })
  expect(await message(await remove())).toMatch('409 1 live sessions export telemetry to this destination')
  await end(session.session_id)
  const pool = (await (await cloud.send('POST', '/browser_pools', { size: 1, telemetry: to('in use') })).json()) as { id: string }
  expect(await message(await remove())).toMatch('409 1 browser pools export telemetry to this destination')
  await cloud.send('DELETE', `/browser_pools/${pool.id}`, { force: true })
  expect((await remove()).status).toBe(204)
})

test('a session that is made while its destination is deleted is refused by name, or keeps it', async () => {
  for (let round = 0; round < 5; round++) {
    const id = await make('racing')
    const [made, removed] = await Promise.all([
      cloud.send('POST', '/browsers', { telemetry: to('racing') }),
      cloud.fetch(`${PATH}/${id}`, { method: 'DELETE' }),
    ])
    if (made.status === 200) {
      expect(removed.status).toBe(409)
      await end(((await made.json()) as Session).session_id)
      expect((await cloud.fetch(`${PATH}/${id}`, { method: 'DELETE' })).status).toBe(204)
    } else {
      expect([made.status, removed.status]).toEqual([400, 204])
      expect(await message(made)).toMatch('400 telemetry.export.otlp.destination')
    }
  }
})

test('a pool that is made, or changed, while its destination is deleted is refused by name, or keeps it', async () => {
  const plain = (await (await cloud.send('POST', '/browser_pools', { size: 1 })).json()) as { id: string }
  for (let round = 0; round < 6; round++) {
    const id = await make('racing')
    const telemetry = to('racing')
    const change = () => cloud.send('PATCH', `/browser_pools/${plain.id}`, { telemetry })
    const [made, removed] = await Promise.all([
      round % 2 === 0 ? cloud.send('POST', '/browser_pools', { size: 1, telemetry }) : change(),
      cloud.fetch(`${PATH}/${id}`, { method: 'DELETE' }),
    ])
    if (made.status === 200) {
      expect(removed.status).toBe(409)
      if (round % 2 === 0) await cloud.send('DELETE', `/browser_pools/${((await made.json()) as { id: string }).id}`, { force: true })
      else expect((await cloud.send('PATCH', `/browser_pools/${plain.id}`, { telemetry: to('one') })).status).toBe(200)
      expect((await cloud.fetch(`${PATH}/${id}`, { method: 'DELETE' })).status).toBe(204)
    } else {
      expect([made.status, removed.status]).toEqual([400, 204])
      expect(await message(made)).toMatch('400 telemetry.export.otlp.destination')
    }
  }
  await cloud.send('DELETE', `/browser_pools/${plain.id}`, { force: true })
})

test('a pool is not stored with a destination that was deleted after it was looked up', async () => {
  const id = await make('gone')
  const { id: pool } = (await (await cloud.send('POST', '/browser_pools', { size: 1 })).json()) as { id: string }
  expect((await cloud.fetch(`${PATH}/${id}`, { method: 'DELETE' })).status).toBe(204)
  const resolved = JSON.stringify({ extension_ids: [], destination_id: id })
  await expect(cloud.query('update browser_pools set resolved = $2 where id = $1', [pool, resolved])).rejects.toThrow('the destination is gone')
  await cloud.send('DELETE', `/browser_pools/${pool}`, { force: true })
})

test('callers of a pool export as the pool says, or as they say, each for their own time', async () => {
  const pool = (await (await cloud.send('POST', '/browser_pools', { size: 1, telemetry: to('one') })).json()) as { id: string }
  const acquire = async (telemetry?: object) => {
    const answer = await cloud.send('POST', `/browser_pools/${pool.id}/acquire`, { acquire_timeout_seconds: 20, ...(telemetry && { telemetry }) })
    if (answer.status !== 200) throw new Error(await message(answer))
    return (await answer.json()) as Session
  }
  const release = async ({ session_id }: Session) => {
    expect((await cloud.send('POST', `/browser_pools/${pool.id}/release`, { session_id, reuse: true })).status).toBe(204)
    await until('it is back', SOON_MS, async () => (await cloud.query('select from browsers where id = $1 and state = $2', [session_id, 'warm'])).length === 1)
  }
  // A destination in use may be renamed.
  expect((await cloud.send('PATCH', `${PATH}/${one}`, { name: 'renamed' })).status).toBe(200)
  const first = await acquire()
  expect(first.telemetry).toMatchObject({ export: { otlp: { enabled: true, destination: one } } })
  await release(first)
  const second = await acquire({ ...otlp({ name: 'two' }), storage: { enabled: false } })
  expect(second).toMatchObject({ session_id: first.session_id, telemetry: { export: { otlp: { destination: two } }, storage: { enabled: false } } })
  await release(second)
  const third = await acquire({ export: { otlp: { enabled: false } } })
  expect(third.telemetry).toMatchObject({ export: { otlp: { enabled: false } }, storage: { enabled: true } })
  const fault = await cloud.send('POST', `/browser_pools/${pool.id}/acquire`, { telemetry: { enabled: false, ...otlp({ name: 'two' }) } })
  expect(await message(fault)).toMatch('400 telemetry.export.otlp.destination: needs telemetry that is captured')
  const times = await bound(first.session_id)
  expect(times).toMatchObject([
    { destination_id: one, from_ts: 0, is_kept: true },
    { destination_id: two, is_kept: false },
  ])
  expect(times[1]!.from_ts).toBeGreaterThan(times[0]!.until_ts!)
  expect(times[1]!.until_ts).toBeGreaterThan(times[1]!.from_ts)
  await cloud.send('DELETE', `/browser_pools/${pool.id}`, { force: true })
  expect((await cloud.send('PATCH', `${PATH}/${one}`, { name: 'one' })).status).toBe(200)
})
