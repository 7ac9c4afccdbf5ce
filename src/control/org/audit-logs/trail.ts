// Writes the audit log: requests that change something before their answers leave, others in batches.
import type { Log } from '../../../base/log.ts'
import { within } from '../../../base/wait.ts'
import type { Audit } from '../../../http/audit.ts'
import type { Db } from '../../../store/db.ts'
import { insertRows, rowOf, type AuditRow } from './rows.ts'

/** Requests that only read are written at least this often: a service that is killed loses so much of them. */
const READS_MS = 500
/** Most rows of one statement. */
const AT_ONCE = 500
/** Most rows that are kept while the database does not take them: about 10 MB. */
const MAX_WAITING = 20_000
/** Longest time that an answer waits for its entry. A healthy database needs less than a millisecond. */
const ANSWER_MS = 2_000
/** Time between two tries while the database does not take rows. */
const RETRY_MS = 1_000

export interface Trail extends AsyncDisposable {
  note: Audit
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
 * The audit log of this replica. One statement is under way at a time; what is noted meanwhile goes into the next. While the database does not take rows,
 * no answer waits: they are kept and written later, up to a limit; how many are lost beyond that is logged. `insert` stores rows: in the table
 * unless a test says so.
 */
export function auditTrail(db: Db, log: Log, insert = (rows: readonly AuditRow[]) => insertRows(db, rows)): Trail {
  let next = newBatch()
  let current: Batch | undefined
  let timer: NodeJS.Timeout | undefined
  /** Whether the last try failed, or took so long that an answer left without it. */
  let isAway = false
  let lost = 0

  function later(ms: number): void {
    timer ??= setTimeout(() => {
      timer = undefined
      void write()
    }, ms)
  }

  /** Writes what has been noted, unless that is under way already. */
  async function write(): Promise<void> {
    while (!current && next.rows.length > 0) {
      current = next
      next = newBatch()
      const left = await stored(current.rows)
      next.rows.unshift(...left)
      current.done.resolve()
      current = undefined
      if (left.length > 0) return later(RETRY_MS)
    }
  }

  /** Stores rows, and returns those which could not be stored. */
  async function stored(rows: AuditRow[]): Promise<AuditRow[]> {
    for (let from = 0; from < rows.length; from += AT_ONCE) {
      try {
        await insert(rows.slice(from, from + AT_ONCE))
      } catch (err) {
        away(err)
        return rows.slice(from)
      }
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

  function flush(): Promise<void> {
    const last = next.rows.length > 0 ? next : current
    void write()
    return last ? within('the audit log', ANSWER_MS, last.done.promise).catch(away) : Promise.resolve()
  }

  return {
    note(entry, changes) {
      if (next.rows.length >= MAX_WAITING) {
        next.rows.shift()
        if (++lost === 1) log.error({}, 'the audit log loses entries: the database has not taken any for too long')
      }
      next.rows.push(rowOf(entry))
      if (changes && !isAway) return flush()
      later(isAway ? RETRY_MS : READS_MS)
      return undefined
    },
    flush,
    async [Symbol.asyncDispose]() {
      const all = async () => {
        await flush()
        await flush()
      }
      await all()
      clearTimeout(timer)
      const { length } = next.rows
      if (length > 0) log.error({ entries: length }, 'entries of the audit log are lost: the database did not take them')
    },
  }
}
