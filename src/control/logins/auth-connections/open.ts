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
import { Connections, type ConnectionsSettings } from './connections.ts'
import { CredentialReferences, type CredentialLinks } from './credential-references.ts'
import { Flows } from './flows.ts'
import { makeHandOff, type HandOff } from './hand-off.ts'
import { Logins } from './logins.ts'
import { Views, type ViewsSettings } from './views.ts'

export interface ManagedAuthSettings extends Pick<ConnectionsSettings, 'names' | 'profileNamed'>, Pick<ViewsSettings, 'liveViewUrl'> {
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
  logins: Logins
  flows: Flows
  handOff: HandOff
  /** A signal that aborts when no person may act in the browser of a flow any more; undefined when nobody may act now. */
  whileActing(flowId: string, signal: AbortSignal): Promise<AbortSignal | undefined>
}

/** Opens all parts. Disposing closes them. */
export function openManagedAuth(settings: ManagedAuthSettings): ManagedAuth {
  const { db, scope, keys, leases, notifier, config, names, profileNamed, liveViewUrl, log } = settings
  const references = new CredentialReferences(settings.credentials)
  const handOff = makeHandOff(db, keys.root.secret, scope)
  const flows = new Flows({
    db,
    scope,
    leases,
    notifier,
    sealer: makeSealer(keys, 'auth-flows'),
    codeOf: handOff.codeOf,
    maxPending: config.maxLogins,
    canReauth: (row) => references.canReauth(row),
  })
  const views = new Views({ db, references, codeOf: handOff.codeOf, liveViewUrl })
  const checking = keepChecking({ db, scope, flows, atOnce: config.maxHealthChecks, isOurs: () => leases.holds('logins'), log })
  return {
    connections: new Connections({ db, scope, flows, references, names, views, profileNamed }),
    logins: new Logins({ db, scope, flows, references, names, views }),
    flows,
    handOff,
    whileActing: (id, signal) => whileActing(id, flows, log, signal),
    [Symbol.asyncDispose]: () => checking[Symbol.asyncDispose](),
  }
}
