// Who does what when several services (replicas) share one scope: a duty is a lease in the database, which one replica takes, renews, and loses to
// another one when it does not renew it.
import { setInterval } from 'node:timers/promises'
import { sql, type RawBuilder, type SqlBool } from 'kysely'
import type { Log } from '../base/log.ts'
import { until } from '../base/wait.ts'
import type { Db } from './db.ts'
import type { Notice } from './events.ts'
import { PRESENCE } from './schema.ts'

/** The duties that one replica of a scope has at a time, besides the rows that name it. */
export type Duty = 'shelf' | 'builds' | 'deployments' | 'purge' | 'objects' | 'replays' | 'runs' | 'exports' | 'telemetry' | 'telemetry_exports' | 'logins'

/** How often a replica renews its leases, and looks for those that others have lost. */
export const RENEW_MS = 1_000
/**
 * How long a lease lasts without being renewed. A replica that was killed just after a renewal is replaced after this and two looks at the most: within 5 s.
 * Three renewals may fail before.
 */
export const LEASE_MS = 3_000
/**
 * A replica takes over from others only when its own renewals have worked for so long. After a time in which nobody could renew (the database was
 * away), all leases are over, and their holders renew them within one period.
 */
const CALM_MS = 1_500
/** What dead replicas have left is looked for when one has died, and otherwise so often: one that was only slow may have written rows after its death. */
const LOOK_ANYWAY_MS = 10_000
/** Limit on one renewal. A database that hangs is as good as one that is away. */
const RENEWAL_MS = 2_500
/** Limit on the wait for the first leases. */
const FIRST_MS = 30_000
/** Leases of replicas that ended long ago are removed. */
const FORGET = sql`interval '1 hour'`

export interface Leases extends AsyncDisposable {
  /** This process, by a name of its own. Rows carry it. */
  readonly replica: string
  /** Whether others still consider us alive, by our own clock. When false, another replica may have taken over what is ours. */
  readonly isAlive: boolean
  /**
   * Counts the times in which this replica was cut off: it changes when leases are renewed after they were over. What was ours before may belong to
   * another one.
   */
  readonly epoch: number
  /** Whether we may take over what a dead replica had. */
  readonly mayTakeOver: boolean
  /** Whether another replica goes on with what we leave when we stop. Otherwise we end it. */
  readonly handsOver: boolean
  holds(duty: Duty): boolean
  /** SQL: whether the replica that a column names is dead, or none is named. Alone, everybody else is dead. */
  isDead(replica: RawBuilder<unknown>): RawBuilder<SqlBool>
  /** For a part that takes over from dead replicas after its start. */
  deaths(): Deaths
  /** Sends a notice to the other replicas. One may miss it, so it looks by itself as well. Alone, nothing is sent. */
  tell(notice: Notice, text: string): Promise<void>
  /** `value`, which this process remembers of the scope's rows; undefined when another replica may have changed them: then they have to be read. */
  remembered<T>(value: T): T | undefined
  /** Does `work`, which brings what this process remembers in line with what other replicas have written. Alone, there is nothing to catch up with. */
  catchUp<T>(work: () => T): T | undefined
}

/** When to look for what dead replicas have left. */
export interface Deaths {
  /** Whether another set of replicas lives than at the last look, or that was {@link LOOK_ANYWAY_MS} ago. Counts as a look. Never true while we may not take over. */
  isLookDue(): boolean
  /** The last look did not succeed. */
  lookAgain(): void
}

/** Sends notices without waiting for them. */
export const teller =
  ({ tell }: Pick<Leases, 'tell'>, log: Log) =>
  (notice: Notice, text: string): void =>
    void tell(notice, text).catch((err: unknown) => log.debug({ err }, 'other replicas could not be told; they look by themselves'))

/**
 * For a service that has its scope for itself (scope-lock.ts): it has every duty, renews nothing, and took over all rows of the scope when it started. When it has
 * `lost` the scope, it does nothing any more, and ends nothing when it stops.
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

/** The replicas of a scope that live, as its database has them. */
export async function livingReplicas(db: Db, scope: string): Promise<string[]> {
  const { rows } = await sql<{ duty: string }>`
    select duty from leases where scope = ${scope} and starts_with(duty, ${PRESENCE}) and until > now() order by duty`.execute(db)
  return rows.map(({ duty }) => duty.slice(PRESENCE.length))
}

/**
 * Shares a scope with other replicas. Resolves when this one counts as alive and may take over from dead ones, after {@link CALM_MS}. From then on it renews its leases and takes every duty of `duties` that
 * nobody holds. Disposing gives all of them back. `db` should have connections of its own: a renewal must not wait for callers' queries, nor for the notices that `tell` sends. @throws when the database does not take the first leases
 */
export async function shareLeases(db: Db, scope: string, replica: string, duties: readonly Duty[], tell: Leases['tell'], log: Log): Promise<Leases> {
  let held = new Set<string>()
  /** The other replicas that lived at the last renewal, as a text to compare. */
  let living = ''
  /** When the present renewal was sent, and since when they have worked without a gap; by performance.now(). */
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
    if (performance.now() - sentAt > LEASE_MS) return // it may be over already
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
    // Not a join with the leases: an update that had to wait for another replica's update of the same row would not look at its new value then.
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
