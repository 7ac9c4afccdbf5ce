// The bytes of a video as callers get them: whole, or a range of it.
import { Readable } from 'node:stream'
import { fault } from '../../../http/fault.ts'
import { rangeOf } from '../../../http/range.ts'
import type { Bytes } from '../../../http/route.ts'
import type { Objects } from '../../../store/objects.ts'
import { headKey, type ReplayRow } from './rows.ts'

/** A replay's video, or the part of it that the header `range` asks for. While it is no video yet: 202, and when to ask again. @throws 404 */
export async function videoOf(objects: Objects, row: ReplayRow, range: string | undefined): Promise<Bytes> {
  const times = {
    'x-recording-started-at': row.started_at!.toISOString(),
    ...(row.finished_at && { 'x-recording-finished-at': row.finished_at.toISOString() }),
  }
  // Players retry by themselves; callers get a Retry-After.
  if (row.state !== 'ready')
    return { status: 202, headers: { ...times, 'retry-after': row.finished_at ? '1' : '2', 'cache-control': 'no-store' }, body: Buffer.alloc(0) }
  const size = row.head_bytes + row.bytes
  if (size === 0) throw fault.notFound('video of the replay', row.id)
  const part = rangeOf(range, size)
  const { start, end } = part ?? { start: 0, end: size }
  return {
    body: Readable.from(bytesOf(objects, row, start, end), { objectMode: false }),
    ...(part && { status: 206 }),
    headers: {
      ...times,
      'accept-ranges': 'bytes',
      'content-length': String(end - start),
      'cache-control': 'private, max-age=3600',
      etag: `"${row.id}"`,
      ...(part && { 'content-range': `bytes ${start}-${end - 1}/${size}` }),
    },
  }
}

/** Bytes of a video: its header, followed by the unchanged recording. */
async function* bytesOf(objects: Objects, { object, head_bytes: header, bytes }: ReplayRow, start: number, end: number): AsyncGenerator<Buffer> {
  for (const [key, from, length] of [
    [headKey(object), 0, header],
    [object, header, bytes],
  ] as const) {
    // prettier-ignore
    const [first, behind] = [Math.max(0, start - from), Math.min(length, end - from)]
    if (first >= behind) continue
    const stored = await objects.get(key, { start: first, end: behind - 1 })
    if (!stored) throw new Error(`the object ${key} of a replay is gone`)
    yield* stored.content as AsyncIterable<Buffer>
  }
}
