// Saving at the end of a session while the service is killed, the object store or the database is away, or another service saves, too.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { computer } from '../../../agent/computer/contract.ts'
import { readArchive } from '../../../agent/profile/archive.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog } from '../../../base/log.ts'
import { Unavailable } from '../../../base/unavailable.ts'
import { until, within } from '../../../base/wait.ts'
import { call } from '../../../http/client.ts'
import { alone, type Leases } from '../../../store/leases.ts'
import { sharing } from '../../../../test/support/leases.ts'
import { fileObjects } from '../../../store/objects-files.ts'
import type { Objects } from '../../../store/objects.ts'
import { findMissing, removeUnnamed } from '../../../store/sweep.ts'
import type { EndStep } from '../browsers/end-step.ts'
import { removeInstance } from '../browsers/fleet/endings.ts'
import { Registry } from '../browsers/fleet/registry.ts'
import { counted, db, driver, HOST, makeFleet, NOTICE_MS, owner, paths, row, runningIds, signal, sweptAway } from '../browsers/fleet.suite.ts'
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import { makeProfiles } from './profiles.ts'
import { attachProfile, currentVersion, insertProfile, profileObjects, savingSessions, versionsOf } from './rows.ts'
import { Saves } from './saves.ts'

const HOUR_MS = 3600_000
const MAX_BYTES = 1024 * 1024

afterEach(async () => {
  await db.deleteFrom('profiles').execute()
  rmSync(join(paths.root, 'objects', 'profiles'), { recursive: true, force: true })
})

const store = () => fileObjects(join(paths.root, 'objects'))

interface Over {
  objects?: Objects
  through?: typeof db
  giveUpMs?: number
  leases?: Leases
  /** Replaces the step of the save. */
  step?: (own: EndStep) => EndStep
}

/** A service that saves profiles. */
async function service({ objects = store(), through = db, giveUpMs, leases = alone(newId()), step = (own) => own }: Over = {}) {
  const registry = new Registry()
  const agentOf = (id: string) => (registry.runs(id) ? registry.get(id)?.agent : undefined)
  const saves = new Saves({
    db: through,
    objects,
    scope: HOST,
    leases,
    agentOf,
    maxBytes: MAX_BYTES,
    ...(giveUpMs !== undefined && { giveUpMs }),
    log: silentLog,
  })
  const made = makeFleet(0, driver, through, undefined, { leases, registry, endSteps: () => [step(saves.step), removeInstance(registry)] })
  await made.fleet.adopt()
  await saves.adopt()
  await made.fleet.endLost()
  return { ...made, saves, registry }
}

/** A session whose profile is saved at its end, with this text in its clipboard. */
async function session({ fleet, saves }: Awaited<ReturnType<typeof service>>, text: string, profile?: string) {
  const id = await fleet.start(owner(), signal)
  const of = profile ?? (await insertProfile(db, DEFAULT_PROJECT, undefined)).id
  saves.add(id)
  await attachProfile(db, id, { profile: of, version: undefined, save: true, base: 0 })
  await call(fleet.registry.endpointOf(id)!, computer.writeClipboard, { body: { text } }, { signal })
  return { id, profile: of }
}

const textOf = async (profile: string) => {
  const version = await currentVersion(db, profile)
  if (!version) return undefined
  const parts: Buffer[] = []
  const file = (path: string) => ({ write: (piece: Buffer) => void (path === 'Text' && parts.push(piece)), end() {} })
  await readArchive((await store().get(version.object))!.content, { directory() {}, file }, { keepTabs: true, maxBytes: MAX_BYTES }, signal)
  return Buffer.concat(parts).toString()
}
const endOf = async (id: string) => (await row(id)).profile_end

/** Work during which the service is killed: it never ends. */
function dying() {
  const [reached, buried] = [Promise.withResolvers<void>(), Promise.withResolvers<never>()]
  buried.promise.catch(() => {})
  return {
    reached: () => within('the death', NOTICE_MS, reached.promise),
    die: () => (reached.resolve(), buried.promise),
    bury: () => buried.reject(new Error('buried')),
  }
}

async function objectsOf(): Promise<string[]> {
  const keys: string[] = []
  for await (const { key } of store().list('profiles', signal)) keys.push(key)
  return keys
}

