// The rules of the Audit logs group: who may see which entries, in pages or as files.
import { createHash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { PassThrough } from 'node:stream'
import type { IncomingHttpHeaders } from 'node:http'
import { fault } from '../../../http/fault.ts'
import { known, type Handlers, type Principal } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { namedProjects } from '../projects/resolve.ts'
import { positionOf, type AuditLogEntry, type auditLogs as contract, type Filter, type Position } from './contract.ts'
import { findEntries } from './rows.ts'
import type { Trail } from './trail.ts'

/** A chunk ends early when its lines have so many bytes: it is held in memory, because its hash is sent before it. */
const CHUNK_BYTES = 16 * 1024 * 1024
/** Chunks that are being made at the same time. Each takes some of the database and of the memory. */
const MAX_EXPORTS = 2
const EXPORT_RETRY_SECONDS = 2
/** Rows that are read, and turned into lines, at a time: the service answers others in between. */
const SLICE_ROWS = 500

/** The only project whose entries a caller sees; undefined: all entries. @throws 403 for the code of an app */
function seenBy(principal: Principal | undefined, headers: IncomingHttpHeaders): string | undefined {
  const { by, project } = known(principal)
  if (by.kind !== 'key' || by.deployment !== undefined) throw fault.forbidden("an app's key cannot be used to read the audit log")
  return by.project !== undefined || namedProjects(headers).length > 0 ? project : undefined
}

export function auditLogHandlers(db: Db, trail: Pick<Trail, 'flush'>): Handlers<typeof contract> {
  let exports = 0

  /** Lines of entries, slice by slice, until `limit` or {@link CHUNK_BYTES}. Tells `ended` how many there were, and where older ones begin. */
  async function* lines(
    project: string | undefined,
    filter: Filter,
    from: Position | undefined,
    limit: number,
    signal: AbortSignal,
    ended: (rows: number, next: string | undefined) => void,
  ): AsyncGenerator<string> {
    let [rows, bytes, position] = [0, 0, from]
    for (;;) {
      signal.throwIfAborted()
      const wanted = Math.min(SLICE_ROWS, limit - rows)
      const found = await findEntries(db, project, filter, position, wanted + 1)
      const slice = found.slice(0, wanted)
      const text = slice.map((entry) => `${JSON.stringify(entry)}\n`).join('')
      rows += slice.length
      bytes += Buffer.byteLength(text)
      yield text
      const last: AuditLogEntry | undefined = found.length > wanted ? slice.at(-1) : undefined
      if (!last || rows === limit || bytes >= CHUNK_BYTES) return ended(rows, last && positionOf(last))
      position = { at: new Date(last.timestamp), eventId: last.event_id }
    }
  }

  return {
    async listAuditLogs({ principal, headers, query: { page_token: position, limit, ...filter } }) {
      const project = seenBy(principal, headers)
      await trail.flush()
      const found = await findEntries(db, project, filter, position, limit + 1)
      const items = found.slice(0, limit)
      return { items, nextToken: found.length > limit ? positionOf(items.at(-1)!) : undefined }
    },

    async exportAuditLogs({ principal, headers, query: { cursor, format, limit, ...filter }, signal }) {
      const project = seenBy(principal, headers)
      if (exports >= MAX_EXPORTS) throw fault.tooMany(`${MAX_EXPORTS} exports are being made already`, EXPORT_RETRY_SECONDS)
      exports++
      try {
        await trail.flush()
        let [rows, next] = [0, undefined as string | undefined]
        const packed = format === 'jsonl.gz' ? createGzip() : new PassThrough()
        const whole = buffer(packed)
        whole.catch(() => {}) // the pipeline rejects as well
        await pipeline(
          lines(project, filter, cursor, limit, signal, (count, older) => ([rows, next] = [count, older])),
          packed,
          { signal },
        )
        const body = await whole
        return {
          body,
          // No Content-Encoding: clients would unpack the body before they compare its hash.
          headers: {
            'x-content-sha256': createHash('sha256').update(body).digest('hex'),
            'x-row-count': String(rows),
            'x-has-more': String(next !== undefined),
            ...(next !== undefined && { 'x-next-cursor': next }),
          },
        }
      } finally {
        exports--
      }
    },
  }
}
