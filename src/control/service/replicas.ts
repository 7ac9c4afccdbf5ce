// What this service shares with others on the same scope: leases, and what replicas tell each other.
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import { connectDb, type Db, type DbAddress } from '../../store/db.ts'
import { notify, type EventBells } from '../../store/events.ts'
import { alone, shareLeases, type Duty, type Leases } from '../../store/leases.ts'
import type { LeasedSession } from '../../http/route.ts'
import type { EndReason } from '../sessions/browsers/end-step.ts'
import type { OpenCalls } from '../sessions/browsers/open-calls.ts'
import { replicaOf } from '../sessions/browsers/rows.ts'
import { closeOwnSockets, isReason, type OpenSockets } from '../sessions/browsers/sockets.ts'
import type { Fleet } from '../sessions/browsers/fleet.ts'
import type { Registry } from '../sessions/browsers/fleet/registry.ts'
import type { Deployments } from '../apps/deployments/deployments.ts'
import type { Runs } from '../apps/invocations/runs.ts'
import type { Replays } from '../sessions/replays/replays.ts'
import type { TelemetryArchive } from '../sessions/telemetry/archive.ts'

/** Every duty: any replica can do all of them. */
const DUTIES: readonly Duty[] = ['shelf', 'builds', 'deployments', 'purge', 'objects', 'replays', 'runs', 'exports', 'telemetry', 'telemetry_exports', 'logins']

/** Who does what: this service everything, unless it is one of several replicas, or another process has taken the scope (`lost`). What it opens is closed with `opened`. */
export async function takeLeases(
  { replicas }: Config,
  { db, address, lost }: { db: Db; address: DbAddress; lost: AbortSignal },
  scope: string,
  replica: string,
  log: Log,
  opened: AsyncDisposableStack,
): Promise<Leases> {
  if (!replicas) return alone(replica, lost)
  const own = connectDb(address, log)
  opened.defer(() => own.destroy())
  return opened.use(await shareLeases(own, scope, replica, DUTIES, (notice, text) => notify(db, notice, text), log))
}

/** Has another replica look that watches a session; false when none does. */
export function watcherTeller(db: Db, leases: Leases): (id: string) => Promise<boolean> {
  const tellOther = async (id: string) => {
    const watcher = await replicaOf(db, id)
    if (!watcher || watcher === leases.replica) return false
    await leases.tell('look', watcher)
    return true
  }
  return async (id) => (await leases.catchUp(() => tellOther(id))) ?? false
}

/** Who looks when there is a build: the replica whose duty builds are. */
export const buildsOf = (scope: string): string => `builds of ${scope}`
/** The same for a build that has to end; then its deployment. */
export const END_BUILD = 'end the build '

interface Parts {
  scope: string
  leases: Leases
  openSockets: OpenSockets
  calls: OpenCalls
  registry: Registry
  fleet: Fleet
  runs: Runs
  deployments: Deployments
  replays: Replays
  telemetry: Pick<TelemetryArchive, 'lookSoon'>
  log: Log
}

/** The notice that a session ends; `lease`: that this caller of its pool has given it back. */
export const closingText = (id: string, reason: EndReason, lease?: number): string => [id, reason, ...(lease === undefined ? [] : [lease])].join(' ')

/** Ends the calls and connections of a caller who has given a browser back, as far as this process holds them. */
export function dismissOwn({ id, lease }: LeasedSession, openSockets: OpenSockets, calls: OpenCalls): void {
  calls.end(id, lease)
  closeOwnSockets(openSockets, id, 'released', lease)
}

/** Looks after what other replicas tell of, until it is disposed. */
export function hearReplicas(
  bells: EventBells,
  { scope, leases, openSockets, calls, registry, fleet, runs, deployments, replays, telemetry, log }: Parts,
): Disposable {
  const leave = new DisposableStack()
  const onLook = (text: string) => {
    fleet.heard(text)
    runs.heard(text)
    if (text === buildsOf(scope)) deployments.heard(undefined)
    else if (text.startsWith(END_BUILD)) deployments.heard(text.slice(END_BUILD.length))
    else if (text === leases.replica) {
      void replays.look().catch((err: unknown) => log.warn({ err }, 'looking for recordings of other replicas failed'))
      telemetry.lookSoon()
    }
  }
  const onClosing = (text: string) => {
    const [id, reason, lease] = text.split(' ')
    if (id === undefined || !isReason(reason)) return
    if (lease === undefined) {
      calls.end(id)
      return closeOwnSockets(openSockets, id, reason)
    }
    dismissOwn({ id, lease: Number(lease) }, openSockets, calls)
    registry.putBack(id, Number(lease))
  }
  leave.defer(bells.on('look', onLook))
  leave.defer(bells.on('closing', onClosing))
  return leave
}
