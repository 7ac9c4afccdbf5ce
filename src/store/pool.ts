// The connections to Postgres. Every wait for it is bounded. When it is away, full or busy, callers get one kind of error: Unavailable.
import { setImmediate as turnOfLoop } from 'node:timers/promises'
import type { PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely'
import pg from 'pg'
import type { Log } from '../base/log.ts'
import { Unavailable } from '../base/unavailable.ts'
import { WaitTimeout, within } from '../base/wait.ts'

/** The address of Postgres: a connection string, or a socket's folder. */
export type DbAddress = { connectionString: string } | { host: string; port?: number; ssl?: false; user: string; database: string }

/** Most connections of one control plane. Queries are short, so few connections serve many callers. */
const POOL_SIZE = 10
/** Timeout for getting a connection, from the pool or a new one. */
const CONNECT_MS = 5_000
/** Postgres itself ends a statement that takes longer (statement_timeout). */
const STATEMENT_MS = 15_000
/** After a statement has had no answer for this long, a separate connection checks that Postgres is still there. */
const SILENT_MS = 2_000
/** Timeout of that check, after which every waiting statement is given up, and of the check of a connection that was idle. */
const PROBE_MS = 2_000
/**
 * A connection that has answered this recently is given to the next caller without a check, which would make a statement take half as long again. If the server
 * has ended it meanwhile, that has been read by then.
 */
const FRESH_MS = 1_000
/** A statement without an answer is given up after this time even though Postgres is there: its connection is dead. */
const GIVE_UP_MS = STATEMENT_MS + 5_000
/** The kernel's probes keep firewalls from cutting an idle connection, and find a dead one. By default Linux begins after two hours. */
export const KEEP_ALIVE = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 }

/**
 * The most statements that a connection keeps prepared, so that Postgres parses and plans each of them only a few times. Cob has about 200 that it calls often.
 * These are called before statements whose text depends on the length of a list, so the latter stay unprepared.
 */
const MOST_PREPARED = 400
/** Postgres' error code for a prepared statement whose tables have changed columns meanwhile: a newer replica has upgraded them. */
const COLUMNS_CHANGED = '0A000'

/** Retry-After of the answers: a crashed server is started again within a second; emptying a full disk takes longer. */
const RETRY_SECONDS = 2
const RETRY_FULL_SECONDS = 30
/** After a statement failed for lack of space, the store counts as full for this long, unless a write succeeds. */
const FULL_MS = 60_000

/** The state of the database. A `full` one can be read, but not written. */
export type StoreState = 'ok' | 'full' | 'away'

/** A pool for Kysely. */
export class Pool implements PostgresPool {
  readonly options = {}
  readonly #pool: pg.Pool
  readonly #address: DbAddress
  #probe: Promise<boolean> | undefined
  #fullSince: number | undefined
  /** Connections of earlier rounds are not trusted. A new round begins when a connection was silent: the cause has often cut the others, too. */
  #round = 0
  readonly #rounds = new WeakMap<pg.PoolClient, number>()
  /** When each connection was given back, in milliseconds of `performance.now()`. */
  readonly #returned = new WeakMap<pg.PoolClient, number>()
  /** Statements that were requested, by text. */
  readonly #names = new Map<string, string>()

