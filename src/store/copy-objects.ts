// Copies objects that are files into another object store, only those that rows name. `cob migrate` uses it. It can be ended and run again at any time.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { abortable } from '../base/wait.ts'
import { fileObjects } from './objects-files.ts'
import type { Listed, Objects } from './objects.ts'
import { findMissing, namedObjects, type ObjectOwner } from './sweep.ts'

/** Objects under way at once: as many as the bucket takes files at once. */
const AT_ONCE = 4

/** How many objects of one kind there are, by the first segment of their keys. */
export interface ObjectCount {
  prefix: string
  objects: number
  bytes: number
}

/** What there is to copy below the folder `dir`, and how many files no row names. */
export async function countObjects(dir: string, owners: readonly ObjectOwner[], signal: AbortSignal): Promise<{ kinds: ObjectCount[]; unnamed: number }> {
  using files = fileObjects(dir)
  const kinds: ObjectCount[] = []
  let others = 0
  for (const owner of owners) {
    const kind = { prefix: owner.prefix, objects: 0, bytes: 0 }
    for await (const { named, unnamed } of namedObjects(files, owner, signal)) {
      others += unnamed
      kind.objects += named.length
      for (const { bytes } of named) kind.bytes += bytes
    }
    kinds.push(kind)
  }
  return { kinds, unnamed: others }
}

export interface ObjectReport {
  copied: number
  /** They were there already, with the same bytes. */
  there: number
  bytes: number
}

/**
 * Copies every object below `dir` that a row names into `to`. One that is there with the same length is read and compared, and stored again only if its bytes
 * differ. The files stay as they are.
 */
export async function copyObjects(
  dir: string,
  to: Objects,
  owners: readonly ObjectOwner[],
  { tell, signal }: { tell: (done: ObjectReport) => void; signal: AbortSignal },
): Promise<ObjectReport> {
  using files = fileObjects(dir)
  const done: ObjectReport = { copied: 0, there: 0, bytes: 0 }
  const failed = new AbortController()
  const ended = AbortSignal.any([signal, failed.signal])

  async function one({ key, bytes }: Listed, there: ReadonlyMap<string, number>): Promise<void> {
    const path = join(dir, key)
    const isThere = there.get(key) === bytes && (await isSame(path, key, to, ended))
    if (!isThere) await to.putFile(key, path, ended)
    if (isThere) done.there++
    else done.copied++
    done.bytes += bytes
    tell(done)
  }

  for (const owner of owners) {
    const there = new Map<string, number>()
    for await (const { key, bytes } of to.list(owner.prefix, ended)) there.set(key, bytes)
    for await (const { named } of namedObjects(files, owner, ended)) {
      const rest = named.values()
      const worker = async () => {
        for (const object of rest) await one(object, there)
      }
      // The first failure ends the others, which then fail by its signal.
      const workers = Array.from({ length: AT_ONCE }, () => worker().catch((error: unknown) => failed.abort(error)))
      await Promise.all(workers)
      ended.throwIfAborted()
    }
  }
  return done
}

/**
 * The keys that rows name and `objects` lacks, in two lists: those that `dir` has, and those that are gone there too.
 */
export async function compareObjects(
  dir: string,
  objects: Objects,
  owners: readonly ObjectOwner[],
  signal: AbortSignal,
): Promise<{ lacking: string[]; gone: string[] }> {
  using files = fileObjects(dir)
  const [lacking, gone]: [string[], string[]] = [[], []]
  for (const key of await findMissing(objects, owners, signal)) {
    const found = await files.get(key, undefined, signal)
    found?.content.destroy()
    ;(found ? lacking : gone).push(key)
  }
  return { lacking, gone }
}

/** Servers differ in what they tell of an object's bytes (an ETag is a hash only of some), so the bytes themselves are compared. */
async function isSame(path: string, key: string, to: Objects, signal: AbortSignal): Promise<boolean> {
  const found = await to.get(key, undefined, signal)
  if (!found) return false
  const [mine, theirs] = await abortable(Promise.all([hashOf(createReadStream(path), signal), hashOf(found.content, signal)]), signal)
  return mine === theirs
}

async function hashOf(content: Readable, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(content, hash, { signal })
  return hash.digest('hex')
}
