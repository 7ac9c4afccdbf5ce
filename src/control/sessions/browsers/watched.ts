// Facts about the sessions that this replica watches, which other groups and the rules of sessions use: their agents, their calls and connections, their use.
import { findBrowser } from './rows.ts'
import { teller } from '../../../store/leases.ts'
import { defineModule } from '../../module.ts'
import { Registry } from './fleet/registry.ts'
import { replicaOf, type BrowserRow } from './rows.ts'
import { sleepWhenUnused, type Sleep } from './standby.ts'

interface Watched {
  registry: Registry
  standby: Sleep
  /** A session by id or name, of any project unless one is given. Also found after its end. */
  findSession(project: string | undefined, idOrName: string): Promise<BrowserRow | undefined>
  /** Tells another replica to check something. No answer is needed: replicas also check by themselves from time to time. */
  tell(replica: string): void
  /** Tells the replica that watches a session to check it; false when no replica does. */
  tellWatcher(id: string): Promise<boolean>
}

export const watched = defineModule<Watched>({
  name: 'watched',
  open(house) {
    const { db, scope, driver, config, leases, metrics, log } = house
    const registry = new Registry()
    const standby = house.use(
      sleepWhenUnused({ standby: driver.standby, config, sessions: () => registry.reachable, isHere: (id) => leases.isAlive && registry.runs(id), log }),
    )
    metrics.show('cob_browsers_asleep', 'Sessions that sleep', () => standby.asleep)
    const notice = teller(leases, log)
    const tellOther = async (id: string) => {
      const watcher = await replicaOf(db, id)
      if (!watcher || watcher === leases.replica) return false
      await leases.tell('look', watcher)
      return true
    }
    return {
      registry,
      standby,
      findSession: (project, idOrName) => findBrowser(db, { scope, project }, idOrName, true),
      tell: (replica) => notice('look', replica),
      tellWatcher: async (id) => (await leases.catchUp(() => tellOther(id))) ?? false,
    }
  },
})
