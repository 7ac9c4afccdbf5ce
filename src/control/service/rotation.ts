// Rotates the key that encrypts stored values: makes a new key, then encrypts every value again, while the service runs or not.
import { sql } from 'kysely'
import { randomBytes } from 'node:crypto'
import { readKeyFile, sealingKey, writeKeyFile, type FileKey, type Keys } from '../../base/keys.ts'
import { headerOf, keyIdOf, makeSealer, type Sealer } from '../../base/sealed.ts'
import { sleep } from '../../base/wait.ts'
import type { Db } from '../../store/db.ts'
import type { SealedColumn, SealedValue } from '../../store/sealed-columns.ts'
import { sealedColumns } from '../modules.ts'

/** Values that are read at once. Each is written by its own statement, which locks no other row. */
const AT_ONCE = 100
/**
 * A request that has encrypted something with the previous key has usually stored it within this time. A later one stays readable, and `cob secrets list`
 * counts it.
 */
const SETTLE_MS = 2_000
/** Most rounds over all values. A further round is needed when something has changed during the last one. */
const MAX_ROUNDS = 10
/** After this time, no request is left that started before a key was replaced. */
export const FORGET_AFTER_MS = 3600_000

export interface Rotated {
  /** Number of values that were encrypted again. */
  changed: number
  /** Values that no key can decrypt, as `table id`. They stay unchanged. */
  unreadable: string[]
}

interface ReencryptSettings {
  db: Db
  keys: Keys
  signal: AbortSignal
  settleMs?: number
  columns?: readonly SealedColumn[]
}

/** Encrypts all values with the first key that another key has encrypted. If it was interrupted, run it again: completed changes stay. */
export async function reencrypt({ db, keys, signal, settleMs = SETTLE_MS, columns = sealedColumns }: ReencryptSettings): Promise<Rotated> {
  const sealers = new Map<string, Sealer>()
  const sealerOf = (purpose: string): Sealer => {
    const sealer = sealers.get(purpose) ?? makeSealer(keys, purpose)
    sealers.set(purpose, sealer)
    return sealer
  }
  const unreadable = new Set<string>()

  async function change({ table, replace }: SealedColumn, { id, sealed, purpose }: SealedValue): Promise<boolean> {
    const sealer = sealerOf(purpose)
    let text: string
    try {
      text = sealer.open(sealed, id)
    } catch {
      unreadable.add(`${table} ${id}`)
      return false
    }
    // If a caller has changed the value meanwhile, the next round finds it if it still has to be changed.
    return replace(db, id, sealed, sealer.seal(text, id))
  }

  async function round(): Promise<number> {
    let changed = 0
    for (const column of columns) {
      const header = headerOf(keys.sealing()[0])
      let after = ''
      for (;;) {
        signal.throwIfAborted()
        const values = await column.others(db, header, after, AT_ONCE)
        for (const value of values) if (await change(column, value)) changed++
        if (values.length < AT_ONCE) break
        after = values.at(-1)!.id
      }
    }
    return changed
  }

  let sum = await round()
  await sleep(settleMs, signal)
  for (let rounds = 1; ; rounds++) {
    const changed = await round()
    sum += changed
    if (changed === 0) return { changed: sum, unreadable: [...unreadable].toSorted() }
    if (rounds === MAX_ROUNDS)
      throw new Error(
        'values are still being encrypted with an older key: is there a service that does not have the new one? Give it the key, and run this again',
      )
  }
}

/** Allows one rotation at a time, of all services and commands: a connection holds the lock. @throws when another one runs */
export async function alone<T>(db: Db, work: () => Promise<T>): Promise<T> {
  return db.connection().execute(async (connection) => {
    const { rows } = await sql<{ locked: boolean }>`select pg_try_advisory_lock(hashtextextended('cob:secrets', 0)) as locked`.execute(connection)
    if (!rows[0]?.locked) throw new Error('another "cob secrets" changes the keys of this database already')
    try {
      return await work()
    } finally {
      // A broken connection has already released it.
      await sql`select pg_advisory_unlock(hashtextextended('cob:secrets', 0))`.execute(connection).catch(() => {})
    }
  })
}

/** Adds a new key before the others in the file. If an earlier rotation was interrupted, keeps the key that it had added. True when a key was added. */
export function beginRotation(file: string): boolean {
  const keys = readKeyFile(file)
  if (keys[0]?.isTakingOver) return false
  writeKeyFile(file, [{ ...sealingKey(randomBytes(32)), madeAt: new Date(), isTakingOver: true }, ...keys])
  return true
}

/** Records in the file that all values are encrypted again. */
export const completeRotation = (file: string): void =>
  writeKeyFile(
    file,
    readKeyFile(file).map((key) => ({ ...key, isTakingOver: false })),
  )

/** Number of values for each key id; undefined: values from before keys had ids. */
export async function countByKey(db: Db, keys: Keys): Promise<Map<string | undefined, number>> {
  const counts = new Map<string | undefined, number>()
  const { length } = headerOf(keys.root)
  for (const { beginnings } of sealedColumns)
    for (const { beginning, count } of await beginnings(db, length)) {
      const id = keyIdOf(beginning)
      counts.set(id, (counts.get(id) ?? 0) + count)
    }
  return counts
}

/**
 * Removes the keys of the file that no stored value needs, except the first. Returns them, and those that stay, with the reason.
 * @throws when a rotation is not complete
 */
export async function forgetUnused(
  db: Db,
  keys: Keys,
  file: string,
  now = new Date(),
): Promise<{ forgotten: FileKey[]; kept: { key: FileKey; why: string }[] }> {
  const [first, ...others] = readKeyFile(file)
  if (first?.isTakingOver) throw new Error('a rotation was ended before it was complete; run "cob secrets rotate" first')
  if (!first || others.length === 0) return { forgotten: [], kept: [] }
  const age = now.getTime() - first.madeAt.getTime()
  const counts = await countByKey(db, keys)
  const kept = others.flatMap((key) => {
    const count = counts.get(key.id) ?? 0
    if (count > 0) return [{ key, why: `${count} values are encrypted with it; run "cob secrets rotate"` }]
    return age < FORGET_AFTER_MS ? [{ key, why: `it was replaced less than ${FORGET_AFTER_MS / 60_000} minutes ago, so a request may still be using it` }] : []
  })
  const forgotten = others.filter((key) => !kept.some((one) => one.key === key))
  if (forgotten.length > 0) writeKeyFile(file, [first, ...kept.map(({ key }) => key)])
  return { forgotten, kept }
}
