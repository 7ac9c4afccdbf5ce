// Duties of several services (replicas) that share one scope. A duty is a lease in the database: one replica takes it, renews it, and loses it to another
// replica when it does not renew it.
import { setInterval } from 'node:timers/promises'
import { sql, type RawBuilder, type SqlBool } from 'kysely'
import type { Log } from '../base/log.ts'
import { until } from '../base/wait.ts'
import type { Db } from './db.ts'
import type { Notice } from './events.ts'
import { PRESENCE } from './schema.ts'

/** Work that one replica of a scope does for all of it, by the name of its lease. */
export type Duty = string

/** Interval in which a replica renews its leases, and looks for expired ones of others. */
export const RENEW_MS = 1_000
/**
 * How long a lease lasts without being renewed. A replica that was killed just after a renewal is replaced after this time plus two intervals at most: within 5
 * s. Up to three renewals may fail before that.
 */
export const LEASE_MS = 3_000
/**
 * A replica takes over from others only when its own renewals have succeeded for this long. After a time without a database all leases have expired, and their
 * holders renew them within one interval.
 */
const CALM_MS = 1_500
/**
 * The rows of dead replicas are searched when a replica has died, and otherwise at this interval: a replica that was only slow may have written rows after it
 * counted as dead.
 */
const LOOK_ANYWAY_MS = 10_000
/** Limit on one renewal. A hanging database is treated as one that is away. */
const RENEWAL_MS = 2_500
/** Limit on the wait for the first leases. */
const FIRST_MS = 30_000
/** Age after which the leases of ended replicas are removed. */
const FORGET = sql`interval '1 hour'`

export interface Leases extends AsyncDisposable {
  /** The name of this process. Rows contain it. */
  readonly replica: string
  /** Whether others still count us as alive, by our own clock. When false, another replica may have taken over our work. */
  readonly isAlive: boolean
  /** Counts the times that this replica was cut off: it changes when expired leases are renewed. Work from before may belong to another replica by now. */
  readonly epoch: number
  /** Whether we may take over the work of a dead replica. */
  readonly mayTakeOver: boolean
  /** Whether another replica continues our work when we stop. Otherwise we end it. */
  readonly handsOver: boolean
  holds(duty: Duty): boolean
  /** SQL: whether the replica in a column is dead, or the column is empty. For a service alone, every other replica is dead. */
  isDead(replica: RawBuilder<unknown>): RawBuilder<SqlBool>
  /** For a part of the service that takes over from dead replicas after its start. */
  deaths(): Deaths
  /** Sends a notice to the other replicas. A replica may miss it, so it also checks by itself. A service alone sends nothing. */
  tell(notice: Notice, text: string): Promise<void>
  /** `value`, which this process has cached from the scope's rows; undefined when another replica may have changed them: then they have to be read. */
  remembered<T>(value: T): T | undefined
  /** Runs `work`, which updates this process's cached data to what other replicas have written. A service alone has nothing to update. */
  catchUp<T>(work: () => T): T | undefined
}

/** When to search for the rows of dead replicas. */
export interface Deaths {
  /**
   * Whether the set of living replicas has changed since the last search, or that was {@link LOOK_ANYWAY_MS} ago. The call counts as a search. Never true while
   * we may not take over.
   */
  isLookDue(): boolean
  /** The last search has failed. */
  lookAgain(): void
}

/** Sends notices without waiting for them. */
export const teller =
  ({ tell }: Pick<Leases, 'tell'>, log: Log) =>
  (notice: Notice, text: string): void =>
    void tell(notice, text).catch((err: unknown) => log.debug({ err }, 'other replicas could not be told; they look by themselves'))

/**
 * For a service that is alone in its scope (scope-lock.ts): it has every duty, renews nothing, and took over all rows of the scope when it started. When it has
 * `lost` the scope, it stops its work, and ends nothing when it stops.
 */
export const alone = (replica: string, lost?: AbortSignal): Leases => ({
  replica,
  get isAlive() {
    return !lost?.aborted
  },
  epoch: 0,
  get mayTakeOver() {
    return !lost?.aborted
  },
  get handsOver() {
    return lost?.aborted ?? false
  },
  holds: () => !lost?.aborted,
  isDead: (column) => sql`${column} is distinct from ${replica}`,
  deaths: () => ({ isLookDue: () => false, lookAgain() {} }),
  async tell() {},
  remembered: (value) => value,
  catchUp: () => undefined,
  async [Symbol.asyncDispose]() {},
})

const presence = (replica: string): string => PRESENCE + replica

/** Whether a replica is dead, according to the database. */
export async function isDead(db: Db, leases: Pick<Leases, 'isDead'>, replica: string): Promise<boolean> {
  const { rows } = await sql<{ dead: boolean }>`select ${leases.isDead(sql`${replica}::text`)} as dead`.execute(db)
  return rows[0]!.dead
}

/** The living replicas of a scope, according to its database. */
export async function livingReplicas(db: Db, scope: string): Promise<string[]> {
  const { rows } = await sql<{ duty: string }>`
    select duty from leases where scope = ${scope} and starts_with(duty, ${PRESENCE}) and until > now() order by duty`.execute(db)
  return rows.map(({ duty }) => duty.slice(PRESENCE.length))
}

