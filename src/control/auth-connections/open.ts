// Wires managed auth: connections, their flows, handing them to people, and the checks in the background.
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import type { Keys } from '../../base/keys.ts'
import { makeSealer } from '../../base/sealed.ts'
import { Fault, fault } from '../../http/fault.ts'
import type { Db } from '../../store/db.ts'
import type { EventBells } from '../../store/events.ts'
import type { Leases } from '../../store/leases.ts'
import { Name } from '../profiles/contract.ts'
import type { Profiles } from '../profiles/profiles.ts'
import { findProfile } from '../profiles/rows.ts'
import { keepChecking } from './checks.ts'
import { makeConnections, referredBy, type Connections, type ConnectionsSettings, type CredentialLinks } from './connections.ts'
import { makeFlows, type Flows } from './flows.ts'
import { makeHandOff, type HandOff } from './hand-off.ts'
import { canReauth } from './reauth.ts'

export interface ManagedAuthSettings extends Pick<ConnectionsSettings, 'names' | 'hostedPath' | 'liveViewUrl'> {
  db: Db
  scope: string
  keys: Keys
  leases: Leases
  bells: EventBells
  config: Pick<Config, 'maxLogins' | 'maxHealthChecks'>
  credentials: CredentialLinks
  createProfile: Profiles['create']
  log: Log
}

export interface ManagedAuth extends AsyncDisposable {
  connections: Connections
  flows: Flows
  handOff: HandOff
}

/** The id of the profile of this name, which is made when there is none. @throws 400 for a name that no profile may have */
async function profileNamed(db: Db, createProfile: Profiles['create'], project: string, given: string): Promise<string> {
  const { data: name, error } = Name.safeParse(given)
  if (name === undefined) throw fault.field('profile_name', error?.issues[0]?.message ?? 'is no name of a profile')
  const known = await findProfile(db, project, { name })
  if (known) return known.id
  try {
    return (await createProfile(project, name)).id
  } catch (error) {
    // Another caller has just made it.
    const other = error instanceof Fault && error.code === 'conflict' ? await findProfile(db, project, { name }) : undefined
    if (!other) throw error
    return other.id
  }
}

/** What it opens is closed when it is disposed. */
export function openManagedAuth(settings: ManagedAuthSettings): ManagedAuth {
  const { db, scope, keys, leases, bells, config, credentials, createProfile, log } = settings
  const handOff = makeHandOff(db, keys.root.secret, scope)
  const flows = makeFlows({
    db,
    scope,
    leases,
    bells,
    sealer: makeSealer(keys, 'auth-flows'),
    codeOf: handOff.codeOf,
    maxPending: config.maxLogins,
    canReauth: async (row) => canReauth(row.learned, (await referredBy(credentials, [row]))(row).source).can_reauth,
  })
  const connections = makeConnections({
    ...settings,
    flows,
    codeOf: handOff.codeOf,
    profileNamed: (project, name) => profileNamed(db, createProfile, project, name),
  })
  const checking = keepChecking({ db, scope, flows, atOnce: config.maxHealthChecks, isOurs: () => leases.holds('logins'), log })
  return { connections, flows, handOff, [Symbol.asyncDispose]: () => checking[Symbol.asyncDispose]() }
}
