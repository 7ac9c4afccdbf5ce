// What one object of an export has: entries of one hour, oldest first, as compressed JSON lines, and its key.
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { AuditLogEntry, Position } from '../contract.ts'
import { positionOf } from '../contract.ts'
import { ORGANIZATION } from '../../account/contract.ts'
import type { ExportDestination } from './contract.ts'
import type { Content } from './target.ts'

/** An object ends when it has so many entries, or its lines so many bytes: both are in memory. */
export const MOST_ROWS = 10_000
const MOST_BYTES = 8 * 1024 * 1024
/** Entries that are read, and turned into lines, at a time: the service answers others in between. */
const SLICE_ROWS = 500
const HASH_DIGITS = 16

const compress = promisify(gzip)

/** An object to be written. */
export interface Batch {
  content: Content
  entries: AuditLogEntry[]
  /** Its last entry. No position for searches. */
  cursor: string
  /** There are entries for another one. */
  isMore: boolean
}

/** The destination that an object is for. */
type Owner = Pick<ExportDestination, 'id' | 'prefix'>

/**
 * The folder of a destination, and in it that of the hour in which a request came (UTC), as Hive, Athena and others find partitions. The parts and their order are
 * those of the published API.
 */
export function folderOf({ id, prefix }: Owner): string {
  const folder = `destination_id=${id}/org_id=${ORGANIZATION}`
  return prefix === '' ? folder : `${prefix}/${folder}`
}

function hourOf({ timestamp }: AuditLogEntry): string {
  const [, date, hour] = /^(\d+-\d\d-\d\d)T(\d\d)/.exec(timestamp)!
  return `date=${date}/hour=${hour}`
}

/**
 * The next object of what `read` gives, oldest first. Undefined: there is nothing. The key says what is in it by a hash, so the same entries have the same key
 * when they are written again, and a late write by a replica that has lost its duty replaces nothing but its equal.
 */
export async function nextBatch(
  owner: Owner,
  read: (after: Position | undefined, limit: number) => Promise<AuditLogEntry[]>,
  signal: AbortSignal,
): Promise<Batch | undefined> {
  const entries: AuditLogEntry[] = []
  const texts: string[] = []
  const hash = createHash('sha256')
  let [bytes, hour, isMore] = [0, undefined as string | undefined, false]
  let after: Position | undefined
  while (!isMore) {
    signal.throwIfAborted()
    const found = await read(after, SLICE_ROWS)
    for (const entry of found) {
      hour ??= hourOf(entry)
      isMore = hourOf(entry) !== hour || entries.length >= MOST_ROWS || bytes >= MOST_BYTES
      if (isMore) break
      const text = `${JSON.stringify(entry)}\n`
      entries.push(entry)
      texts.push(text)
      hash.update(text)
      bytes += Buffer.byteLength(text)
    }
    const last = found.at(-1)
    if (found.length < SLICE_ROWS || !last) break
    after = { at: new Date(last.timestamp), eventId: last.event_id }
  }
  const [first, last] = [entries[0], entries.at(-1)]
  if (!first || !last) return undefined
  const began = first.timestamp.replaceAll(/[-:.]/g, '')
  const key = `${folderOf(owner)}/${hour}/${began}-${hash.digest('hex').slice(0, HASH_DIGITS)}.jsonl.gz`
  return { content: { key, type: 'application/gzip', body: await compress(texts.join('')) }, entries, cursor: `v1.${positionOf(last)}`, isMore }
}