/**
 * Shares a scope with other replicas. Resolves when this replica counts as alive and may take over from dead ones, after {@link CALM_MS}. From then on it
 * renews its leases, and takes each of `duties` that no replica holds. Disposing releases all of them. `db` should have connections of its own: a renewal must
 * not wait for callers' queries, nor for the notices that `tell` sends. @throws when the first leases cannot be written
 */
export async function shareLeases(db: Db, scope: string, replica: string, duties: readonly Duty[], tell: Leases['tell'], log: Log): Promise<Leases> {
  let held = new Set<string>()
  /** The other replicas that lived at the last renewal, as a text for comparison. */
  let living = ''
  /** When the present renewal was sent, and since when renewals have succeeded without a gap; by performance.now(). */
  let renewedAt = -Infinity
  let calmSince = Infinity
  let epoch = 0
  const isAlive = () => performance.now() < renewedAt + LEASE_MS
  const mayTakeOver = () => isAlive() && performance.now() >= calmSince + CALM_MS

  const renew = async () => {
    const sentAt = performance.now()
    const { rows } = await sql<{ duty: string; isOurs: boolean }>`
      with renewed as (
        insert into leases as l (scope, duty, replica, until)
        select ${scope}, d.duty, ${replica}, now() + ${LEASE_MS} * interval '1 millisecond' from unnest(${[presence(replica), ...duties]}::text[]) d (duty) order by 2
        on conflict (scope, duty) do update set replica = excluded.replica, until = excluded.until
          where l.replica = excluded.replica or (${mayTakeOver()} and l.until < now())
        returning duty)
      select duty, true as "isOurs" from renewed
      union all
      select duty, false from leases where scope = ${scope} and starts_with(duty, ${PRESENCE}) and replica <> ${replica} and until > now()
      order by duty`.execute(db)
    if (performance.now() - sentAt > LEASE_MS) return // it may have expired already
    if (!isAlive()) {
      calmSince = sentAt
      epoch++
    }
    renewedAt = Math.max(renewedAt, sentAt)
    living = rows.flatMap(({ duty, isOurs }) => (isOurs ? [] : [duty])).join()
    const now = new Set(rows.flatMap(({ duty, isOurs }) => (isOurs ? [duty] : [])))
    const changes = { taken: [...now].filter((duty) => !held.has(duty)), lost: [...held].filter((duty) => !now.has(duty)) }
    held = now
    if (changes.taken.length > 0 || changes.lost.length > 0) log.info({ replica, ...changes }, 'the duties of this replica have changed')
  }
  const clean = () =>
    sql`delete from leases where scope = ${scope} and starts_with(duty, ${PRESENCE}) and until < now() - ${FORGET}`.execute(db).then(
      () => {},
      () => {}, // the next start does it
    )

  await renew()
  await clean()
  const stop = new AbortController()
  const run = async () => {
    for await (const _ of setInterval(RENEW_MS, undefined, { signal: stop.signal })) {
      const late = AbortSignal.timeout(RENEWAL_MS)
      const over = new Promise<void>((resolve) => late.addEventListener('abort', () => resolve(), { once: true }))
      await Promise.race([renew().catch((err: unknown) => log.warn({ err, replica }, 'leases could not be renewed')), over])
    }
  }
  const running = run().catch(() => {}) // ends only by its signal
  try {
    await until('the first leases', FIRST_MS, mayTakeOver)
  } catch (error) {
    stop.abort(error)
    await running
    throw error
  }

  return {
    replica,
    get isAlive() {
      return isAlive()
    },
    get epoch() {
      return epoch
    },
    get mayTakeOver() {
      return mayTakeOver()
    },
    handsOver: true,
    holds: (duty) => isAlive() && held.has(duty),
    // Not a join with the leases: an update that waited for another replica's update of the same row would not read the row's new value.
    isDead: (column) => sql`
      coalesce(${column}, '') <> all (array(
        select substr(l.duty, ${PRESENCE.length + 1}) from leases l where l.scope = ${scope} and starts_with(l.duty, ${PRESENCE}) and l.until > now()))`,
    deaths() {
      let known: string | undefined
      let lookedAt = -Infinity
      return {
        isLookDue() {
          if (!mayTakeOver() || (living === known && performance.now() - lookedAt <= LOOK_ANYWAY_MS)) return false
          known = living
          lookedAt = performance.now()
          return true
        },
        lookAgain: () => void (known = undefined),
      }
    },
    tell,
    remembered: () => undefined,
    catchUp: (work) => work(),
    async [Symbol.asyncDispose]() {
      if (stop.signal.aborted) return
      stop.abort(new Error('the service stops'))
      await running
      held = new Set()
      renewedAt = -Infinity
      await sql`delete from leases where scope = ${scope} and replica = ${replica}`
        .execute(db)
        .catch((err: unknown) => log.warn({ err, replica }, 'leases could not be given back; they end by themselves'))
    },
  }
}
