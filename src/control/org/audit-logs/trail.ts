// Writes the audit log: requests that change something while they are handled, others and all results in batches.
import type { Log } from '../../../base/log.ts'
import { within } from '../../../base/wait.ts'
import type { Audit, AuditEntry, Begun } from '../../../http/audit.ts'
import type { Db } from '../../../store/db.ts'
import { completeRows, insertRows, rowOf, type AuditRow } from './rows.ts'

/** Requests that only read, and the results of others, are written at least this often: a service that is killed loses so much of them. */
const READS_MS = 500
/** Most rows of one statement. */
const AT_ONCE = 500
/** Most rows that are kept while the database does not take them: each of 2 KB at most. */
const MAX_WAITING = 20_000
/** Longest time that an answer waits for its entry. A healthy database needs less than a millisecond. */
const ANSWER_MS = 2_000
/** Time between two tries while the database does not take rows. */
const RETRY_MS = 1_000

/** The table. */
export interface AuditStore {
  insert(rows: readonly AuditRow[]): Promise<void>
  /** Adds the results of rows that are there already. */
  complete(rows: readonly AuditRow[]): Promise<void>
}

export interface Trail extends Audit, AsyncDisposable {
  /** Resolves when all that has been noted is stored, or cannot be stored now. */
  flush(): Promise<void>
}

/** Rows that are written together, and who waits for that. */
interface Batch {
  rows: AuditRow[]
  done: PromiseWithResolvers<void>
}

const newBatch = (): Batch => ({ rows: [], done: Promise.withResolvers<void>() })

/**
 * The audit log of this replica. One statement is under way at a time; what comes meanwhile goes into the next. The row of a change is written at once,
 * beside the change itself, and its result with the reads. While the database does not take rows, no answer waits: they are kept and written later, up
 * to a limit; how many are lost beyond that is logged. `store` is the table unless a test says so.
 */
export function auditTrail(
  db: Db,
  log: Log,
  store: AuditStore = { insert: (rows) => insertRows(db, rows), complete: (rows) => completeRows(db, rows) },
): Trail {
  let next = newBatch()
  let current: Batch | undefined
  /** Stored rows that have got their result since. */
  let completed: AuditRow[] = []
  /** Whether the next statement takes them, too. */
  let isWhole = false
  let timer: NodeJS.Timeout | undefined
  /** Whether the last try failed, or took so long that an answer left without it. */
  let isAway = false
  let lost = 0
  let isClosed = false

  function later(ms: number): void {
    if (!isClosed)
      timer ??= setTimeout(() => {
        timer = undefined
        void write(true)
      }, ms)
  }

  /** Writes what has come; also results if `whole`. What is under way already goes on with it. */
  async function write(whole: boolean): Promise<void> {
    isWhole ||= whole
    while (!isClosed && !current && (next.rows.length > 0 || (isWhole && completed.length > 0))) {
      const batch = (current = next)
      const results = isWhole ? completed : []
      next = newBatch()
      completed = isWhole ? [] : completed
      isWhole = false
      const left = await stored(batch.rows, (rows) => store.insert(rows))
      const unsaid = left.length > 0 ? results : await stored(results, (rows) => store.complete(rows))
      next.rows.unshift(...left)
      lost += next.rows.splice(0, Math.max(0, next.rows.length - MAX_WAITING)).length
      completed.unshift(...unsaid)
      batch.done.resolve()
      current = undefined
      if (left.length > 0 || unsaid.length > 0) return later(RETRY_MS)
    }
  }

  /** Stores rows, and returns those which could not be stored. */
  async function stored(rows: AuditRow[], put: (rows: AuditRow[]) => Promise<void>): Promise<AuditRow[]> {
    for (let from = 0; from < rows.length; from += AT_ONCE) {
      const began = performance.now()
      try {
        await put(rows.slice(from, from + AT_ONCE))
      } catch (err) {
        away(err)
        return rows.slice(from)
      }
      // A database that is so slow would hold the next answer again.
      if (performance.now() - began > ANSWER_MS / 2) continue
      if (isAway) log.info({ lost }, 'the audit log is written again')
      isAway = false
      lost = 0
    }
    return []
  }

  function away(err: unknown): void {
    if (!isAway) log.error({ err }, 'the audit log cannot be written; requests go on, and their entries are written later')
    isAway = true
  }

  const storedIn = (batch: Batch): Promise<void> =>
    within('the audit log', ANSWER_MS, batch.done.promise).catch((err: unknown) => {
      if (!isAway) log.warn({ err }, 'the audit log is written slowly; answers leave before their entries are')
      isAway = true
    })

  /** Resolves when what has come until now is stored. */
  function flush(): Promise<void> {
    const last = next.rows.length > 0 || completed.length > 0 ? next : current
    void write(true)
    return last ? storedIn(last) : Promise.resolve()
  }

  function add(row: AuditRow): void {
    if (next.rows.length >= MAX_WAITING) {
      next.rows.shift()
      if (++lost === 1) log.error({}, 'the audit log loses entries: the database has not taken any for too long')
    }
    next.rows.push(row)
    if (isAway) later(RETRY_MS)
  }

  /** Takes an entry, and returns how it gets a result. */
  function taken(entry: AuditEntry): Begun['end'] {
    const row = rowOf(entry)
    add(row)
    const batch = next
    return (status, durationMs) => {
      if (row.status === status) return
      row.status = status
      row.duration_ms = Math.round(durationMs)
      // Otherwise the row is stored with its result.
      if (batch !== next && completed.push(row) > MAX_WAITING) completed.shift()
      later(READS_MS)
    }
  }

  return {
    note(entry) {
      const end = taken(entry)
      later(READS_MS)
      return { stored: undefined, end }
    },
    begin(entry) {
      const end = taken(entry)
      // The work itself goes first.
      if (!isAway) setImmediate(() => void write(false))
      return { stored: isAway ? undefined : storedIn(next), end }
    },
    flush,
    async [Symbol.asyncDispose]() {
      await flush()
      await flush()
      isClosed = true
      clearTimeout(timer)
      const length = next.rows.length + (current?.rows.length ?? 0)
      if (length > 0) log.error({ entries: length }, 'entries of the audit log are lost: the database did not take them')
    },
  }
}