  constructor(address: DbAddress, log: Log) {
    this.#address = address
    this.#pool = new pg.Pool({
      ...address,
      max: POOL_SIZE,
      connectionTimeoutMillis: CONNECT_MS,
      statement_timeout: STATEMENT_MS,
      idleTimeoutMillis: 0,
      ...KEEP_ALIVE,
      application_name: 'cob',
    })
    // Connections in use report errors to their user as well. Without a listener here the error would end the process. The pool does not wait
    // until its connections are closed, so the last of them may see the server stop during shutdown: that is not logged.
    const broke = (err: unknown) => this.#pool.ending || log.warn({ err }, 'a database connection broke')
    this.#pool.on('connect', (client) => {
      client.on('error', broke)
      this.#rounds.set(client, this.#round)
    })
    this.#pool.on('error', broke)
  }

  /** A connection that works at this moment, as far as known. @throws Unavailable when there is none within {@link CONNECT_MS} */
  async connect(): Promise<PostgresPoolClient> {
    const end = performance.now() + CONNECT_MS
    for (;;) {
      // Without an idle connection we get a new one, or one from a caller who has just received an answer on it.
      const wasIdle = this.#pool.idleCount > 0
      if (wasIdle) await whatHasCome()
      const client = await this.#client(end - performance.now())
      if (!wasIdle || this.#isFresh(client) || (await this.#answers(client))) return new Connection(client, this)
      client.release(true)
    }
  }

  #isFresh(client: pg.PoolClient): boolean {
    return this.#rounds.get(client) === this.#round && performance.now() - (this.#returned.get(client) ?? -Infinity) < FRESH_MS
  }

  /** Records that its last statement was answered. */
  noteReturned(client: pg.PoolClient): void {
    this.#returned.set(client, performance.now())
  }

  async #client(ms: number): Promise<pg.PoolClient> {
    const waiting = this.#pool.connect()
    let late = false
    // A connection that comes after the timeout goes back to the pool.
    waiting.then(
      (client) => late && client.release(),
      () => {},
    )
    try {
      return await within('a database connection', ms, waiting)
    } catch (error) {
      late = true
      throw away(error)
    }
  }

  /**
   * Whether an idle connection still works. The server, a failover or a firewall may have ended it, and we may not have read that yet. The check is a separate statement, because the
   * caller's own cannot be repeated: without its answer nobody knows whether it was executed.
   */
  async #answers(client: pg.PoolClient): Promise<boolean> {
    const isTrusted = this.#rounds.get(client) === this.#round
    try {
      // An untrusted connection gets the statement, too: the pool cuts a connection with an open statement, but closes others in order, and would wait for an
      // answer.
      await within('an answer on an idle connection', isTrusted ? PROBE_MS : 0, client.query(''))
      return true
    } catch (error) {
      if (this.#rounds.get(client) === this.#round && error instanceof WaitTimeout) this.#round++
      return false
    }
  }

  end(): Promise<void> {
    return this.#pool.end()
  }

  get isFull(): boolean {
    return this.#fullSince !== undefined && performance.now() - this.#fullSince < FULL_MS
  }

  noteFull(isFull: boolean): void {
    this.#fullSince = isFull ? performance.now() : undefined
  }

  /**
   * The name under which connections keep a statement prepared; undefined for a statement that is requested for the first time, or when the limit is reached.
   */
  nameOf(text: string): string | undefined {
    const name = this.#names.get(text)
    if (name === undefined && this.#names.size < MOST_PREPARED) this.#names.set(text, `cob${this.#names.size}`)
    return name
  }

  /** Whether Postgres answers on a new connection. Simultaneous callers share one check. */
  isThere(): Promise<boolean> {
    return (this.#probe ??= this.#ask().finally(() => (this.#probe = undefined)))
  }

  async #ask(): Promise<boolean> {
    const client = new pg.Client({ ...this.#address, connectionTimeoutMillis: PROBE_MS, application_name: 'cob probe' })
    client.on('error', () => {}) // the wait below rejects as well
    try {
      await within(
        'an answer of the database',
        PROBE_MS,
        client.connect().then(() => client.query('select 1')),
      )
      return true
    } catch {
      return false
    } finally {
      // Not awaited: a server that does not answer does not answer this either.
      void client.end().catch(() => {})
    }
  }
}

class Connection implements PostgresPoolClient {
  readonly #client: pg.PoolClient
  readonly #pool: Pool
  /** Why the connection must not be used again. */
  #broken: Unavailable | undefined
  /** Whether it has prepared statements that are invalid now. */
  #isStale = false
  #isInTransaction = false

  constructor(client: pg.PoolClient, pool: Pool) {
    this.#client = client
    this.#pool = pool
  }

  // Kysely's other call form, with a cursor, streams rows. Nothing here uses it.
  query(cursor: never): never
  query<R>(text: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<R>>
  async query<R>(text: string, parameters: readonly unknown[] = []): Promise<PostgresQueryResult<R>> {
    if (this.#broken) throw this.#broken
    try {
      const result = await this.#answered(this.#ask<R>(text, [...parameters]))
      if (result.command === 'BEGIN') this.#isInTransaction = true
      else if (result.command === 'COMMIT' || result.command === 'ROLLBACK') this.#isInTransaction = false
      if (this.#pool.isFull && WRITES.has(result.command) && result.rowCount) this.#pool.noteFull(false)
      return result as PostgresQueryResult<R>
    } catch (error) {
      const known = unavailable(error)
      if (!known) throw error
      if (isFull(error)) this.#pool.noteFull(true)
      // A busy server keeps the connection. Every other cause needs a new connection, perhaps after a failover to another server.
      else if (!isBusy(error)) this.#broken = known
      throw known
    }
  }

  release(destroy?: boolean): void {
    this.#pool.noteReturned(this.#client)
    this.#client.release(this.#broken ?? (this.#isStale || destroy))
  }

  async #ask<R>(text: string, values: unknown[]): Promise<pg.QueryResult<R & pg.QueryResultRow>> {
    const name = this.#isStale || values.length === 0 ? undefined : this.#pool.nameOf(text)
    try {
      return await this.#client.query<R & pg.QueryResultRow>({ text, values, ...(name !== undefined && { name }) })
    } catch (error) {
      if (name === undefined || codeOf(error) !== COLUMNS_CHANGED) throw error
      this.#isStale = true
      if (this.#isInTransaction) throw new Unavailable('the tables of the database have just been changed; try again', RETRY_SECONDS, error)
      return this.#client.query<R & pg.QueryResultRow>(text, values)
    }
  }

  /** Waits for an answer for as long as Postgres is reachable. @throws Unavailable */
  async #answered<T>(answer: Promise<T>): Promise<T> {
    answer.catch(() => {}) // it may come after we gave up
    const { promise: gaveUp, reject } = Promise.withResolvers<never>()
    const began = performance.now()
    const look = async () => {
      if (performance.now() - began < GIVE_UP_MS && (await this.#pool.isThere())) later()
      else reject(away(new Error(`no answer to a statement within ${Math.round(performance.now() - began)} ms`)))
    }
    let timer: NodeJS.Timeout
    const later = () => void (timer = setTimeout(() => void look().catch(reject), SILENT_MS))
    later()
    try {
      return await Promise.race([answer, gaveUp])
    } finally {
      clearTimeout(timer!)
    }
  }
}

/**
 * Resolves when all data that the kernel has received for this process has been read: one whole turn of the event loop. The pool drops connections whose end is
 * among these data.
 */
async function whatHasCome(): Promise<void> {
  await turnOfLoop()
  await turnOfLoop()
}

const WRITES = new Set(['INSERT', 'UPDATE', 'DELETE'])

const away = (cause: unknown): Unavailable => unavailable(cause) ?? new Unavailable(AWAY, RETRY_SECONDS, cause)

const codeOf = (error: unknown): string => (error as { code?: string }).code ?? ''

/** No space on its disk, or an error of its disk. */
const isFull = (error: unknown): boolean => error instanceof pg.DatabaseError && /^(53100|58030)$/.test(codeOf(error))

/** Class 53: out of memory, too many connections. 57014: a statement over its time limit. */
const isBusy = (error: unknown): boolean => error instanceof pg.DatabaseError && /^53|^57014$/.test(codeOf(error))

/**
 * The reason when an error means that the database is away, full or busy (SQLSTATE codes of Postgres, appendix A; messages of `pg`); undefined
 * for every other error.
 */
function unavailable(error: unknown): Unavailable | undefined {
  if (error instanceof Unavailable) return error
  const code = codeOf(error)
  if (isFull(error)) return new Unavailable('the database has no space left on its disk', RETRY_FULL_SECONDS, error)
  if (isBusy(error)) return new Unavailable('the database is too busy at the moment; try again', RETRY_SECONDS, error)
  const isAway =
    error instanceof pg.DatabaseError
      ? // Class 08: connection failed. 57P: the server stops, has crashed, or starts. 25006: a standby that accepts no writes.
        /^08|^57P|^25006$/.test(code)
      : // Errors of sockets, and those of pg itself about a connection that has ended.
        /^E[A-Z]+$/.test(code) || /^(Connection terminated|Client (was closed|has encountered a connection error))/.test(String((error as Error).message))
  return isAway ? new Unavailable(AWAY, RETRY_SECONDS, error) : undefined
}

const AWAY = 'the database cannot be reached at the moment; try again'
