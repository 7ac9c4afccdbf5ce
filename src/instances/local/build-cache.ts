// The downloads that the builds of one owner share. They are kept between builds, only additions count for a build, and too large ones are deleted.
import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { isId } from '../../base/ids.ts'
import type { Log } from '../../base/log.ts'
import { diskQuota, type Quota } from './storage.ts'
import type { Trash } from './trash.ts'
import { sizeOf, type Size, type Usage } from './usage.ts'

/** Limit on the downloads between two builds, also those of all owners together: ten times those of a large app. */
const MAX_CACHE = diskQuota(4096)

/**
 * Prepares the downloads below `root` for a build of `owner` that is about to start: its folder, and what it holds already ({@link readyCache}). Every build of an owner runs what
 * earlier ones have left there, so owners share nothing. No other build removes the folder until `hold` is disposed of.
 */
export async function readyCacheOf(
  root: string,
  owner: string,
  usage: Pick<Usage, 'isFilled' | 'reserve'>,
  trash: Pick<Trash, 'discard'>,
  log: Log,
  max: Quota = MAX_CACHE,
): Promise<{ dir: string; held: Size | undefined; hold: Disposable }> {
  if (!isId(owner)) throw new Error(`${JSON.stringify(owner)} is not the id of an owner of downloads`)
  const dir = join(root, owner)
  using scope = new DisposableStack()
  // Before the first wait: builds of other owners begin meanwhile.
  scope.use(usage.reserve(dir))
  mkdirSync(root, { recursive: true, mode: 0o700 })
  const all = await sizeOf([root])
  const isTooMuch = all.bytes > max.bytes || all.inodes > max.inodes
  for (const other of isTooMuch ? readdirSync(root).filter((name) => name !== owner) : [])
    if (!usage.isFilled(join(root, other)))
      await trash.discard(join(root, other)).catch((err: unknown) => log.warn({ err, dir: other }, 'downloads of builds could not be removed'))
  const others = { isFilled: (folder: string) => usage.isFilled(folder, 1) }
  return { dir, held: await readyCache(dir, others, trash, log, max), hold: scope.move() }
}

/**
 * Prepares the downloads in `dir` for a build that is about to start: deletes them if they exceed `max` and no other build runs. Resolves with the
 * size of what remains, which does not count for that build; undefined when it cannot be counted.
 */
export async function readyCache(
  dir: string,
  usage: Pick<Usage, 'isFilled'>,
  trash: Pick<Trash, 'discard'>,
  log: Log,
  max: Quota = MAX_CACHE,
): Promise<Size | undefined> {
  const held = await sizeOf([dir])
  if ((held.bytes > max.bytes || held.inodes > max.inodes) && !usage.isFilled(dir)) {
    try {
      await trash.discard(dir)
      log.info({ dir, ...held }, 'the shared downloads of builds exceeded their limit; they are removed and fetched again when needed')
      return { bytes: 0, inodes: 0 }
    } catch (err) {
      // The downloads then only take space. No build is ended for them.
      log.warn({ err, dir }, 'the shared downloads of builds could not be removed')
    }
  }
  return Number.isFinite(held.bytes) && Number.isFinite(held.inodes) ? held : undefined
}
