// The buffer of the audit log: an SQLite file in the data directory that gets each entry at once, until the table has it.
import { closeSync, openSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import type { AuditRow } from './rows.ts'

const FILE = 'buffer.sqlite'
/** Rows that are stored together. */
export const AT_ONCE = 500
/** What others have left for so long is stored by any replica: they are dead. If they live, it is stored twice, which changes nothing. */
const LEFT_MS = 5_000
/** How long a call waits for another process that writes, in which the service does nothing else. That takes a millisecond, unless the process is stopped just then. */
const LOCKED_MS = 20
/** The same for opening: others may just make the file, repair it after a kill, or close it. */
const OPEN_MS = 5_000

/** A row in the buffer. Its id may be used again when it is removed, but not at the same time. */
export interface Kept {
  id: number
  at: number
  replica: string
  json: string
}

/**
 * Rows in the order in which they came, of all replicas on one data directory. A row has been written when {@link append} returns, but not synced: it outlives the processes, and is lost
 * only when the machine dies before its kernel has written it.
 */
export class AuditBuffer implements Disposable {
  readonly #file: DatabaseSync
  readonly #replica: string
  readonly #insert: StatementSync
  readonly #select: StatementSync
  readonly #delete: StatementSync
  /** The bytes of this replica's rows. */
  bytes = 0

  private constructor(file: DatabaseSync, replica: string) {
    this.#file = file
    this.#replica = replica
    this.#insert = file.prepare('insert into rows (replica, at, json) values (?, ?, ?)')
    this.#select = file.prepare('select * from rows where replica = ? or at <= ? order by id limit ?')
    this.#delete = file.prepare('delete from rows where id = ? and at = ?')
  }

  /** The buffer in `dir`, for the unique name of this process. A file that a loss of power has broken is put aside: `broken` is its new name. @throws when it cannot be opened */
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

  /** @throws when the disk does not take it */
  append(row: AuditRow): void {
    const json = JSON.stringify(row)
    this.#insert.run(this.#replica, Date.now(), json)
    this.bytes += json.length
  }

  /** The first rows of this replica, and those that dead ones have left. `isStart`: also what came from others just now. */
  first(isStart = false): Kept[] {
    const rows = this.#select.all(this.#replica, Date.now() - (isStart ? 0 : LEFT_MS), AT_ONCE) as unknown as Kept[]
    // These are all of ours. Other replicas may have removed some.
    if (rows.length < AT_ONCE) this.bytes = rows.reduce((sum, { replica, json }) => sum + (replica === this.#replica ? json.length : 0), 0)
    return rows
  }

  remove(rows: readonly Kept[]): void {
    this.#file.exec('begin')
    try {
      for (const { id, at } of rows) this.#delete.run(id, at)
      this.#file.exec('commit')
    } catch (error) {
      // On a full disk it is rolled back already.
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

/** Results of SQLite. */
const [CORRUPT, NOT_A_DATABASE] = [11, 26]
const isBroken = (error: unknown): boolean => [CORRUPT, NOT_A_DATABASE].includes((error as { errcode?: number }).errcode! & 0xff)
