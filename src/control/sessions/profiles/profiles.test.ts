// Profiles over fake browsers, whose profile is only a clipboard: created, found, saved, loaded, versions.
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { fastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { until } from '../../../base/wait.ts'
import { fakeDriver } from '../../../instances/fake/fake.ts'
import { CHROMIUM } from '../../../instances/fake/profile.ts'
import type { Profile, SessionProfile, Version } from './contract.ts'

const NOTICE_MS = 20_000

const cloud = fastCloud({ COB_PROFILE_MAX_MB: '2' })

const answer = async <T>(response: Response): Promise<T & { code?: string; message?: string; status: number }> =>
  ({ ...(response.status === 204 ? {} : ((await response.json()) as object)), status: response.status }) as never
const make = async (name?: string) => answer<Profile>(await cloud.send('POST', '/profiles', name === undefined ? {} : { name }))
const get = async (idOrName: string) => answer<Profile>(await cloud.fetch(`/profiles/${idOrName}`))
const versions = async (idOrName: string) => (await (await cloud.fetch(`/profiles/${idOrName}/versions`)).json()) as Version[]
const newName = () => `p-${newId()}`

const remember = (session: Session, text: string) => cloud.send('POST', `/browsers/${session.session_id}/computer/clipboard/write`, { text })
const remembered = async (session: Session) =>
  ((await (await cloud.fetch(`/browsers/${session.session_id}/computer/clipboard/read`, { method: 'POST' })).json()) as { text: string }).text
const end = async ({ session_id }: Session, wait = false) =>
  (await cloud.fetch(`/browsers/${session_id}${wait ? '?wait=true' : ''}`, { method: 'DELETE' })).status
const profileOf = async ({ session_id }: Session) =>
  ((await (await cloud.fetch(`/browsers/${session_id}?include_deleted=true`)).json()) as { profile: SessionProfile }).profile
/** A session with the profile, saved at its end. */
const writer = (name: string, more: object = {}) => cloud.create({ profile: { name, save_changes: true }, ...more })
/** Saves a text into a profile. */
async function save(name: string, text: string): Promise<Session> {
  const session = await writer(name)
  await remember(session, text)
  expect(await end(session, true)).toBe(204)
  return session
}
/** The clipboard of a new session with the profile. */
async function load(name: string): Promise<string> {
  const session = await cloud.create({ profile: { name } })
  try {
    return await remembered(session)
  } finally {
    await end(session)
  }
}

describe('profiles', () => {
  test('may have no name; names are unique in their project, with case', async () => {
    const [one, two] = [await make(), await make()]
    expect([one.status, two.status, one.id === two.id, 'name' in one]).toEqual([201, 201, false, false])
    const name = newName()
    await make(name)
    expect(await make(name)).toMatchObject({ status: 409, code: 'conflict' })
    expect((await make(name.toUpperCase())).status).toBe(201)
    const third = await make(newName())
    expect((await cloud.send('PATCH', `/profiles/${third.id}`, { name })).status).toBe(409)
  })

  test.each(['', 'a b', 'a/b', 'ü', 'x'.repeat(256), newId()])('are not named "%s"', async (name) => {
    expect(await make(name)).toMatchObject({ status: 400, message: expect.stringContaining('name') as string })
  })
})

describe('a session with a profile', () => {
  test('finds what the last one has saved, also by an id; its answer shows the profile; nothing else is changed by reading', async () => {
    const name = newName()
    const made = await make(name)
    // Nothing has been saved yet, so nothing is loaded.
    const first = await writer(name, { start_url: 'about:blank' })
    expect([first.profile, first.profile_save_changes, await remembered(first)]).toMatchObject([
      { id: made.id, name, created_at: made.created_at, last_used_at: expect.any(String) as string },
      true,
      '',
    ])
    await remember(first, 'a cookie')
    await end(first)
    const second = await cloud.create({ profile: { id: made.id } })
    expect([await remembered(second), second.profile_save_changes]).toEqual(['a cookie', false])
    const found = (await (await cloud.fetch(`/browsers?query=${made.id}`)).json()) as Session[]
    expect(found.map(({ session_id }) => session_id)).toEqual([second.session_id])
    await remember(second, 'not saved')
    await end(second, true)
    expect([await load(name), (await versions(name)).length]).toEqual(['a cookie', 1])
    expect((await get(name)).updated_at).toBeDefined()
    expect((await profileOf(first)).save).toMatchObject({ saved: 'whole', message: 'saved' })
    expect(await profileOf(second)).not.toHaveProperty('save')
  })

  test.each([
    [{ profile: { name: 'no-such' } }, 'profile.name'],
    [{ profile: { id: newId() } }, 'profile.id'],
    [{ profile: { id: newId(), name: 'both' } }, 'profile.name'],
    [{ profile: { save_changes: true } }, 'profile.save_changes'],
    [{ profile_save_changes: true }, 'profile_save_changes'],
    [{ profile: { name: 'any', mode: 1 } }, 'profile.mode'],
  ])('is refused with %j, and the error names the field', async (body, field) => {
    const { status, message } = await answer(await cloud.send('POST', '/browsers', body))
    expect([status, message!.split(': ')[0]]).toEqual([400, field])
  })

  test('is saved with profile_save_changes, too, as newer clients say it', async () => {
    const name = newName()
    await make(name)
    const session = await cloud.create({ profile: { name }, profile_save_changes: true })
    expect(session.profile_save_changes).toBe(true)
    await remember(session, 'as said')
    await end(session)
    expect(await load(name)).toBe('as said')
    const both = { profile: { name, save_changes: false }, profile_save_changes: true }
    expect((await cloud.send('POST', '/browsers', both)).status).toBe(400)
  })

  test('gets one later, if it has none', async () => {
    const name = newName()
    const made = await make(name)
    await save(name, 'from before')
    const session = await cloud.create()
    const patch = (body: object) => cloud.send('PATCH', `/browsers/${session.session_id}`, body)
    expect(await answer(await patch({ profile_save_changes: true }))).toMatchObject({ status: 400 })
    const changed = await answer<Session>(await patch({ profile: { name, save_changes: true } }))
    expect([changed.status, changed.profile, changed.profile_save_changes, await remembered(session)]).toMatchObject([
      200,
      { id: made.id },
      true,
      'from before',
    ])
    expect(await answer(await patch({ profile: { name } }))).toMatchObject({ status: 409, code: 'conflict' })
    // An update may change whether the profile is saved.
    expect(await answer<Session>(await patch({ profile_save_changes: false }))).toMatchObject({ status: 200, profile_save_changes: false })
    await patch({ profile_save_changes: true })
    await remember(session, 'and after')
    await end(session)
    expect(await load(name)).toBe('and after')
  })

  test('is not saved when its browser has ended before, and its end says so', async () => {
    const name = newName()
    await make(name)
    const session = await writer(name)
    await (await fakeDriver(cloud.paths).adopt(session.session_id))![Symbol.asyncDispose]()
    await until('its end', NOTICE_MS, async () => (await profileOf(session)).save, { everyMs: 50 })
    expect([(await profileOf(session)).save, await versions(name)]).toMatchObject([
      { saved: 'not', message: 'not saved: the browser had ended before (crashed)' },
      [],
    ])
  })
})

describe('a create that names a profile that is being saved', () => {
  test('waits for it: a caller reads what it has written', async () => {
    const name = newName()
    await make(name)
    const session = await writer(name)
    await remember(session, 'slow as ever')
    await end(session)
    // The delete is answered before the end of the save, which takes two seconds.
    expect((await get(name)).saving).toBe(true)
    expect(await load(name)).toBe('slow as ever')
    expect(await get(name)).not.toHaveProperty('saving')
  })
})

describe('what is not a whole archive', () => {
  test.each([
    ['break', 'the browser’s profile cannot be read'],
    ['junk', 'it is not an archive'],
    ['refuse', 'its disk is broken'],
  ])('(%s) becomes no version, and the end of the session says why', async (text, why) => {
    const name = newName()
    await make(name)
    await save(name, 'good')
    const session = await writer(name)
    await remember(session, `${text} this`)
    await end(session)
    await until('the end', NOTICE_MS, async () => (await profileOf(session)).save, { everyMs: 50 })
    const { save: saved } = await profileOf(session)
    expect([saved!.saved, saved!.message]).toEqual(['not', expect.stringContaining(why.replace('’', "'"))])
    expect([await load(name), (await versions(name)).length]).toEqual(['good', 1])
  })

  test('is said of one that Chromium had not closed: it is saved in part', async () => {
    const name = newName()
    await make(name)
    const session = await save(name, 'dead but there')
    expect((await profileOf(session)).save).toMatchObject({ saved: 'in_part' })
    expect([await versions(name), await load(name)]).toMatchObject([[{ whole: false }], 'dead but there'])
  })

  test('ends the session that was to load it, with the reason', async () => {
    const name = newName()
    await make(name)
    await save(name, 'newer than all')
    const live = async () => (await cloud.query(`select id from browsers where state = 'running'`)).length
    const before = await live()
    expect(await answer(await cloud.send('POST', '/browsers', { profile: { name, save_changes: true } }))).toMatchObject({
      status: 409,
      message: expect.stringContaining('saved by Chromium 157') as string,
    })
    expect([await live(), (await versions(name)).length]).toEqual([before, 1])
    // A running session continues without its deleted profile, and may get another one.
    const session = await cloud.create()
    await remember(session, 'mine')
    expect((await cloud.send('PATCH', `/browsers/${session.session_id}`, { profile: { name } })).status).toBe(409)
    const other = newName()
    await make(other)
    expect([await remembered(session), (await cloud.send('PATCH', `/browsers/${session.session_id}`, { profile: { name: other } })).status]).toEqual([
      'mine',
      200,
    ])
    await end(session)
  })
})

describe('versions', () => {
  test('are made by each save; the last ten are kept, and sessions load the one that is restored', async () => {
    const name = newName()
    await make(name)
    for (let at = 1; at <= 12; at++) await save(name, `state ${at}`)
    const kept = await versions(name)
    expect([kept.length, kept.map(({ current }) => current)]).toEqual([10, [true, ...Array.from({ length: 9 }, () => false)]])
    const packed = Buffer.from(await (await cloud.fetch(`/profiles/${name}/download`)).arrayBuffer())
    const sha256 = createHash('sha256').update(packed).digest('hex')
    expect(kept[0]).toMatchObject({ bytes: packed.length, sha256, chromium: CHROMIUM, whole: true, current: true })
    expect((await cloud.fetch(`/profiles/${name}/download?format=zip`)).status).toBe(400)
    const rows = await cloud.query<{ object: string }>(`select object from profile_versions v join profiles p on p.id = v.profile_id where p.name = $1`, [name])
    expect(rows.every(({ object }) => existsSync(join(cloud.paths.objects, object)))).toBe(true)
    const restored = await answer<Profile>(await cloud.fetch(`/profiles/${name}/versions/${kept[9]!.id}/restore`, { method: 'POST' }))
    expect([restored.status, await load(name), (await versions(name)).find(({ current }) => current)!.id]).toEqual([200, 'state 3', kept[9]!.id])
    // After a restore, the next save becomes the current version, and only the oldest version is lost.
    await save(name, 'after all')
    expect([await load(name), (await versions(name)).slice(1).map(({ id }) => id)]).toEqual(['after all', kept.slice(0, 9).map(({ id }) => id)])
    expect((await cloud.fetch(`/profiles/${name}/versions/${newId()}/restore`, { method: 'POST' })).status).toBe(404)
    const other = newName()
    await make(other)
    expect((await cloud.fetch(`/profiles/${other}/versions/${kept[0]!.id}/restore`, { method: 'POST' })).status).toBe(404)
  })

  test('of two writers: the last one wins, the state of the first is a version, and both ends say so', async () => {
    const name = newName()
    await make(name)
    const [one, two] = [await writer(name), await writer(name)]
    await remember(one, 'by one')
    await remember(two, 'by two')
    await end(one, true)
    await end(two, true)
    expect([await load(name), (await versions(name)).map(({ session_id }) => session_id)]).toEqual(['by two', [two.session_id, one.session_id]])
    const [first, second] = [(await profileOf(one)).save!, (await profileOf(two)).save!]
    expect(first.message).toContain(`session ${two.session_id} has saved the profile after it, and this state is kept as version ${first.version_id}`)
    expect(second.message).toContain(`session ${one.session_id} had saved the profile meanwhile, and that state is kept as version ${first.version_id}`)
    // Saves one after the other are no conflict, nor is a restore between them.
    const third = await save(name, 'by three')
    expect((await profileOf(third)).save!.message).toBe('saved')
    const fourth = await writer(name)
    await cloud.fetch(`/profiles/${name}/versions/${first.version_id}/restore`, { method: 'POST' })
    const fifth = await writer(name)
    await end(fourth, true)
    expect((await profileOf(fourth)).save!.message).toBe('saved')
    await end(fifth, true)
    expect((await profileOf(fifth)).save!.message).toContain(fourth.session_id)
  })

  test('go with their profile, also their objects; a session that used it saves nothing', async () => {
    const name = newName()
    const made = await make(name)
    await save(name, 'gone soon')
    const [{ object } = { object: '' }] = await cloud.query<{ object: string }>('select object from profile_versions where profile_id = $1', [made.id])
    const session = await writer(name)
    expect([existsSync(join(cloud.paths.objects, object)), (await cloud.fetch(`/profiles/${name}`, { method: 'DELETE' })).status]).toEqual([true, 204])
    expect(existsSync(join(cloud.paths.objects, object))).toBe(false)
    await make(name)
    await end(session, true)
    expect([await profileOf(session), await versions(name)]).toMatchObject([
      { id: made.id, save: { saved: 'not', message: expect.stringContaining('deleted') as string } },
      [],
    ])
    expect(await cloud.query('select 1 from profile_versions where profile_id = $1', [made.id])).toEqual([])
  })
})
