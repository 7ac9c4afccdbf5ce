// What this replica knows of the sessions that it watches, before and beside the rules of sessions: their agents, their calls and connections, their use.
import { findBrowser } from './rows.ts'
import { notify } from '../../../store/events.ts'
import { defineModule } from '../../module.ts'
import { Registry } from './fleet/registry.ts'
import { watcherOf, type BrowserRow } from './rows.ts'
import { sleepWhenUnused, type Sleep } from './standby.ts'

interface Watched {
  registry: Registry
  standby: Sleep
  /** A session by id or name, of any project unless one is given, also after its end. */
  findSession(project: string | undefined, idOrName: string): Promise<BrowserRow | undefined>
  /** Tells another replica to look after something. Without an answer: replicas look by themselves from time to time. */
  tell(replica: string): void
  /** Tells the replica that watches a session to look after it. */
  tellWatcher(id: string): Promise<void>
}

export const watched = defineModule<Watched>({
  name: 'watched',
  open(house) {
    const { db, scope, driver, config, leases, metrics, log } = house
    const registry = new Registry()
    const standby = house.use(sleepWhenUnused({ standby: driver.standby, config, isAlone: leases.isAlone, sessions: () => registry.reachable, log }))
    metrics.show('cob_browsers_asleep', 'Sessions that sleep', () => standby.asleep)
    const tell = (replica: string) =>
      void notify(db, 'look', replica).catch((err: unknown) => log.debug({ err }, 'other replicas could not be told; they look by themselves'))
    return {
      registry,
      standby,
      findSession: (project, idOrName) => findBrowser(db, { scope, project }, idOrName, true),
      tell,
      async tellWatcher(id) {
        const watcher = await watcherOf(db, id)
        if (watcher?.replica) tell(watcher.replica)
      },
    }
  },
})
