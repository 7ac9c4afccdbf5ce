// Small pictures of sessions, for pages that show many sessions. Each is taken at most once a second, and all callers share it. Asking for one does not count
// as use of the session: it times out and goes to standby as before.
import { thumbnail, THUMBNAIL_SIDE } from '../../../agent/thumbnail/contract.ts'
import { call } from '../../../http/client.ts'
import { assertOffered, type Endpoint } from '../../../http/endpoint.ts'

/** Greatest age of a picture, unless its session does not answer. */
const FRESH_MS = 1_000
/** Limit on the answer of an agent. */
const ASK_MS = 2_000
/** After an agent has not answered, it is not asked again for this time. */
const AGAIN_MS = 5_000
/** A picture that no caller has asked for is forgotten after this time. */
const KEEP_MS = 60_000
/** Limit on one answer: a picture of noise has 180 KB, a third more as base64. */
const MAX_BYTES = 512 * 1024
/** Most pictures that are kept: the newest ones. */
const MAX_KEPT = 500

/** A running session, without a hold on it. */
export interface Watched {
  id: string
  /** The acquisition of its caller: the next caller does not see these pictures. */
  lease: number
  endpoint: Endpoint
  isAsleep: boolean
}

export interface Thumbnail {
  etag: string
  png: Buffer
}

interface Kept {
  picture: Thumbnail | undefined
  /** The agent's tag for the picture. */
  tag: string | undefined
  nextAt: number
  askedAt: number
  asking: Promise<void> | undefined
}

const SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n\0\0\0\rIHDR', 'latin1')

/** Whether an agent's answer is a picture, and not larger than pictures of ours: a larger one could fill the memory of the browser that shows it. */
function isSmallPng(png: Buffer): boolean {
  if (png.length < 33 || !png.subarray(0, SIGNATURE.length).equals(SIGNATURE)) return false
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)]
  return width > 0 && height > 0 && width <= THUMBNAIL_SIDE && height <= THUMBNAIL_SIDE
}

export class Thumbnails {
  readonly #kept = new Map<string, Kept>()

  /**
   * The picture of a session; an older one when the session sleeps or does not answer; undefined when there is none. @throws the signal's reason, 503 for an
   * agent of an older version
   */
  async read(session: Watched, signal: AbortSignal): Promise<Thumbnail | undefined> {
    assertOffered(session.endpoint, thumbnail.readThumbnail.id)
    const now = performance.now()
    const one = this.#of(`${session.id} ${session.lease}`, now)
    if (!session.isAsleep && now >= one.nextAt) one.asking ??= this.#ask(session, one).finally(() => (one.asking = undefined))
    await one.asking
    signal.throwIfAborted()
    return one.picture
  }

  #of(key: string, now: number): Kept {
    const one = this.#kept.get(key) ?? { picture: undefined, tag: undefined, nextAt: 0, askedAt: now, asking: undefined }
    one.askedAt = now
    // Reinsert it at the end: the first one in the map is the one that was asked for longest ago.
    this.#kept.delete(key)
    this.#kept.set(key, one)
    for (const [first, { askedAt }] of this.#kept) {
      if (this.#kept.size <= MAX_KEPT && now - askedAt < KEEP_MS) break
      this.#kept.delete(first)
    }
    return one
  }

  /** All callers share this call, so it ends only by its own limit. */
  async #ask({ endpoint }: Watched, one: Kept): Promise<void> {
    one.nextAt = performance.now() + FRESH_MS
    try {
      const query = one.tag === undefined ? {} : { known: one.tag }
      const { tag, png } = await call(endpoint, thumbnail.readThumbnail, { query }, { signal: AbortSignal.timeout(ASK_MS), maxBytes: MAX_BYTES })
      if (png === null && one.picture) return
      const picture = Buffer.from(png ?? '', 'base64')
      if (!isSmallPng(picture)) throw new Error('the agent answered with something else than a small picture')
      one.tag = tag
      one.picture = { etag: `"${picture.length}-${tag.replaceAll(/[^\w-]/g, '')}"`, png: picture }
    } catch {
      // The session may be ending, or have just been put to sleep. The kept picture is shown, and the agent is asked again later.
      one.nextAt = performance.now() + AGAIN_MS
    }
  }
}