describe('a service that is killed while it saves', () => {
  test.each(['before the object', 'in the middle of the object', 'before the row', 'after the row'])(
    '%s: the next one saves, while the agent lives; there is one version, and one object',
    async (when) => {
      const death = dying()
      const objects = store()
      const put: Objects['put'] = async (key, content, limits, limit) => {
        if (when === 'before the object') return death.die()
        if (when === 'in the middle of the object') for await (const _ of content) return death.die()
        const stored = await objects.put(key, content, limits, limit)
        return when === 'before the row' ? death.die() : stored
      }
      const step = (own: EndStep): EndStep => ({
        ...own,
        run: (ending, limit, outOfUse) => own.run(ending, limit, outOfUse)?.then(() => (when === 'after the row' ? death.die() : undefined)),
      })
      const killed = await service({ objects: { ...objects, put }, step })
      const { id, profile } = await session(killed, 'kept')
      void killed.fleet.end(id, 'deleted')
      await death.reached()
      killed.abandon()

      const next = await service()
      expect([await textOf(profile), (await versionsOf(db, profile)).length, await endOf(id)]).toMatchObject(['kept', 1, { saved: 'whole' }])
      expect([(await row(id)).state, await runningIds(), next.fleet.registry.sessions]).toEqual(['deleted', [], 0])
      await removeUnnamed(objects, [profileObjects(db, 'any')], { after: new Date(0), before: new Date(Date.now() + HOUR_MS) }, signal)
      expect(await objectsOf()).toEqual([(await currentVersion(db, profile))!.object])
      expect(await findMissing(objects, [profileObjects(db, HOST)], signal)).toEqual([])
      death.bury()
    },
  )

  test('and whose agents end as well: nothing is saved, and the end says so', async () => {
    const death = dying()
    const killed = await service({ objects: { ...store(), put: () => death.die() } })
    const { id, profile } = await session(killed, 'lost')
    void killed.fleet.end(id, 'timeout')
    await death.reached()
    killed.abandon()
    await (await driver.adopt(id))![Symbol.asyncDispose]()
    await service()
    expect([await versionsOf(db, profile), await endOf(id), (await row(id)).state]).toMatchObject([
      [],
      { saved: 'not', message: expect.stringContaining('ended before') as string },
      'deleted',
    ])
    death.bury()
  })
})

test('an object store that is away: the browser is kept until its profile is saved', async () => {
  let tries = 0
  const objects = store()
  const put: Objects['put'] = async (...args) => {
    if (++tries < 3) throw new Unavailable('the bucket is away', 1)
    return objects.put(...args)
  }
  const { fleet, ...others } = await service({ objects: { ...objects, put } })
  const { id, profile } = await session({ fleet, ...others }, 'patient')
  await fleet.end(id, 'deleted')
  expect([(await row(id)).state, await endOf(id), await savingSessions(db, profile), await runningIds()]).toEqual(['stopping', null, [id], [id]])
  await sweptAway(fleet, id)
  expect([await textOf(profile), tries, await endOf(id), await savingSessions(db, profile)]).toMatchObject(['patient', 3, { saved: 'whole' }, []])
})

test('an object store that stays away keeps the browser only for some time', async () => {
  const { fleet, ...others } = await service({ giveUpMs: 500, objects: { ...store(), put: () => Promise.reject(new Unavailable('the bucket is away', 1)) } })
  const { id, profile } = await session({ fleet, ...others }, 'patient')
  await fleet.end(id, 'deleted')
  await sweptAway(fleet, id)
  expect([await versionsOf(db, profile), await endOf(id)]).toMatchObject([[], { saved: 'not', message: 'not saved: it did not work for too long' }])
})

test('two services that save the same session, one of which was only slow: there is one version', async () => {
  const death = Promise.withResolvers<void>()
  const objects = store()
  const put: Objects['put'] = async (...args) => {
    const stored = await objects.put(...args)
    await death.promise
    return stored
  }
  const slow = await service({ leases: sharing(), objects: { ...objects, put } })
  const { id, profile } = await session(slow, 'once')
  const ended = slow.fleet.end(id, 'deleted')
  await until('its object', NOTICE_MS, async () => (await objectsOf()).length > 0)
  slow.abandon()
  await service()
  death.resolve()
  await ended
  expect([await textOf(profile), (await versionsOf(db, profile)).length]).toEqual(['once', 1])
  expect(await objectsOf()).toEqual([(await currentVersion(db, profile))!.object])
})

