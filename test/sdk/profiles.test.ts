// The published SDK with a running service and a real Chromium: profiles, the data that sessions find in them, and their versions.
import { ConflictError, NotFoundError } from '@onkernel/sdk'
import { zstdDecompressSync } from 'node:zlib'
import { beforeAll, expect, test } from 'vitest'
import type { SessionProfile, Version } from '../../src/control/sessions/profiles/contract.ts'
import { startCloud } from '../support/cloud.ts'
import { conforms } from '../support/contract.ts'
import { forTests } from '../support/for-tests.ts'
import { servePages } from '../support/pages.ts'

const MAX_MB = 8
const MIB = 1024 * 1024

const pages = forTests(() => servePages())
const cloud = forTests(() => startCloud({ COB_WARM_BROWSERS: '1', COB_PROFILE_MAX_MB: String(MAX_MB) }))
beforeAll(async () => {
  await cloud.warm()
})

const all = async <T>(list: AsyncIterable<T>): Promise<T[]> => {
  const items: T[] = []
  for await (const item of list) items.push(item)
  return items
}
const inside = async (id: string, code: string): Promise<unknown> => {
  const { success, result, error } = await cloud.client.browsers.playwright.execute(id, { code })
  if (!success) throw new Error(String(error))
  return result
}
const PAGE = 'chooser.html'
/** Stores a mark in a session: local storage, a session cookie and a lasting cookie. */
const store = (id: string, mark: string) =>
  inside(
    id,
    `await page.goto('${pages.url(PAGE)}')
     await page.evaluate((mark) => { localStorage.mark = mark; document.cookie = 'of-the-session=' + mark; document.cookie = 'lasting=' + mark + '; max-age=9999' }, '${mark}')`,
  )
/** Reads the mark back, and the addresses of the tabs. */
const recall = (id: string) =>
  inside(
    id,
    `const tabs = context.pages().map((one) => one.url())
     const page2 = await context.newPage()
     await page2.goto('${pages.url(PAGE)}')
     const found = await page2.evaluate(() => ({ local: localStorage.mark, cookies: document.cookie.split('; ').sort() }))
     await page2.close()
     return { tabs, ...found }`,
  )
const versionsOf = async (name: string) => (await (await cloud.fetch(`/profiles/${name}/versions`)).json()) as Version[]

test('profiles are created, listed, found, renamed and deleted', async () => {
  const { profiles } = cloud.client
  const made = await profiles.create({ name: 'shopper' })
  conforms('Profile', made)
  await expect(profiles.create({ name: 'shopper' })).rejects.toBeInstanceOf(ConflictError)
  const others = await Promise.all(['a.1', 'a_2', 'a-3'].map((name) => profiles.create({ name })))
  const unnamed = await profiles.create({})
  conforms('Profile', unnamed)
  const listed = await all(profiles.list({ limit: 2 }))
  conforms('Profile', listed, true)
  expect(listed.length).toBe(5)
  expect((await all(profiles.list({ query: 'A' }))).map(({ name }) => name).toSorted()).toEqual(['a-3', 'a.1', 'a_2'])
  expect((await all(profiles.list({ name: 'SHOPPER' }))).map(({ id }) => id)).toEqual([made.id])
  for (const called of [made.id, 'shopper']) expect(await profiles.retrieve(called)).toEqual(made)
  const renamed = await profiles.update('shopper', { name: 'buyer' })
  conforms('Profile', renamed)
  expect(renamed).toMatchObject({ id: made.id, name: 'buyer' })
  await expect(profiles.update('a.1', { name: 'buyer' })).rejects.toBeInstanceOf(ConflictError)
  for (const { id } of [made, unnamed, ...others]) await profiles.delete(id)
  await expect(profiles.delete('buyer')).rejects.toBeInstanceOf(NotFoundError)
})

