// Writes the audit log: each entry goes into the buffer at once, and the buffer's entries go into the table in batches.
import type { Log } from '../../../base/log.ts'
import { Mutex } from '../../../base/mutex.ts'
import { WaitTimeout, within } from '../../../base/wait.ts'
import { PENDING, type Audit, type AuditEntry } from '../../../http/audit.ts'
import { AT_ONCE, AuditBuffer } from './buffer.ts'
import { rowOf, type AuditRow, type StoreRows } from './rows.ts'

/** Interval of moving entries from the buffer to the table. */
const STORE_MS = 500
/** Longest time that callers wait until the table has their entries: callers who read the log, and callers whose entry the disk refuses. */
const WAIT_MS = 2_000
/** Longest time that a start waits until entries of dead services are in the table. The rest follows while the service runs. */
const REPLAY_MS = 5_000
/** Most bytes of this replica in the buffer while the database refuses entries: more than 20,000 of the longest entries, some 100,000 usual ones. */
export const MAX_BYTES = 64 * 1024 * 1024
/** Most entries in memory while the disk refuses them, too. */
const MAX_IN_MEMORY = 10_000
/**
 * After a failure, the disk is not used for this time: if another process was stopped while it held the lock of the file, not every call should wait for it.
 */
const AGAIN_MS = 1_000
/** If the disk fails again within this time, it counts as the same failure, which is logged once. */
const QUIET_MS = 60_000

export interface AuditLog extends Audit, AsyncDisposable {
  /** Resolves when all entries of this replica are in the table, or cannot be stored now. */
  flush(): Promise<void>
}

export interface AuditLogSettings {
  /** The directory of the buffer. */
  dir: string
  /** The unique name of this process. */
  replica: string
  store: StoreRows
  log: Log
  signal: AbortSignal
}

/**
 * The audit log of this replica. Resolves when entries that dead replicas left in the same directory are stored; if the database refuses them now, it resolves
 * without that. An entry or a result is in the buffer when the call returns. While the disk refuses it, the answer to a change waits until the table has it; if
 * the database refuses it as well, the answer does not wait.
 */
