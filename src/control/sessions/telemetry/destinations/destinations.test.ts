// Destinations of telemetry: who may manage them, refused values, effects of a change, and how secrets are shown.
import { describe, expect, test } from 'vitest'
import { keyOf, written } from '../../../../../test/support/audit-log.ts'
import { fastCloud, startFastCloud } from '../../../../../test/support/fast-cloud.ts'
import { newId } from '../../../../base/ids.ts'
import { DEFAULT_PROJECT } from '../../../access/projects/resolve.ts'
import type { TelemetryDestination } from './contract.ts'

const PATH = '/telemetry/destinations'
const SECRET = 'canary-4f1d9a'

const cloud = fastCloud({ COB_WARM_BROWSERS: '0', COB_ALLOW_HOST_LOOPBACK: '1' })

const wanted = (more: object = {}) => ({ name: `d-${newId()}`, endpoint: 'http://127.0.0.1:4318', ...more })
async function create(more: object = {}): Promise<TelemetryDestination> {
  const answer = await cloud.send('POST', PATH, wanted(more))
  if (answer.status !== 201) throw new Error(`${answer.status}: ${await answer.text()}`)
  return (await answer.json()) as TelemetryDestination
}
const change = (id: string, changes: object) => cloud.send('PATCH', `${PATH}/${id}`, changes)
const remove = async (id: string) => (await cloud.fetch(`${PATH}/${id}`, { method: 'DELETE' })).status
const list = async (query: string) => (await (await cloud.fetch(`${PATH}?${query}`)).json()) as TelemetryDestination[]
const message = async (answer: Response) => ((await answer.json()) as { message: string }).message

test('a destination is created, found by id and by name, listed, changed and deleted', async () => {
  const made = await create({ name: 'Collector é', endpoint: 'http://127.0.0.1:4318/otlp/', description: 'ours', headers: { 'x-api-key': SECRET } })
  expect(made).toEqual({
    id: expect.stringMatching(/^[a-z][a-z0-9]{23}$/),
    name: 'Collector é',
    endpoint: 'http://127.0.0.1:4318/otlp',
    description: 'ours',
    headers: { 'X-Api-Key': '' },
    consecutive_failures: 0,
    created_at: expect.any(String),
    updated_at: expect.any(String),
  })
  for (const by of [made.id, 'Collector é', 'COLLECTOR É']) expect(await (await cloud.fetch(`${PATH}/${encodeURIComponent(by)}`)).json()).toEqual(made)
  const other = await create()
  expect(await list('name=collector%20e')).toEqual([made])
  expect(await list('query=4318/OTLP')).toEqual([made])
  expect(await list(`query=${made.id}`)).toEqual([made])
  const page = await cloud.fetch(`${PATH}?limit=1`)
  expect([await page.json(), page.headers.get('x-has-more'), page.headers.get('x-next-offset')]).toEqual([[other], 'true', '1'])
  const changed = (await (await change('collector é', { name: 'renamed', description: '' })).json()) as TelemetryDestination
  expect(changed).toMatchObject({ id: made.id, name: 'renamed', headers: made.headers, endpoint: made.endpoint })
  expect(changed).not.toHaveProperty('description')
  expect(Date.parse(changed.updated_at)).toBeGreaterThan(Date.parse(made.updated_at))
  expect(await (await change(made.id, {})).json()).toEqual(changed)
  expect([await remove('renamed'), await remove(made.id), (await change(made.id, { name: 'x' })).status]).toEqual([204, 404, 404])
  expect(await remove(other.id)).toBe(204)
})

test('a name is unique without case, also when it is changed to, and free again after a deletion', async () => {
  const [one, two] = [await create({ name: 'Unique' }), await create()]
  expect((await cloud.send('POST', PATH, wanted({ name: 'UNIQUE' }))).status).toBe(409)
  expect((await change(two.id, { name: 'unique' })).status).toBe(409)
  expect((await change(one.id, { name: 'unique' })).status).toBe(200)
  await remove(one.id)
  expect((await change(two.id, { name: 'unique' })).status).toBe(200)
  await remove(two.id)
})