test('a session finds what the one before has left; its tabs, too, unless it has a start_url', async () => {
  const { client } = cloud
  const profile = await client.profiles.create({ name: 'returning' })
  expect((await client.profiles.download('returning')).status).toBe(202)
  const first = await client.browsers.create({ profile: { name: 'returning', save_changes: true } })
  conforms('BrowserCreateResponse', first)
  expect(first.profile).toMatchObject({ id: profile.id, name: 'returning' })
  await store(first.session_id, 'one')
  await client.browsers.deleteByID(first.session_id)

  const second = await client.browsers.create({ profile: { id: profile.id } })
  const stored = { local: 'one', cookies: ['lasting=one', 'of-the-session=one'] }
  expect(await recall(second.session_id)).toEqual({ ...stored, tabs: [pages.url(PAGE)] })
  expect((await all(client.browsers.list({ query: profile.id }))).map(({ session_id }) => session_id)).toEqual([second.session_id])
  await client.browsers.deleteByID(second.session_id)

  const third = await client.browsers.create({
    profile: { name: 'returning' },
    start_url: 'about:blank',
    kiosk_mode: true,
    viewport: { width: 1024, height: 768 },
  })
  expect(await recall(third.session_id)).toEqual({ ...stored, tabs: ['about:blank'] })
  // The create answers before the window with the profile has been drawn.
  await expect.poll(() => inside(third.session_id, 'return await page.evaluate(() => [innerWidth, innerHeight])'), { timeout: 30_000 }).toEqual([1024, 768])
  await client.browsers.deleteByID(third.session_id)

  const [version, ...others] = await versionsOf('returning')
  expect([version, others]).toMatchObject([
    { session_id: first.session_id, whole: true, current: true, chromium: expect.stringMatching(/^\d+\.\d+\.\d+\.\d+$/) as string },
    [],
  ])
  const packed = Buffer.from(await (await client.profiles.download('returning')).arrayBuffer())
  const tar = Buffer.from(await (await client.profiles.download('returning', { format: 'tar' })).arrayBuffer())
  expect([packed.length, zstdDecompressSync(packed).equals(tar), tar.includes('Cookies')]).toEqual([version!.bytes, true, true])
  const ended = await client.browsers.retrieve(first.session_id, { include_deleted: true })
  conforms('BrowserRetrieveResponse', ended)
  expect((ended.profile as SessionProfile).save).toEqual({ saved: 'whole', version_id: version!.id, message: 'saved' })
})

test('a running session gets one later, and it is saved by a timeout and by a clean stop of the service', async () => {
  const { client } = cloud
  await client.profiles.create({ name: 'later' })
  const first = await client.browsers.create()
  const changed = await client.browsers.update(first.session_id, { profile: { name: 'later', save_changes: true } })
  conforms('BrowserUpdateResponse', changed)
  await store(first.session_id, 'one')
  await expect(client.browsers.update(first.session_id, { profile: { name: 'later' } })).rejects.toBeInstanceOf(ConflictError)
  await cloud.stop()
  await cloud.start()
  expect((await versionsOf('later')).map(({ session_id, whole }) => [session_id, whole])).toEqual([[first.session_id, true]])

  const second = await client.browsers.create({ timeout_seconds: 300 })
  await client.browsers.update(second.session_id, { profile: { name: 'later', save_changes: true } })
  expect(await recall(second.session_id)).toMatchObject({ local: 'one', tabs: [pages.url(PAGE)] })
  await store(second.session_id, 'two')
  await cloud.kill()
  await cloud.start()
  // The session survived the kill. The service that adopted it saves its profile.
  await client.browsers.deleteByID(second.session_id)
  const third = await client.browsers.create({ profile: { name: 'later' } })
  expect(await recall(third.session_id)).toMatchObject({ local: 'two' })
  await client.browsers.deleteByID(third.session_id)

  const [newest, oldest] = await versionsOf('later')
  expect([newest!.current, oldest!.session_id]).toEqual([true, first.session_id])
  await cloud.fetch(`/profiles/later/versions/${oldest!.id}/restore`, { method: 'POST' })
  const fourth = await client.browsers.create({ profile: { name: 'later' } })
  expect(await recall(fourth.session_id)).toMatchObject({ local: 'one' })
  await client.browsers.deleteByID(fourth.session_id)
})

test('a profile above the limit is not saved, its session says so and ends, and the state before is what sessions load', async () => {
  const { client } = cloud
  await client.profiles.create({ name: 'large' })
  const first = await client.browsers.create({ profile: { name: 'large', save_changes: true } })
  await store(first.session_id, 'small')
  await cloud.remove(first.session_id)
  const [before] = await versionsOf('large')
  const ended = async (fill: string) => {
    const { session_id: id } = await client.browsers.create({ profile: { name: 'large', save_changes: true } })
    const { exit_code } = await client.browsers.process.exec(id, { command: 'sh', args: ['-c', fill], cwd: '/home/kernel/user-data/Profile 1' })
    expect(exit_code).toBe(0)
    await cloud.remove(id)
    return ((await client.browsers.retrieve(id, { include_deleted: true })).profile as SessionProfile).save
  }
  // Random bytes do not compress; a sparse file takes almost no space in an archive.
  expect(await ended(`head -c ${MAX_MB * MIB} /dev/urandom > large`)).toEqual({
    saved: 'not',
    message: `not saved: the profile is too large, its archive has more than ${MAX_MB * MIB} bytes, the limit (COB_PROFILE_MAX_MB)`,
  })
  expect(await ended(`truncate -s ${8 * MAX_MB}M large`)).toEqual({
    saved: 'not',
    message: expect.stringMatching(/^not saved: the profile is too large, its files have \d+ bytes, more than 67108864, which is 8 times the limit/) as string,
  })
  expect(await versionsOf('large')).toEqual([before])
  const last = await client.browsers.create({ profile: { name: 'large' } })
  expect(await recall(last.session_id)).toMatchObject({ local: 'small' })
  await client.browsers.deleteByID(last.session_id)
})
