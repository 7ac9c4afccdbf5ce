// Work in the background: ends logins whose time is over, and starts due health checks. The effects of results: check-rules.ts.
import { sql } from 'kysely'
import type { Log } from '../../../base/log.ts'
import { sleep } from '../../../base/wait.ts'
import { Fault } from '../../../http/fault.ts'
import type { Db } from '../../../store/db.ts'
import type { Flows } from './flows.ts'
import type { ConnectionRow } from './rows.ts'

const LOOK_MS = 1_000

interface ChecksSettings {
  db: Db
  scope: string
  flows: Pick<Flows, 'expireDue' | 'begin'>
  /** Most health checks at a time, over all replicas. */
  atOnce: number
  /** Whether this replica has the duty. */
  isOurs: () => boolean
  log: Log
  now?: () => number
  everyMs?: number
}

/** Starts due checks once. Returns their number. */
export async function beginChecks({
  db,
  scope,
  flows,
  atOnce,
  now = Date.now,
}: Pick<ChecksSettings, 'db' | 'scope' | 'flows' | 'atOnce' | 'now'>): Promise<number> {
  const { rows } = await sql<ConnectionRow>`
    select c.* from auth_connections c join projects p on p.id = c.project_id join profiles f on f.id = c.profile_id and f.deleted_at is null
    where c.scope = ${scope} and c.health_checks and c.next_check_at <= ${new Date(now())} and p.status = 'active'
      and not exists (select from auth_flows l where l.connection_id = c.id and l.state = 'IN_PROGRESS')
    order by c.next_check_at, c.id
    limit greatest(0, ${atOnce} - (
      select count(*) from auth_flows l where l.scope = ${scope} and l.state = 'IN_PROGRESS' and l.type = 'health_check'))`.execute(db)
  let begun = 0
  for (const connection of rows) {
    try {
      await flows.begin(connection, 'health_check', {})
      begun++
    } catch (error) {
      // A login has started meanwhile, or the connection was deleted.
      if (!(error instanceof Fault)) throw error
    }
  }
  return begun
}

/** Looks every second until disposed. Disposing waits for the current look. */
export function keepChecking(settings: ChecksSettings): AsyncDisposable {
  const { flows, isOurs, log, everyMs = LOOK_MS } = settings
  const stop = new AbortController()
  let isAway = false
  const run = async () => {
    for (;;) {
      await sleep(everyMs, stop.signal)
      if (!isOurs()) continue
      try {
        await flows.expireDue()
        await beginChecks(settings)
        isAway = false
      } catch (err) {
        if (!isAway) log.warn({ err }, 'logins cannot be looked after; tried again')
        isAway = true
      }
    }
  }
  const running = run().catch(() => {}) // ends only by its signal
  return {
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      await running
    },
  }
}
