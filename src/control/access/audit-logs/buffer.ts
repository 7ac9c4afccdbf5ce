// The buffer of the audit log: an SQLite file in the data directory. It gets each entry at once and keeps it until the table has it.
import { closeSync, openSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import type { AuditRow } from './rows.ts'

const FILE = 'buffer.sqlite'
/** Rows in one batch. */
export const AT_ONCE = 500
/**
 * Rows of other replicas that are older than this are stored by any replica, because their replica is probably dead. If it lives, the rows are stored twice,
 * which changes nothing.
 */
const LEFT_MS = 5_000
/**
 * How long a call waits for another process that writes; the service is blocked meanwhile. A write takes a millisecond, unless the process is stopped just
 * then.
 */
const LOCKED_MS = 20
/** The same for opening the file: another process may be creating it, repairing it after a kill, or closing it. */
const OPEN_MS = 5_000

/** A row in the buffer. Its id may be reused after the row is removed. */
export interface Kept {
  id: number
  at: number
  replica: string
  json: string
}

/**
 * Rows of all replicas on one data directory, in the order in which they arrived. When {@link append} returns, the row is written but not synced: it survives
 * the processes, and is lost only when the machine fails before its kernel has written it.
 */
export class AuditBuffer implements Disposable {
  readonly #file: DatabaseSync
  readonly #replica: string
  readonly #insert: StatementSync
  readonly #select: StatementSync
  readonly #delete: StatementSync
  /** Size of this replica's rows, in bytes. */
  bytes = 0

  private constructor(file: DatabaseSync, replica: string) {
    this.#file = file
    this.#replica = replica
    this.#insert = file.prepare('insert into rows (replica, at, json) values (?, ?, ?)')
    this.#select = file.prepare('select * from rows where replica = ? or at <= ? order by id limit ?')
    this.#delete = file.prepare('delete from rows where id = ? and at = ?')
  }

  /**
   * Opens the buffer in `dir`; `replica` is the unique name of this process. A file that a power loss has broken is renamed: `broken` is its new name. @throws
   * when it cannot be opened
   */
  static open(dir: string, replica: string): { buffer: AuditBuffer; broken?: string } {
    const path = join(dir, FILE)
    closeSync(openSync(path, 'a', 0o600))
    try {
      return { buffer: new AuditBuffer(opened(path), replica) }
    } catch (error) {
      if (!isBroken(error)) throw error
      const broken = `${path}.broken-${Date.now()}`
      renameSync(path, broken)
      return { ...AuditBuffer.open(dir, replica), broken }
    }
  }

  /** @throws when the disk refuses it */
  append(row: AuditRow): void {
    const json = JSON.stringify(row)
    this.#insert.run(this.#replica, Date.now(), json)
    this.bytes += json.length
  }

  /** The first rows of this replica, and those of dead replicas. `isStart`: also rows that others have written just now. */
  first(isStart = false): Kept[] {
    const rows = this.#select.all(this.#replica, Date.now() - (isStart ? 0 : LEFT_MS), AT_ONCE) as unknown as Kept[]
    // In this case the result has all rows of this replica. Other replicas may have removed some.
    if (rows.length < AT_ONCE) this.bytes = rows.reduce((sum, { replica, json }) => sum + (replica === this.#replica ? json.length : 0), 0)
    return rows
  }

  remove(rows: readonly Kept[]): void {
    this.#file.exec('begin')
    try {
      for (const { id, at } of rows) this.#delete.run(id, at)
      this.#file.exec('commit')
    } catch (error) {
      // After an error by a full disk, SQLite has already rolled back.
      if (this.#file.isTransaction) this.#file.exec('rollback')
      throw error
    }
    for (const { replica, json } of rows) if (replica === this.#replica) this.bytes -= json.length
  }

  [Symbol.dispose](): void {
    this.#file.close()
  }
}

function opened(path: string): DatabaseSync {
  const file = new DatabaseSync(path, { timeout: OPEN_MS })
  try {
    file.exec(`pragma journal_mode = wal; pragma synchronous = off;
      create table if not exists rows (id integer primary key, at integer not null, replica text not null, json text not null)`)
    const [{ quick_check: found }] = file.prepare('pragma quick_check(1)').all() as [{ quick_check: string }]
    if (found !== 'ok') throw Object.assign(new Error(found), { errcode: CORRUPT })
    file.exec(`pragma busy_timeout = ${LOCKED_MS}`)
    return file
  } catch (error) {
    file.close()
    throw error
  }
}

/** Result codes of SQLite. */
const [CORRUPT, NOT_A_DATABASE] = [11, 26]
const isBroken = (error: unknown): boolean => [CORRUPT, NOT_A_DATABASE].includes((error as { errcode?: number }).errcode! & 0xff)
