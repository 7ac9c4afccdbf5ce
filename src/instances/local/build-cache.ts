// The downloads that the builds of one owner share. They are kept between builds. Only a build's additions count for it, and downloads that are too large are
// deleted.
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
 * Prepares the downloads below `root` for a build of `owner` that is about to start. Returns its folder, and its present content, which does not count for this
 * build (undefined when that cannot be counted). Deletes downloads beyond `max` that no other build uses. Owners share nothing, because a build runs what
 * earlier builds have left here. No other build removes the folder until `hold` is disposed.
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
  const isTooMuch = ({ bytes, inodes }: Size) => bytes > max.bytes || inodes > max.inodes
  /** False on failure: then the downloads only take space, and no build is ended for them. */
  const discard = (folder: string): Promise<boolean> =>
    trash.discard(folder).then(
      () => true,
      (err: unknown) => (log.warn({ err, dir: folder }, 'downloads of builds could not be removed'), false),
    )
  using scope = new DisposableStack()
  // Before the first wait: builds of other owners begin meanwhile.
  scope.use(usage.reserve(dir))
  mkdirSync(root, { recursive: true, mode: 0o700 })
  if (isTooMuch(await sizeOf([root])))
    for (const other of readdirSync(root)) if (other !== owner && !usage.isFilled(join(root, other))) await discard(join(root, other))
  let held: Size | undefined = await sizeOf([dir])
  if (isTooMuch(held) && !usage.isFilled(dir, 1) && (await discard(dir))) {
    log.info({ dir, ...held }, 'the shared downloads of builds exceeded their limit; they are removed and fetched again when needed')
    held = { bytes: 0, inodes: 0 }
  }
  if (!Number.isFinite(held.bytes) || !Number.isFinite(held.inodes)) held = undefined
  return { dir, held, hold: scope.move() }
}
