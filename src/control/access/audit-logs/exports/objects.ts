// One object of an export: entries of one hour, oldest first, as compressed JSON lines; and its key.
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { AuditLogEntry, Position } from '../contract.ts'
import { positionOf } from '../contract.ts'
import { ORGANIZATION } from '../../account/contract.ts'
import type { ExportDestination } from './contract.ts'
import type { Content } from './target.ts'

/** An object ends at this number of entries, or of bytes of its lines: both are in memory. */
export const MOST_ROWS = 10_000
const MOST_BYTES = 8 * 1024 * 1024
/** Entries that are read and turned into lines at a time; between two batches, the service handles other requests. */
const SLICE_ROWS = 500
const HASH_DIGITS = 16

const compress = promisify(gzip)

/** An object to be written. */
export interface Batch {
  content: Content
  entries: AuditLogEntry[]
  /** The id of its last entry. It is not a position for searches. */
  cursor: string
  /** Whether there are entries for another object. */
  isMore: boolean
}

/** The destination of an object. */
type Owner = Pick<ExportDestination, 'id' | 'prefix'>

/**
 * The folder of a destination, and in it the folder of the hour in which a request came (UTC), in the form that Hive, Athena and others read as partitions. The
 * parts and their order are those of the published API.
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
 * The next object from the entries of `read`, oldest first. Undefined when there are none. The key contains a hash of the content. So the same entries get the
 * same key when they are written again, and a late write by a replica that has lost the duty replaces only an identical object.
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
