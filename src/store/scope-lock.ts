// One control plane per data directory, or several that share their work (leases.ts): otherwise several would manage the same instances.
import { hostname } from 'node:os'
import { sql } from 'kysely'
import type { Db } from './db.ts'

export interface ScopeLock {
  /** Takes the lock again when the database session that held it has broken. @throws ScopeTaken when another process has taken it */
  ensure(): Promise<void>
  release(): Promise<void>
}

/** The name of a connection of the pool, and of the one that holds the lock: others read from it which service we are. Postgres keeps 63 bytes. */
const NAME = 'cob'
const ownName = (port: number | undefined) => `${NAME}: ${['process', process.pid, ...(port ? ['on port', port] : []), 'of', hostname()].join(' ')}`

/** Another process holds the lock. */
export class ScopeTaken extends Error {
  /** `which`: the other process's description of itself. */
  constructor(which?: string) {
    const named = which === undefined ? '' : ` (${which})`
    super(
      `another Cob runs with this data directory already${named}: stop it, or set another COB_DATA_DIR; several may share one if all of them have COB_REPLICAS=1`,
    )
  }
}

/** A database session, also after it has broken. After a failover the new server may have given its number to another session. */
interface Session {
  pid: number
  began: string
}

interface Held extends Session {
  isAlive(): Promise<boolean>
  release(): Promise<void>
}

/**
 * Takes the scope's lock: exclusively, or `shared` with others that share it as well. It is held by our database session, so it is released when this process
 * dies. Refused processes receive our `port`. @throws ScopeTaken when another process holds it, and one of the two does not share it
 */
export async function holdScope(db: Db, scope: string, { shared = false, port }: { shared?: boolean; port?: number } = {}): Promise<ScopeLock> {
  const name = ownName(port)
  let held = await take(db, scope, shared, name)
  let ensuring: Promise<void> | undefined
  const ensure = async () => {
    if (!(await held.isAlive())) held = await take(db, scope, shared, name, held)
  }
  return {
    // Two concurrent attempts would take it from each other.
    ensure: () => (ensuring ??= ensure().finally(() => (ensuring = undefined))),
    release: () => held.release(),
  }
}

/** `before`: our session that has held it so far. */
async function take(db: Db, scope: string, shared: boolean, name: string, before?: Session): Promise<Held> {
  const locked = Promise.withResolvers<Session & Pick<Held, 'isAlive'>>()
  const done = Promise.withResolvers<void>()
  const session = db.connection().execute(async (connection) => {
    const lock = sql.ref(shared ? 'pg_try_advisory_lock_shared' : 'pg_try_advisory_lock')
    const { rows } = await sql<Session & { locked: boolean }>`
      select ${lock}(${keyOf(scope)}) as locked, pid, backend_start::text as began from pg_stat_activity where pid = pg_backend_pid()`.execute(connection)
    const { locked: isLocked, ...own } = rows[0]!
    if (!isLocked) throw await whyRefused(connection, scope, before)
    await sql`select set_config('application_name', ${name}, false)`.execute(connection)
    let hasBroken = false
    // Once broken, the connection is returned, and an answer on it does not show that the lock is held.
    const isAlive = async () => {
      hasBroken ||= await sql`select 1`.execute(connection).then(
        () => false,
        () => true,
      )
      if (hasBroken) done.resolve()
      return !hasBroken
    }
    locked.resolve({ ...own, isAlive })
    await done.promise
    // The session may be broken by now. Then the lock has been released already.
    await sql`select set_config('application_name', ${NAME}, false), pg_advisory_unlock_all()`.execute(connection).catch(() => {})
  })
  session.catch(locked.reject)
  return {
    ...(await locked.promise),
    async release() {
      done.resolve()
      await session.catch(() => {})
    },
  }
}

/**
 * The server may not have noticed yet that our earlier session has broken. Then that session is ended, and the next attempt gets the lock, unless another
 * process is first.
 */
async function whyRefused(db: Db, scope: string, before: Session | undefined): Promise<Error> {
  const { rows } = await sql<{ isOurs: boolean; name: string }>`
    select h.ours as "isOurs", h.name, case when h.ours then pg_terminate_backend(h.pid) end from (
      select a.pid, a.application_name as name, coalesce(a.pid = ${before?.pid ?? 0}::int and a.backend_start::text = ${before?.began ?? ''}::text, false) as ours
      from pg_locks l join pg_stat_activity a on a.pid = l.pid
      where l.locktype = 'advisory' and l.objsubid = 1 and l.granted and l.database = (select oid from pg_database where datname = current_database())
        and ((l.classid::bigint << 32) | l.objid::bigint) = ${keyOf(scope)}) h`.execute(db)
  const other = rows.find(({ isOurs }) => !isOurs)
  if (other) return new ScopeTaken(other.name.startsWith(`${NAME}: `) ? other.name.slice(NAME.length + 2) : undefined)
  return before ? new Error('our own earlier session still had the lock of the scope; it is taken again') : new ScopeTaken()
}

const keyOf = (scope: string) => sql`hashtextextended(${`cob:${scope}`}, 0)`
