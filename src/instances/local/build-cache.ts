// The downloads that all builds share: kept from build to build, counted only for what a build adds, and dropped when there are too many.
import type { Log } from '../../base/log.ts'
import { diskQuota, type Quota } from './storage.ts'
import type { Trash } from './trash.ts'
import { sizeOf, type Size, type Usage } from './usage.ts'

/** What the downloads may take between two builds: ten times those of a large app. */
const MAX_CACHE = diskQuota(4096)

/**
 * Makes the downloads in `dir` fit for a build that is about to start: thrown away when they are more than `max` and no build runs. Resolves with
 * what is there already, which is not that build's; undefined when it cannot be counted.
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
      log.info({ dir, ...held }, 'the shared downloads of builds were more than they may be, and are begun anew')
      return { bytes: 0, inodes: 0 }
    } catch (err) {
      // They cost room, and no build its end.
      log.warn({ err, dir }, 'the shared downloads of builds could not be removed')
    }
  }
  return Number.isFinite(held.bytes) && Number.isFinite(held.inodes) ? held : undefined
}
