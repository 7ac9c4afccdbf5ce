// Objects and rows in agreement: removes objects that no row names, finds objects that a row names and that are gone.
import { finished } from 'node:stream/promises'
import { sql } from 'kysely'
import type { Db } from './db.ts'
import type { Listed, Objects } from './objects.ts'

/** Rows that are asked for in one statement. */
const BATCH = 500

/** A kind of row that names objects. The part of a key from the prefix to the first `.` is the id of its row. */
export interface ObjectOwner {
  /** The objects are below it; one segment. */
  prefix: string
  /** The keys that the rows with these ids name. Of every host: objects of another host must not be removed. */
  named(ids: string[]): Promise<string[]>
  /** The next rows of this host whose objects must exist, in the order of their ids. */
  expected(after: string, limit: number): Promise<{ id: string; keys: string[] }[]>
}

/**
 * Removes the objects that no row names and that appeared between these two times. A young object may belong to a row that is still to be written, by
 * this or another process. An object older than the database belongs to another one: a bucket that is used with a new database by mistake
 * keeps its objects. Returns the keys, and how many older than the database were kept.
 */
export async function removeUnnamed(
  objects: Objects,
  owners: readonly ObjectOwner[],
  { after, before }: { after: Date; before: Date },
  signal: AbortSignal,
): Promise<{ removed: string[]; foreign: number }> {
  const removed: string[] = []
  let foreign = 0
  for (const owner of owners)
    for await (const page of inPages(objects.list(owner.prefix, signal))) {
      const old = page.filter(({ modified }) => modified < before)
      if (old.length === 0) continue
      // After the list: a row that was written meanwhile counts.
      const named = new Set(await owner.named([...new Set(old.map(({ key }) => idOf(owner, key)))]))
      for (const { key, modified } of old.filter((found) => !named.has(found.key))) {
        signal.throwIfAborted()
        if (modified <= after) foreign++
        else {
          await objects.delete(key, signal)
          removed.push(key)
        }
      }
    }
  return { removed, foreign }
}

/** The keys of objects that rows of this host name and that do not exist. */
export async function findMissing(objects: Objects, owners: readonly ObjectOwner[], signal: AbortSignal): Promise<string[]> {
  const missing: string[] = []
  for (const owner of owners) {
    const there = new Set<string>()
    for await (const { key } of objects.list(owner.prefix, signal)) there.add(key)
    let rows = await owner.expected('', BATCH)
    for (; rows.length > 0; rows = await owner.expected(rows.at(-1)!.id, BATCH))
      for (const { id, keys } of rows)
        for (const key of keys.filter((wanted) => !there.has(wanted))) {
          signal.throwIfAborted()
          // Younger than the list, or removed with its row meanwhile?
          const found = await objects.get(key, { start: 0, end: 0 }, signal)
          if (found) await finished(found.content.resume(), { signal })
          else if ((await owner.named([id])).includes(key)) missing.push(key)
        }
  }
  return missing
}

/** When the database was made. It keeps this time when it is dumped and restored. */
export async function madeAt(db: Db): Promise<Date> {
  const { rows } = await sql<{ at: string | null }>`select min(timestamp) as at from kysely_migration`.execute(db)
  const at = new Date(rows[0]?.at ?? Number.NaN)
  if (Number.isNaN(at.getTime())) throw new Error('the database does not say when it was made')
  return at
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