const REFUSED: [object, string][] = [
  [{ endpoint: 'ftp://127.0.0.1' }, 'endpoint: must be an http or https URL'],
  [{ endpoint: '127.0.0.1:4318' }, 'endpoint: must be an http or https URL'],
  [{ endpoint: 'http://127.0.0.1/v1/logs' }, 'endpoint: must be without the path of a signal'],
  [{ endpoint: 'http://127.0.0.1/otlp/v1/traces/' }, 'endpoint: must be without the path of a signal'],
  [{ endpoint: 'http://127.0.0.1/V1/Metrics' }, 'endpoint: must be without the path of a signal'],
  [{ endpoint: 'http://127.0.0.1/?key=1' }, 'endpoint: must have no query'],
  [{ endpoint: 'http://127.0.0.1/?' }, 'endpoint: must have no query'],
  [{ endpoint: 'http://127.0.0.1/#a' }, 'endpoint: must have no query'],
  [{ endpoint: 'http://user:pass@127.0.0.1/' }, 'endpoint: must have no user'],
  [{ endpoint: 'http://169.254.169.254' }, 'endpoint: "169.254.169.254" is an address that is closed to callers'],
  [{ endpoint: 'http://0xa9fea9fe/' }, 'endpoint: "169.254.169.254" is an address that is closed to callers'],
  [{ endpoint: 'http://[::ffff:169.254.169.254]/' }, 'endpoint: "[::ffff:a9fe:a9fe]" is an address that is closed to callers'],
  [{ endpoint: 'http://no-such-host.invalid' }, 'endpoint: the address of "no-such-host.invalid" was not found'],
  [{ name: 'abcdefghijklmnopqrstuvwx' }, 'name: must not look like an id'],
  [{ name: ' ' }, 'name: '],
  [{ name: 'a\nb' }, 'name: must have no control characters'],
  [{ headers: { 'a b': '1' } }, 'headers.a b: '],
  [{ headers: { a: '1\r\nb: 2' } }, 'headers.a: must be printable ASCII'],
  [{ headers: { a: ' 1' } }, 'headers.a: must be printable ASCII'],
  [{ headers: { 'x-key': '1', 'X-KEY': '2' } }, 'headers.X-KEY: is the same header as "x-key"'],
  [{ headers: { __PROTO__: '1' } }, 'headers.__PROTO__: is not a possible name'],
  [{ headers: { host: 'elsewhere' } }, 'headers.host: cannot be set'],
  [{ headers: { 'content-LENGTH': '1' } }, 'headers.content-LENGTH: cannot be set'],
  [{ headers: { a: 'b'.repeat(8192) } }, 'headers: must have at most 8192 bytes'],
  [{ headers: { a: null } }, 'headers.a: '],
  [{ protocol: 'grpc' }, 'protocol'],
]
test.each(REFUSED.map(([wrong, problem]) => [JSON.stringify(wrong).slice(0, 80), wrong, problem] as const))(
  '%s is refused, and the field is named',
  async (_, wrong, problem) => {
    const answer = await cloud.send('POST', PATH, wanted(wrong))
    expect([answer.status, await message(answer)]).toEqual([400, expect.stringContaining(problem)])
  },
)

test('headers take 8192 bytes; a change is laid over them name by name, and null removes one', async () => {
  const { id } = await create({ headers: { authorization: 'b'.repeat(8192 - 'authorization'.length) } })
  const changed = async (headers: object) => {
    const answer = await change(id, { headers })
    return answer.status === 200 ? ((await answer.json()) as TelemetryDestination).headers : `${answer.status} ${await message(answer)}`
  }
  expect(await changed({ 'x-one': '1' })).toMatch(/^400 headers: must have at most 8192 bytes in all/)
  expect(await changed({ AUTHORIZATION: SECRET, 'x-one': '1', 'X-Two': '2' })).toEqual({ Authorization: '', 'X-One': '', 'X-Two': '' })
  expect(await changed({ 'X-ONE': null })).toEqual({ Authorization: '', 'X-Two': '' })
  expect(await changed({ 'x-two': null, 'X-two': '3' })).toMatch(/^400 headers.X-two: is the same header as "x-two"/)
  expect(await changed({ authorization: null, 'x-two': null, 'x-gone': null })).toEqual({})
  await remove(id)
})