test('a clean stop of the service saves', async () => {
  const made = await service()
  const { id, profile } = await session(made, 'stopped')
  await made.fleet.stop()
  expect([await textOf(profile), (await row(id)).end_reason]).toEqual(['stopped', 'shutdown'])
})

test('the end of a session without a profile has no statement more, also after a start', async () => {
  const { through, statements } = counted()
  const { fleet } = await service({ through })
  const id = await fleet.start(owner(), signal)
  statements.length = 0
  await fleet.end(id, 'deleted')
  expect(statements.filter((text) => text.includes('profile'))).toEqual([])
})

test('a session that its caller never got is not saved', async () => {
  const made = await service()
  const { id, profile } = await session(made, 'nobody saw it')
  await made.fleet.end(id, 'abandoned')
  expect([await versionsOf(db, profile), await endOf(id)]).toEqual([[], null])
})

test('a create waits for a save for some seconds, and is refused then; a save that no service can finish any more is not waited for', async () => {
  const made = await service()
  const { id, profile } = await session(made, 'hang')
  const profiles = makeProfiles({ db, objects: store(), saves: made.saves, maxBytes: MAX_BYTES, onDeleted: async () => {}, savedMs: 300, log: silentLog })
  void made.fleet.takeOut(id, 'deleted')
  await until('the save', NOTICE_MS, async () => (await savingSessions(db, profile)).length === 1)
  const choose = () => profiles.choose(DEFAULT_PROJECT, { id: profile, save: false }, signal)
  await expect(choose()).rejects.toMatchObject({ name: 'Unavailable', retryAfterSeconds: 5, message: expect.stringContaining(id) as string })
  const left = new AbortController()
  setTimeout(() => left.abort(new Error('the caller left')), 50)
  await expect(profiles.choose(DEFAULT_PROJECT, { id: profile, save: false }, left.signal)).rejects.toThrow('the caller left')
  await db
    .updateTable('browsers')
    .set({ deleted_at: new Date(Date.now() - HOUR_MS) })
    .where('id', '=', id)
    .execute()
  expect(await choose()).toMatchObject({ id: profile })
  made.abandon()
})

test('an object store that is away when a session is to load its profile is what the caller is told of', async () => {
  const made = await service()
  const { id, profile } = await session(made, 'far away')
  await made.fleet.end(id, 'deleted')
  const objects: Objects = { ...store(), get: () => Promise.reject(new Unavailable('the bucket is away', 7)) }
  const profiles = makeProfiles({ db, objects, saves: made.saves, maxBytes: MAX_BYTES, onDeleted: async () => {}, log: silentLog })
  const reader = await made.fleet.start(owner(), signal)
  const load = profiles.load(
    { id: reader, lease: 0, endpoint: made.fleet.registry.endpointOf(reader)! },
    { id: profile, called: 'it', save: false },
    { keepTabs: true, isUpdate: true },
    signal,
  )
  await expect(load).rejects.toMatchObject({ name: 'Fault', status: 503, message: 'the bucket is away', headers: { 'retry-after': '7' } })
  // It may get a profile later.
  expect((await row(reader)).profile_id).toBeNull()
})

test('a version whose object is gone is refused by name', async () => {
  const made = await service()
  const { id, profile } = await session(made, 'gone')
  await made.fleet.end(id, 'deleted')
  const { object } = (await currentVersion(db, profile))!
  await store().delete(object)
  expect(await findMissing(store(), [profileObjects(db, HOST)], signal)).toEqual([object])
  const profiles = makeProfiles({ db, objects: store(), saves: made.saves, maxBytes: MAX_BYTES, onDeleted: async () => {}, log: silentLog })
  const reader = await made.fleet.start(owner(), signal)
  const load = profiles.load(
    { id: reader, lease: 0, endpoint: made.fleet.registry.endpointOf(reader)! },
    { id: profile, called: newId(), save: true },
    { keepTabs: true, isUpdate: false },
    signal,
  )
  await expect(load).rejects.toMatchObject({ status: 503, message: expect.stringContaining('gone from the object store') as string })
  expect((await row(reader)).profile_id).toBeNull()
})
