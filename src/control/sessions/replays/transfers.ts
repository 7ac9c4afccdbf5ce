// The recordings that this process is fetching, and the step of a session's end that finishes them.
import type { EndStep } from '../browsers/end-step.ts'
import type { Transfer } from './transfer.ts'

/** How long the end of a session waits for the last bytes of its recordings; 0.1 s is usual. */
const FETCH_MS = 3_000
/** Limit on the whole step: after the last bytes, what was fetched is written down. */
const END_MS = 10_000

export class Transfers extends Map<string, Transfer> {
  of(browserId: string): Transfer[] {
    return [...this.values()].filter((known) => known.browserId === browserId)
  }

  /** How many of a session still record. The others wait for their place in the object store. */
  recordingOf(browserId: string): number {
    return this.of(browserId).filter(({ isRecording }) => isRecording).length
  }
}

/**
 * Fetches the rest of a session's recordings. A recording that could not be finished must not keep the instance alive. `hasInstance` tells whether
 * anything can still be fetched: without an instance, videos are made from what is there, and no end needs to wait for that. `catchUp` finds recordings that
 * other replicas have begun.
 */
export const endRecordings = (transfers: Transfers, hasInstance: (browserId: string) => boolean, catchUp: () => Promise<void> | undefined): EndStep => ({
  name: 'recordings',
  limitMs: END_MS,
  mayFail: true,
  run({ id }) {
    const end = async () => {
      await catchUp()?.catch(() => {}) // what it would have found is missing in a video, and no more
      const own = transfers.of(id)
      if (own.length === 0) return 'nothing' as const
      await Promise.all(own.map((one) => one.end(FETCH_MS)))
      return undefined
    }
    return hasInstance(id) ? end() : undefined
  },
})
