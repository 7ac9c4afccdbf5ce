// The rules of the Audit logs group: who may see which entries, in pages or as files.
import { createHash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { PassThrough, Readable } from 'node:stream'
import type { IncomingHttpHeaders } from 'node:http'
import { fault } from '../../../http/fault.ts'
import { isAccount, known, type Handlers, type Principal } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { namedProjects } from '../projects/resolve.ts'
import { positionOf, type AuditLogEntry, type auditLogs as contract, type Filter, type Position } from './contract.ts'
import { findEntries } from './rows.ts'
import type { AuditLog } from './audit-log.ts'

/** A chunk ends early when its lines have so many bytes: it is held in memory, because its hash is sent before it. */
const CHUNK_BYTES = 16 * 1024 * 1024
/** Searches, and chunks that are made or sent, at the same time: of all callers, and of one. Each takes a connection of the database, and a chunk its memory. */
const MOST = { searches: { ofAll: 4, ofOne: 2 }, exports: { ofAll: 6, ofOne: 2 } }
const RETRY_SECONDS = 2
/** Rows that are read, and turned into lines, at a time: the service answers others in between. */
const SLICE_ROWS = 500

/** The only project whose entries a caller sees; undefined: all entries. @throws 403 for the code of an app */
function seenBy(principal: Principal | undefined, headers: IncomingHttpHeaders): string | undefined {
  const { by, project } = known(principal)
  if (!isAccount(by) || by.deployment !== undefined) throw fault.forbidden("an app's key cannot be used to read the audit log")
  return by.project !== undefined || namedProjects(headers).length > 0 ? project : undefined
}

/** Counts what is under way. The result lets one in, and tells it how to leave. @throws 429 */
function places({ ofAll, ofOne }: { ofAll: number; ofOne: number }, what: string): (caller: string) => () => void {
  const taken = new Map<string, number>()
  return (caller) => {
    const own = taken.get(caller) ?? 0
    const all = [...taken.values()].reduce((sum, one) => sum + one, 0)
    if (own >= ofOne || all >= ofAll)
      throw fault.tooMany(`${own >= ofOne ? `this key has ${own}` : `there are ${all}`} ${what} under way already`, RETRY_SECONDS)
    taken.set(caller, own + 1)
    let isIn = true
    return () => {
      if (!isIn) return
      isIn = false
      const left = taken.get(caller)! - 1
      if (left === 0) taken.delete(caller)
      else taken.set(caller, left)
    }
  }
}

export function auditLogHandlers(db: Db, auditLog: Pick<AuditLog, 'flush'>): Handlers<typeof contract> {
  const [searching, exporting] = [places(MOST.searches, 'searches'), places(MOST.exports, 'exports')]

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
      const leave = searching(known(principal).by.id)
      try {
        await auditLog.flush()
        const found = await findEntries(db, project, filter, position, limit + 1)
        const items = found.slice(0, limit)
        return { items, nextToken: found.length > limit ? positionOf(items.at(-1)!) : undefined }
      } finally {
        leave()
      }
    },

    async exportAuditLogs({ principal, headers, query: { cursor, format, limit, ...filter }, signal }) {
      const project = seenBy(principal, headers)
      const leave = exporting(known(principal).by.id)
      try {
        await auditLog.flush()
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
        // Its place is taken until it is sent: it is held in memory until then.
        const file = Readable.from([body], { objectMode: false }).once('close', leave)
        return {
          body: file,
          // No Content-Encoding: clients would unpack the body before they compare its hash.
          headers: {
            'content-length': String(body.length),
            'x-content-sha256': createHash('sha256').update(body).digest('hex'),
            'x-row-count': String(rows),
            'x-has-more': String(next !== undefined),
            ...(next !== undefined && { 'x-next-cursor': next }),
          },
        }
      } catch (error) {
        leave()
        throw error
      }
    },
  }
}
