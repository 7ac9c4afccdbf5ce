// Wires managed auth: connections, their flows, handing them to people, and the checks in the background.
import type { Config } from '../../../base/config.ts'
import type { Log } from '../../../base/log.ts'
import type { Keys } from '../../../base/keys.ts'
import { makeSealer } from '../../../base/sealed.ts'
import type { Db } from '../../../store/db.ts'
import type { EventNotifier } from '../../../store/events.ts'
import type { Leases } from '../../../store/leases.ts'
import { whileActing } from './acting.ts'
import { keepChecking } from './checks.ts'
import { makeConnections, referredBy, type Connections, type ConnectionsSettings, type CredentialLinks } from './connections.ts'
import { makeFlows, type Flows } from './flows.ts'
import { hostedPath } from './hosted-page.ts'
import { makeHandOff, type HandOff } from './hand-off.ts'
import { canReauth } from './reauth.ts'

export interface ManagedAuthSettings extends Pick<ConnectionsSettings, 'names' | 'profileNamed' | 'liveViewUrl'> {
  db: Db
  scope: string
  keys: Keys
  leases: Leases
  notifier: EventNotifier
  config: Pick<Config, 'maxLogins' | 'maxHealthChecks'>
  credentials: CredentialLinks
  log: Log
}

export interface ManagedAuth extends AsyncDisposable {
  connections: Connections
  flows: Flows
  handOff: HandOff
  /** Aborts when no person may act in the browser of a flow any more; undefined: they may not now. */
  whileActing(flowId: string, signal: AbortSignal): Promise<AbortSignal | undefined>
}

/** What it opens is closed when it is disposed. */
export function openManagedAuth(settings: ManagedAuthSettings): ManagedAuth {
  const { db, scope, keys, leases, notifier, config, credentials, log } = settings
  const handOff = makeHandOff(db, keys.root.secret, scope)
  const flows = makeFlows({
    db,
    scope,
    leases,
    notifier,
    sealer: makeSealer(keys, 'auth-flows'),
    codeOf: handOff.codeOf,
    maxPending: config.maxLogins,
    canReauth: async (row) => canReauth(row.learned, (await referredBy(credentials, [row]))(row).source, row.checks.refused).can_reauth,
  })
  const connections = makeConnections({
    ...settings,
    flows,
    codeOf: handOff.codeOf,
    hostedPath,
  })
  const checking = keepChecking({ db, scope, flows, atOnce: config.maxHealthChecks, isOurs: () => leases.holds('logins'), log })
  return {
    connections,
    flows,
    handOff,
    whileActing: (id, signal) => whileActing(id, flows, log, signal),
    [Symbol.asyncDispose]: () => checking[Symbol.asyncDispose](),
  }
}
