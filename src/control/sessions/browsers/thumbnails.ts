// Small pictures of sessions, for pages that show many: each is taken at most once a second, whoever asks, and kept for all of them. Looking is no use of a session: it
// times out and sleeps as without it.
import { thumbnail, THUMBNAIL_SIDE } from '../../../agent/thumbnail/contract.ts'
import { call } from '../../../http/client.ts'
import { assertOffered, type Endpoint } from '../../../http/endpoint.ts'

/** A picture is at most so old, unless its session does not answer. */
const FRESH_MS = 1_000
/** Limit on the answer of an agent. */
const ASK_MS = 2_000
/** An agent that has not answered is not asked again for this time. */
const AGAIN_MS = 5_000
/** A picture that nobody has asked for is forgotten after this time. */
const KEEP_MS = 60_000
/** Limit on one answer: a picture of noise has 180 KB, a third more as base64. */
const MAX_BYTES = 512 * 1024
/** Pictures that are kept, the newest. */
const MAX_KEPT = 500

/** A running session, without a hold on it. */
export interface Watched {
  id: string
  /** Which caller of its pool has it: the next one does not see its pictures. */
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
  /** The agent's name for the picture. */
  tag: string | undefined
  nextAt: number
  askedAt: number
  asking: Promise<void> | undefined
}

const SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n\0\0\0\rIHDR', 'latin1')

/** What an agent says is a picture: no larger than the pictures of ours, so that it cannot fill the memory of the browser that shows it. */
function isSmallPng(png: Buffer): boolean {
  if (png.length < 33 || !png.subarray(0, SIGNATURE.length).equals(SIGNATURE)) return false
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)]
  return width > 0 && height > 0 && width <= THUMBNAIL_SIDE && height <= THUMBNAIL_SIDE
}

export class Thumbnails {
  readonly #kept = new Map<string, Kept>()

  /** The picture of a session, also an older one when it sleeps or does not answer; undefined: there is none. @throws the signal's reason, 503 for an agent of an older version */
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
    // The one that was asked for longest ago is the first.
    this.#kept.delete(key)
    this.#kept.set(key, one)
    for (const [first, { askedAt }] of this.#kept) {
      if (this.#kept.size <= MAX_KEPT && now - askedAt < KEEP_MS) break
      this.#kept.delete(first)
    }
    return one
  }

  /** For all callers, so it ends by its own limit only. */
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
      // It may be ending, or have just been put to sleep. What is kept is shown, and it is asked again later.
      one.nextAt = performance.now() + AGAIN_MS
    }
  }
}
