// The downloads that all builds share. They are kept between builds, only additions count for a build, and too large ones are deleted.
import type { Log } from '../../base/log.ts'
import { diskQuota, type Quota } from './storage.ts'
import type { Trash } from './trash.ts'
import { sizeOf, type Size, type Usage } from './usage.ts'

/** Limit on the downloads between two builds: ten times those of a large app. */
const MAX_CACHE = diskQuota(4096)

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
