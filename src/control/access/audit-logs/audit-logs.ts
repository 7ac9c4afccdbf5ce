// The rules of reading the audit log: which entries a caller sees, and how many searches and exports run at the same time. How it is written: audit-log.ts.
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import type { IncomingHttpHeaders } from 'node:http'
import { fault } from '../../../http/fault.ts'
import { isAccount, type Bytes, type Principal, type TokenPage } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { namedProjects } from '../projects/resolve.ts'
import type { AuditLog } from './audit-log.ts'
import { makeChunk } from './chunk.ts'
import { positionOf, type AuditLogEntry, type Export, type Search } from './contract.ts'
import { Places } from './places.ts'
import { findEntries } from './rows.ts'

/** Each search, and each chunk that is made or sent, uses a connection to the database; a chunk also uses memory. */
const MOST = { searches: { ofAll: 4, ofOne: 2 }, exports: { ofAll: 6, ofOne: 2 } }

/** The project whose entries a caller sees; undefined: all entries. @throws 403 for the code of an app */
function seenBy({ by, project }: Principal, headers: IncomingHttpHeaders): string | undefined {
  if (!isAccount(by) || by.deployment !== undefined) throw fault.forbidden("an app's key cannot be used to read the audit log")
  return by.project !== undefined || namedProjects(headers).length > 0 ? project : undefined
}

export class AuditLogs {
  readonly #db: Db
  readonly #log: Pick<AuditLog, 'flush'>
  readonly #searches = new Places(MOST.searches, 'searches')
  readonly #exports = new Places(MOST.exports, 'exports')

  constructor(db: Db, log: Pick<AuditLog, 'flush'>) {
    this.#db = db
    this.#log = log
  }

  /** @throws 403, 429 */
  async search(principal: Principal, headers: IncomingHttpHeaders, { page_token: position, limit, ...filter }: Search): Promise<TokenPage<AuditLogEntry>> {
    const project = seenBy(principal, headers)
    using _place = this.#searches.take(principal.by.id)
    await this.#log.flush()
    const found = await findEntries(this.#db, project, filter, position, limit + 1)
    const items = found.slice(0, limit)
    return { items, nextToken: found.length > limit ? positionOf(items.at(-1)!) : undefined }
  }

  /** One chunk, with its hash. @throws 403, 429 */
  async export(principal: Principal, headers: IncomingHttpHeaders, wanted: Export, signal: AbortSignal): Promise<Bytes> {
    const project = seenBy(principal, headers)
    using scope = new DisposableStack()
    scope.use(this.#exports.take(principal.by.id))
    await this.#log.flush()
    const { body, rows, next } = await makeChunk(this.#db, project, wanted, signal)
    // The chunk is in memory until it is sent, so it holds its place until then.
    const place = scope.move()
    const file = Readable.from([body], { objectMode: false }).once('close', () => place.dispose())
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
  }
}
