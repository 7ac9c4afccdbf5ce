// The published SDK with a running service: API keys.
import Kernel from '@onkernel/sdk'
import type { CreatedAPIKey } from '@onkernel/sdk/resources/api-keys'
import { get, type IncomingMessage } from 'node:http'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { afterAll, describe, expect, test } from 'vitest'
import { within } from '../../src/base/wait.ts'
import { conforms } from '../support/contract.ts'
import { forTests } from '../support/for-tests.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const DAY_MS = 86_400_000
/** Streams end within this time after their key is deleted. */
const ENDS_MS = 5_000

const made: string[] = []
const cloud = forTests(() => shareCloud({ COB_WARM_BROWSERS: '0' }))
afterAll(async () => {
  for (const id of made) await cloud.client.apiKeys.delete(id).catch(() => {})
})

const keep = <T extends CreatedAPIKey>(key: T): T => {
  conforms('CreatedAPIKey', key)
  made.push(key.id)
  return key
}
const clientOf = ({ key }: CreatedAPIKey) => new Kernel({ apiKey: key, baseURL: cloud.url, maxRetries: 0 })

describe('client.apiKeys', () => {
  test('creates a key that works, and reads, renames and deletes it', async () => {
    const created = keep(await cloud.client.apiKeys.create({ name: 'staging', days_to_expire: 30 }))
    expect(Math.round((Date.parse(created.expires_at!) - Date.now()) / DAY_MS)).toBe(30)
    expect(await clientOf(created).browsers.list()).toMatchObject({ items: expect.anything() })
    const { key: _, ...shown } = created
    const read = await cloud.client.apiKeys.retrieve(created.id)
    conforms('APIKey', read)
    expect(read).toEqual(shown)
    const renamed = await cloud.client.apiKeys.update(created.id, { name: 'production' })
    conforms('APIKey', renamed)
    expect(renamed).toEqual({ ...shown, name: 'production' })
    await expect(clientOf(created).apiKeys.delete(created.id)).rejects.toMatchObject({ status: 400, error: { code: 'cannot_delete_current_key' } })
    await cloud.client.apiKeys.delete(created.id)
    await expect(cloud.client.apiKeys.retrieve(created.id)).rejects.toBeInstanceOf(Kernel.NotFoundError)
    expect((await cloud.client.apiKeys.retrieve(created.id, { include_deleted: true })).deleted_at).not.toBeNull()
  })

  test('lists them in pages, sorted and filtered', async () => {
    const mark = `list ${Date.now()}`
    for (const name of ['b', 'a', 'c']) keep(await cloud.client.apiKeys.create({ name: `${mark} ${name}` }))
    const names: string[] = []
    for await (const key of cloud.client.apiKeys.list({ query: mark, sort_by: 'name', sort_direction: 'desc', limit: 2 })) {
      conforms('APIKey', key)
      names.push(key.name.slice(mark.length + 1))
    }
    expect(names).toEqual(['c', 'b', 'a'])
    expect((await cloud.client.apiKeys.list({ name: `${mark} A`, status: 'all' })).items.map(({ name }) => name)).toEqual([`${mark} a`])
    expect((await cloud.client.apiKeys.list({ query: mark, status: 'deleted' })).items).toEqual([])
  })

  test('rotates a key', async () => {
    const old = keep(await cloud.client.apiKeys.create({ name: 'job' }))
    const next = keep(await cloud.client.apiKeys.rotate(old.id))
    expect([next.name, next.expires_at]).toEqual(['job', null])
    expect(Math.round((Date.parse((await cloud.client.apiKeys.retrieve(old.id)).expires_at!) - Date.now()) / DAY_MS)).toBe(7)
    const last = keep(await clientOf(next).apiKeys.rotate(next.id, { days_to_expire: 90, expire_in_days: 0 }))
    await expect
      .poll(
        () =>
          clientOf(next)
            .browsers.list()
            .then(
              () => 'open',
              (error: { status: number }) => error.status,
            ),
        { timeout: 10_000 },
      )
      .toBe(401)
    await expect(clientOf(last).apiKeys.rotate(last.id, { days_to_expire: 1, expire_in_days: 7 })).rejects.toMatchObject({ status: 400 })
  })
})

test('a log that is followed with a key ends with the key', async () => {
  const key = keep(await cloud.client.apiKeys.create({ name: 'follower' }))
  const { session_id: id } = await clientOf(key).browsers.create({ timeout_seconds: 600 })
  try {
    const url = `${cloud.url}/browsers/${id}/logs/stream?source=supervisor&supervisor_process=agent`
    const [response] = (await once(get(url, { headers: { authorization: `Bearer ${key.key}` } }), 'response')) as [IncomingMessage]
    expect(response.statusCode).toBe(200)
    const ended = text(response).then(
      () => 'ended',
      () => 'broken off',
    )
    await cloud.client.apiKeys.delete(key.id)
    expect(await within('the log to end', ENDS_MS, ended)).toBe('broken off')
    expect((await cloud.client.browsers.retrieve(id)).session_id).toBe(id)
  } finally {
    await cloud.remove(id)
  }
})
