// Writes the audit log: each entry into the buffer at once, and what the buffer has into the table, in batches.
import type { Log } from '../../../base/log.ts'
import { Mutex } from '../../../base/mutex.ts'
import { WaitTimeout, within } from '../../../base/wait.ts'
import type { Audit, AuditEntry, Begun } from '../../../http/audit.ts'
import { batchesOf, resultOf, type Batch, type Broken } from './lines.ts'
import { AuditBuffer, type Kept, type Segment } from './buffer.ts'
import { rowOf, type StoreRows } from './rows.ts'

/** Entries are brought into the table so long after they came. */
const STORE_MS = 500
/** Longest time that callers wait until the table has what they have done: those who read the log, and those whose entry the disk does not take. */
const WAIT_MS = 2_000
/** Longest time that a start waits until entries that dead services have left are in the table. What is left then follows while it serves. */
const REPLAY_MS = 5_000
/** How often a replica looks for those that others have left. */
const LOOK_MS = 2_000

export interface AuditLog extends Audit, AsyncDisposable {
  /** Resolves when all that this replica has noted is in the table, or cannot be stored now. */
  flush(): Promise<void>
}

export interface AuditLogSettings {
  /** Where buffers are. */
  dir: string
  /** The unique name of this process. */
  replica: string
  store: StoreRows
  log: Log
  signal: AbortSignal
}

/**
 * The audit log of this replica. Resolves when entries that dead ones have left in the same directory are stored; a database that does not take them now does not prevent that. An entry or a result is in the buffer
 * when the call returns. While the disk does not take it, the answer to a change waits until the table has it, but not while the database does not take anything either.
 */
export async function openAuditLog({ dir, replica, store, log, signal }: AuditLogSettings): Promise<AuditLog> {
  await using opened = new AsyncDisposableStack()
  const buffer = opened.use(await AuditBuffer.open(dir, replica, log))
  const turns = new Mutex()
  let timer: NodeJS.Timeout | undefined
  /** Whether the last try failed, or took so long that an answer left without it. */
  let isAway = false
  let isClosed = false

  function later(): void {
    if (isClosed) return
    timer ??= setTimeout(() => {
      void turns.run(storeAll).then(() => {
        timer = undefined
        if (!buffer.isEmpty) later()
      })
    }, STORE_MS)
  }

  /** Stores what is in the buffer. The newest segment ends when older ones are stored: while the database is away, there are few. */
  async function storeAll(): Promise<void> {
    if (!(await storeQueue())) return
    buffer.seal()
    await storeQueue()
  }

  async function storeQueue(): Promise<boolean> {
    for (let segment = buffer.oldest; segment; segment = buffer.oldest) if (!(await storeFirst(segment))) return false
    return true
  }

  /** Stores the first segment and removes it. False: the database does not take it now. */
  async function storeFirst(segment: Segment): Promise<boolean> {
    const { file } = segment
    const broken: Broken = { count: 0, lines: [] }
    try {
      for await (const batch of batchesOf(buffer.lines(segment), broken)) if (isClosed || !(await stored(batch))) return false
    } catch (err) {
      // No descriptor is free. That ends.
      if (['EMFILE', 'ENFILE'].includes((err as NodeJS.ErrnoException).code ?? '')) return false
      log.error({ err, file }, 'a file of the audit log cannot be read; it stays for the next start')
      await buffer.done({ keep: true })
      return true
    }
    if (broken.count > 0) log.warn({ file, ...broken }, 'lines of the audit log are not whole, and are left out')
    await buffer.done({ keep: false })
    return true
  }

  async function stored({ rows, results }: Batch): Promise<boolean> {
    const began = performance.now()
    try {
      await store(rows, results)
    } catch (err) {
      if (!isAway) log.error({ err }, 'the audit log cannot be stored; requests go on, and their entries are stored later')
      isAway = true
      return false
    }
    // A database that is so slow would hold the next answer again.
    if (performance.now() - began > WAIT_MS / 2) return true
    const lost = buffer.takeLost()
    if (isAway || lost > 0) log.info({ lost }, 'the audit log is stored again')
    isAway = false
    return true
  }

  const flush = (): Promise<void> =>
    within('the audit log', WAIT_MS, turns.run(storeAll)).catch((err: unknown) => {
      if (!isAway) log.warn({ err }, 'the audit log is stored slowly')
      isAway = true
    })

  /** Takes an entry, and returns where it is and how it gets a result. */
  function taken(entry: AuditEntry): { kept: Kept; end: Begun['end'] } {
    const row = rowOf(entry)
    const kept = buffer.append(JSON.stringify(row))
    later()
    const end: Begun['end'] = (status, durationMs) => {
      if (row.status === status || kept === undefined) return
      row.status = status
      row.duration_ms = Math.round(durationMs)
      buffer.append(JSON.stringify(resultOf(row)), true)
      later()
    }
    return { kept, end }
  }

  let look: NodeJS.Timeout | undefined
  opened.defer(async () => {
    clearInterval(look)
    await flush()
    isClosed = true
    clearTimeout(timer)
  })
  await buffer.takeOver()
  await within('the buffers of earlier services', REPLAY_MS, turns.run(storeAll), signal).catch((err: unknown) => {
    if (!(err instanceof WaitTimeout)) throw err
    log.warn({ err }, 'entries of the audit log that earlier services have left are stored while this one serves')
  })
  if (!buffer.isEmpty) later()
  // While the database is away, what others have left is better where it is.
  look = setInterval(() => isAway || void buffer.takeOver().then(() => buffer.isEmpty || later()), LOOK_MS)

  const owner = opened.move()
  return {
    note: (entry) => ({ stored: undefined, end: taken(entry).end }),
    begin(entry) {
      const { kept, end } = taken(entry)
      return { stored: kept === 'memory' && !isAway ? flush() : undefined, end }
    },
    flush,
    [Symbol.asyncDispose]: () => owner.disposeAsync(),
  }
}