test('another host gets the headers only of a caller who gives them again; another path gets them as before', async () => {
  const { id } = await create({ endpoint: 'http://127.0.0.1:9/a', headers: { authorization: SECRET, 'x-one': '1' } })
  const changed = async (changes: object) => {
    const answer = await change(id, changes)
    return answer.status === 200 ? ((await answer.json()) as TelemetryDestination) : `${answer.status} ${await message(answer)}`
  }
  expect(await changed({ endpoint: 'http://127.0.0.1:9/b' })).toMatchObject({ endpoint: 'http://127.0.0.1:9/b', headers: { Authorization: '', 'X-One': '' } })
  const moved = { endpoint: 'http://127.0.0.1:10/b' }
  expect(await changed(moved)).toMatch(/^400 headers: must say what becomes of Authorization, X-One at http:\/\/127.0.0.1:10/)
  expect(await changed({ ...moved, headers: { AUTHORIZATION: 'other' } })).toMatch(/^400 headers: must say what becomes of X-One/)
  expect(await changed({})).toMatchObject({ endpoint: 'http://127.0.0.1:9/b' })
  expect(await changed({ ...moved, headers: { AUTHORIZATION: 'other', 'x-one': null } })).toMatchObject({ ...moved, headers: { Authorization: '' } })
  await remove(id)
})

test('values of headers are in no answer, no log, no entry of the audit log, and not in the database as they are', async () => {
  const { id } = await create({ headers: { authorization: `Bearer ${SECRET}` } })
  const texts = [
    await (await cloud.fetch(`${PATH}/${id}`)).text(),
    await (await cloud.fetch(PATH)).text(),
    await (await change(id, { headers: { 'x-other': SECRET } })).text(),
    await written(cloud),
    JSON.stringify(cloud.errors),
    JSON.stringify(await cloud.query('select *, encode(headers, $1) as text from telemetry_destinations', ['escape'])),
  ]
  for (const text of texts) expect(text).not.toContain(SECRET)
  expect(texts[5]).toContain(id)
  await remove(id)
})

describe('a key of a project', () => {
  test('reads destinations, and manages none', async () => {
    const made = await create({ headers: { authorization: SECRET } })
    const { key } = await keyOf(cloud, DEFAULT_PROJECT)
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const ask = (method: string, below: string, body?: object) =>
      fetch(cloud.url + PATH + below, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    expect(await (await ask('GET', `/${made.id}`)).json()).toEqual(made)
    expect(await (await ask('GET', '')).json()).toContainEqual(made)
    const statuses = [await ask('POST', '', wanted()), await ask('PATCH', `/${made.id}`, { name: 'mine' }), await ask('DELETE', `/${made.id}`)]
    expect(statuses.map(({ status }) => status)).toEqual([403, 403, 403])
    expect(await (await cloud.fetch(`${PATH}/${made.id}`)).json()).toEqual(made)
    await remove(made.id)
  })
})

test('a service that may not connect to its own machine refuses such endpoints', async () => {
  await using other = await startFastCloud({ COB_WARM_BROWSERS: '0' })
  for (const endpoint of ['http://127.0.0.1:4318', 'http://localhost:4318', 'http://[::1]:4318', 'http://0.0.0.0', 'http://host.cob.internal:4318']) {
    const answer = await other.send('POST', PATH, wanted({ endpoint }))
    expect([endpoint, answer.status, await message(answer)]).toEqual([endpoint, 400, expect.stringMatching(/^endpoint: /)])
  }
})

test('the hundredth destination is the last one', async () => {
  const there = (await list('limit=100')).length
  const made = await Promise.all(Array.from({ length: 100 - there }, () => create()))
  const answer = await cloud.send('POST', PATH, wanted())
  expect([answer.status, await message(answer)]).toEqual([409, expect.stringContaining('the limit')])
  expect(await Promise.all(made.map(({ id }) => remove(id)))).toEqual(made.map(() => 204))
})