export async function openAuditLog({ dir, replica, store, log, signal }: AuditLogSettings): Promise<AuditLog> {
  const { buffer, broken } = AuditBuffer.open(dir, replica)
  if (broken !== undefined) log.error({ broken }, 'the buffer of the audit log is broken, most likely by a loss of power: it was put aside')
  const turns = new Mutex()
  /** Entries that the disk has refused. */
  const inMemory: AuditRow[] = []
  let failedAt = -Infinity
  let lost = 0
  /** Whether the last attempt failed, or took so long that an answer was sent without it. */
  let isAway = false
  let isClosed = false

  /** Stores a row in the buffer or in memory; undefined when it is lost. `isResult`: its entry is stored, so this row is stored beyond the limit, too. */
  function keep(row: AuditRow, isResult = false): 'buffer' | 'memory' | undefined {
    if (buffer.bytes > MAX_BYTES && !isResult) return lose()
    if (performance.now() - failedAt > AGAIN_MS) {
      try {
        buffer.append(row)
        return 'buffer'
      } catch (err) {
        diskFailed(err)
      }
    }
    if (isClosed || inMemory.length >= MAX_IN_MEMORY) return lose()
    inMemory.push({ ...row })
    return 'memory'
  }

  function lose(): undefined {
    if (++lost === 1) log.error({}, 'the audit log loses entries: its buffer is full, or closed')
  }

  function diskFailed(err: unknown): void {
    const now = performance.now()
    if (now - failedAt > QUIET_MS)
      log.error({ err }, 'the buffer of the audit log cannot be written; entries go to the database directly, and answers wait for that')
    failedAt = now
  }

  /** Moves all entries to the table, batch by batch, until the database refuses one. Entries that arrive meanwhile wait for the next call. */
  async function storeAll(isStart = false): Promise<void> {
    while (!isClosed) {
      const kept = buffer.first(isStart)
      const direct = inMemory.splice(0)
      if (kept.length + direct.length === 0) return
      if (!(await stored(merged([...kept.map(({ json }) => JSON.parse(json) as AuditRow), ...direct])))) return void inMemory.unshift(...direct)
      if (!isClosed) buffer.remove(kept)
      if (kept.length < AT_ONCE) return
    }
  }

  async function stored(rows: AuditRow[]): Promise<boolean> {
    const began = performance.now()
    try {
      await put(rows, store, log)
    } catch (err) {
      if (!isAway) log.error({ err }, 'the audit log cannot be stored; requests go on, and their entries are stored later')
      isAway = true
      return false
    }
    // Report no recovery yet: such a slow database would delay the next answer, too.
    if (performance.now() - began > WAIT_MS / 2) return true
    if (isAway || lost > 0) log.info({ lost }, 'the audit log is stored again')
    lost = 0
    isAway = false
    return true
  }

  const take = (isStart?: boolean): Promise<void> => turns.run(() => storeAll(isStart)).catch(diskFailed)

  const flush = (): Promise<void> =>
    within('the audit log', WAIT_MS, take()).catch((err: unknown) => {
      if (!isAway) log.warn({ err }, 'the audit log is stored slowly')
      isAway = true
    })

  function begin(entry: AuditEntry): { place: ReturnType<typeof keep>; end: (status: number, durationMs: number) => void } {
    const row = rowOf(entry)
    const place = keep(row)
    const end = (status: number, durationMs: number) => {
      if (place === undefined || row.status === status) return
      row.status = status
      row.duration_ms = Math.round(durationMs)
      keep(row, true)
    }
    return { place, end }
  }

  await within('what earlier services have left of the audit log', REPLAY_MS, take(true), signal).catch((err: unknown) => {
    if (!(err instanceof WaitTimeout)) {
      isClosed = true
      buffer[Symbol.dispose]()
      throw err
    }
    log.warn({ err }, 'entries of the audit log that earlier services have left are stored while this one serves')
  })
  let isStoring = false
  const timer = setInterval(() => {
    if (isStoring) return
    isStoring = true
    void take().finally(() => (isStoring = false))
  }, STORE_MS)

  return {
    note: (entry) => ({ stored: undefined, end: begin(entry).end }),
    begin(entry) {
      const { place, end } = begin(entry)
      return { stored: place === 'buffer' || isAway ? undefined : flush(), end }
    },
    flush,
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      await flush()
      isClosed = true
      if (buffer.bytes > 0) log.warn({ bytes: buffer.bytes }, 'entries of the audit log stay in its buffer until the next start')
      if (inMemory.length > 0) log.error({ entries: inMemory.length }, 'entries of the audit log are lost: neither the disk nor the database took them')
      buffer[Symbol.dispose]()
    },
  }
}

/**
 * Stores rows together, or one by one if that fails, so that a row which the database always refuses does not block the others. @throws when the database
 * accepts none now
 */
async function put(rows: readonly AuditRow[], store: StoreRows, log: Log): Promise<void> {
  try {
    await store(rows)
  } catch (err) {
    if (!isRefused(err)) throw err
    if (rows.length > 1) for (const row of rows) await put([row], store, log)
    else log.error({ err, event: rows[0]!.event_id }, 'an entry of the audit log is not stored: the database refuses its values')
  }
}

/** Postgres' classes of errors for values that are always refused: data errors, and constraint violations. */
const isRefused = (error: unknown): boolean => /^2[23]/.test(String((error as { code?: unknown }).code))

/** Each entry once, with its last result. */
function merged(rows: readonly AuditRow[]): AuditRow[] {
  const byId = new Map<string, AuditRow>()
  for (const row of rows) if (row.status !== PENDING || !byId.has(row.event_id)) byId.set(row.event_id, row)
  return [...byId.values()]
}
