// Profiles: stored states of browsers. Sessions load them and save them when they end.
import { sql } from 'kysely'
import { defineModule, hook, phases } from '../../module.ts'
import { sessionEnding } from '../browsers/hooks.ts'
import { watched } from '../browsers/watched.ts'
import { profiles as contract } from './contract.ts'
import { profileHandlers } from './handlers.ts'
import { makeProfiles, type Profiles } from './profiles.ts'
import { deletedProfiles } from './purge.ts'
import { profileObjects } from './rows.ts'
import { Saves } from './saves.ts'

/** A profile was deleted. */
export const profileDeleted = hook<(id: string) => Promise<unknown>>('a profile was deleted')

export const profiles = defineModule<Profiles>({
  name: 'profiles',
  contracts: [contract],
  objects: [profileObjects],
  purges: ({ db, config }) => [deletedProfiles(db, config.keepEndedDays)],
  holdings: [{ called: 'profiles', isAtWork: false, table: 'profiles', isOver: sql`deleted_at is not null` }],
  open(house) {
    const { db, objects, scope, leases, disk, log } = house
    const { registry } = house.of(watched)
    const maxBytes = house.config.profileMaxMb * 1024 * 1024
    const saves = new Saves({
      db,
      objects,
      scope,
      leases,
      agentOf: (id) => (registry.runs(id) ? registry.get(id)?.agent : undefined),
      maxBytes,
      fullDisk: () => disk.room.problem,
      log,
    })
    house.fill(sessionEnding, saves.step)
    house.fill(phases.adopt, () => saves.adopt())
    const listeners = house.all(profileDeleted)
    const onDeleted = async (id: string) => void (await Promise.all(listeners.map((listener) => listener(id))))
    const profiles = makeProfiles({ db, objects, saves, maxBytes, onDeleted, log })
    house.mount(contract, profileHandlers(profiles))
    return profiles
  },
})
