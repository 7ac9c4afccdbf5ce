// Options that ask for nothing or for the default, and the fields that sessions report to newer clients.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startFastCloud, type FastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { CreateBrowser } from './contract.ts'
import { placeOf } from './place.ts'

let cloud: FastCloud
beforeAll(async () => void (cloud = await startFastCloud()))
afterAll(() => cloud[Symbol.asyncDispose]())
const create = (body: unknown) => cloud.send('POST', '/browsers', body)

describe('the options of a create', () => {
  test.each([
    { telemetry: null },
    { telemetry: {} },
    { telemetry: { enabled: false } },
    { telemetry: { enabled: false, browser: {} } },
    { extensions: [] },
    { proxy_id: '' },
    { proxy: { mode: 'direct' } },
    { proxy: { mode: 'default', id: null } },
    { profile: null },
    { profile: { id: '', save_changes: false } },
    { network: { allowed_hosts: null } },
    { vaults: [] },
    { gpu: false, video_memory: null },
    { region: 'us-east', memory: '4GiB' },
  ])('accept %j, which equals the default', async (option) => {
    expect((await create(option)).status).toBe(200)
  })

  test('accept null wherever they are optional', async () => {
    const names = Object.keys(CreateBrowser.shape)
    const session = await cloud.create({ ...Object.fromEntries(names.map((name) => [name, null])), viewport: { width: 300, height: 200, refresh_rate: null } })
    expect(session).toMatchObject({ headless: false, timeout_seconds: 60, viewport: { width: 300, height: 200 } })
  })
})

test('a session shows its region and its memory, and lists can be filtered by region', async () => {
  const { region, memory, session_id } = await cloud.create()
  expect([region, memory]).toEqual(['us-east', '2GiB'])
  expect((await cloud.create({ memory: '1GiB' })).memory).toBe('1GiB')
  const listed = async (query: string) => ((await (await cloud.fetch(`/browsers?${query}&limit=100`)).json()) as Session[]).map((one) => one.session_id)
  expect(await listed('region=us-east')).toContain(session_id)
  expect(await listed('region=eu-west')).toEqual([])
  expect((await cloud.fetch('/browsers?region=moon')).status).toBe(400)
})

test.each([
  [256, '1GiB'],
  [1024, '1GiB'],
  [4096, '2GiB'],
  [6144, '6GiB'],
  [65_536, '16GiB'],
])('an instance with %i MiB reports the memory %s, which every release of the SDKs knows', (mb, memory) => {
  expect(placeOf('us-east', mb).memory).toBe(memory)
})
