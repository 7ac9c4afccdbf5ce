// Keeps objects and rows consistent: removes objects that no row names, and finds missing objects of rows.
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { finished } from 'node:stream/promises'
import { sql } from 'kysely'
import type { Db } from './db.ts'
import type { Listed, Objects } from './objects.ts'

/** After this many objects that cannot be removed, the store most likely does not answer. */
const MAX_FAILURES = 10

/** Rows per query. */
const BATCH = 500

/** A kind of row that names objects. The part of a key from the prefix to the first `.` is the id of its row. */
export interface ObjectOwner {
  /** The prefix of the objects' keys; one segment. */
  prefix: string
  /** The keys of the rows with these ids. Of every scope: objects of another scope must not be removed. */
  named(ids: string[]): Promise<string[]>
  /** The next rows of this scope whose objects must exist, in the order of their ids. */
  expected(after: string, limit: number): Promise<{ id: string; keys: string[] }[]>
}

/**
 * Removes the objects that no row names and that appeared between these two times. A young object may belong to a row that is still to be written, by this or
 * another process. An object older than the database belongs to another one: if a bucket is used with a new database by mistake, it keeps its objects. Returns
 * the keys, the number of kept ones that are older than the database, and the errors: an object that cannot be removed does not stop the removal of the others.
 */
export async function removeUnnamed(
  objects: Objects,
  owners: readonly ObjectOwner[],
  { after, before }: { after: Date; before: Date },
  signal: AbortSignal,
): Promise<{ removed: string[]; foreign: number; failures: unknown[] }> {
  const removed: string[] = []
  let foreign = 0
  const failures: unknown[] = []
  for (const owner of owners)
    for await (const page of inPages(objects.list(owner.prefix, signal))) {
      const old = page.filter(({ modified }) => modified < before)
      if (old.length === 0) continue
      // After the list: rows that were written meanwhile count.
      const named = new Set(await owner.named([...new Set(old.map(({ key }) => idOf(owner, key)))]))
      for (const { key, modified } of old.filter((found) => !named.has(found.key))) {
        signal.throwIfAborted()
        if (failures.length >= MAX_FAILURES) return { removed, foreign, failures }
        if (modified <= after) foreign++
        else
          await objects.delete(key, signal).then(
            () => removed.push(key),
            (error: unknown) => failures.push(error),
          )
      }
    }
  return { removed, foreign, failures }
}

/** The keys of missing objects that rows of this scope name. */
export async function findMissing(objects: Objects, owners: readonly ObjectOwner[], signal: AbortSignal): Promise<string[]> {
  const missing: string[] = []
  for (const owner of owners) {
    const there = new Set<string>()
    for await (const { key } of objects.list(owner.prefix, signal)) there.add(key)
    let rows = await owner.expected('', BATCH)
    for (; rows.length > 0; rows = await owner.expected(rows.at(-1)!.id, BATCH)) {
      signal.throwIfAborted()
      for (const { id, keys } of rows)
        for (const key of keys.filter((wanted) => !there.has(wanted))) {
          signal.throwIfAborted()
          // The object may be younger than the list, or removed with its row meanwhile.
          const found = await objects.get(key, { start: 0, end: 0 }, signal)
          if (found) await finished(found.content.resume(), { signal })
          else if ((await owner.named([id])).includes(key)) missing.push(key)
        }
    }
  }
  return missing
}

/** The object that records to which database a bucket belongs. */
const OWNER_KEY = 'owner'
const MAX_OWNER_BYTES = 1_000

/**
 * Whether the objects belong to this database, which was made at `at`. The first database that asks becomes their owner. Two databases on one bucket and
 * prefix would each take the other's objects for ones that no row names.
 */
export async function belongTo(objects: Objects, at: Date, signal: AbortSignal): Promise<boolean> {
  const mine = ownerName(at)
  const owner = await ownerOf(objects, signal)
  if (owner !== undefined) return owner === mine
  await objects.put(OWNER_KEY, Readable.from([Buffer.from(mine)]), { maxBytes: MAX_OWNER_BYTES }, signal)
  // Another database may have written it at the same moment; the last write stays.
  return (await ownerOf(objects, signal)) === mine
}

/** The name of the database that was made at `at`. */
export const ownerName = (at: Date): string => `database of ${at.toISOString()}`

/** The name of the database that owns the objects, if there is one yet. */
export async function ownerOf(objects: Objects, signal: AbortSignal): Promise<string | undefined> {
  const found = await objects.get(OWNER_KEY, undefined, signal)
  return found && (await text(found.content))
}

/** When the database was made. It keeps this time when it is dumped and restored. */
export async function madeAt(db: Db): Promise<Date> {
  const { rows } = await sql<{ at: string | null }>`select min(timestamp) as at from kysely_migration`.execute(db)
  const at = new Date(rows[0]?.at ?? Number.NaN)
  if (Number.isNaN(at.getTime())) throw new Error('the database does not say when it was made')
  return at
}

/** Whether a row of any scope names this object. */
export async function isNamed(owners: readonly ObjectOwner[], key: string): Promise<boolean> {
  const owner = owners.find(({ prefix }) => key.startsWith(`${prefix}/`))
  return owner !== undefined && (await owner.named([idOf(owner, key)])).includes(key)
}

const idOf = ({ prefix }: ObjectOwner, key: string): string => key.slice(prefix.length + 1).split('.')[0]!

async function* inPages(all: AsyncIterable<Listed>): AsyncGenerator<Listed[]> {
  let page: Listed[] = []
  for await (const one of all) {
    page.push(one)
    if (page.length < BATCH) continue
    yield page
    page = []
  }
  if (page.length > 0) yield page
}
