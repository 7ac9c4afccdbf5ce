// The rules of stored telemetry: pages of it, its export as HAR, its deletion.
import { Readable } from 'node:stream'
import type * as z from 'zod'
import type { Envelope } from '../../../agent/telemetry/contract.ts'
import type { Log } from '../../../base/log.ts'
import { Slots } from '../../../base/slots.ts'
import { TIME_FORM, timeOf } from '../../../base/times.ts'
import { resultWithin } from '../../../base/wait.ts'
import { fault } from '../../../http/fault.ts'
import type { Bytes, Page } from '../../../http/route.ts'
import type { telemetryArchive } from './contract.ts'
import type { Followers } from './followers.ts'
import { harOf, HAR_TYPES } from './har.ts'
import { DELETED_AT_ONCE, FLUSH_MS, HAR_WAIT_MS, HARS_AT_ONCE, LOOKBACK_MS, PAGE_LENGTH } from './limits.ts'
import { readEvents, readLines, type Archive } from './read.ts'
import { endedWithTelemetry, removeSegments } from './rows.ts'
import { typesOf } from './segments.ts'

type Query<Name extends keyof typeof telemetryArchive> = z.output<(typeof telemetryArchive)[Name]['query']>

interface TelemetrySettings extends Archive {
  scope: string
  followers: Pick<Followers, 'flush' | 'deleted'>
  /** Counts events that their destinations do not get. */
  exportDropped: (events: number) => void
  /** A session of a project by id or name, also after its end. */
  findSession: (project: string, idOrName: string) => Promise<{ id: string; state: string } | undefined>
  log: Log
}

export type Telemetry = ReturnType<typeof makeTelemetry>

/** A time of a query in microseconds; undefined when it is not given. @throws 400 naming it */
function microseconds(name: string, text: string | undefined): number | undefined {
  if (text === undefined || text === '') return undefined
  const at = timeOf(text, Date.now())
  if (at === undefined) throw fault.field(name, TIME_FORM)
  return Math.round(at * 1000)
}

export function makeTelemetry({ db, objects, scope, followers, exportDropped, findSession, log }: TelemetrySettings) {
  const stored: Archive = { db, objects }
  const hars = new Slots(HARS_AT_ONCE)

  /** A session whose events up to now are stored. */
  async function find(project: string, idOrName: string, signal: AbortSignal): Promise<{ id: string; state: string }> {
    const row = await findSession(project, idOrName)
    if (!row) throw fault.notFound('browser', idOrName)
    // If the rest cannot be stored now, a reader gets what is stored; the log has the reason.
    if (row.state !== 'deleted') await resultWithin(FLUSH_MS, followers.flush(row.id), signal).catch(() => {})
    return row
  }

  async function remove({ id, state }: { id: string; state: string }, signal: AbortSignal): Promise<void> {
    // Delete the rows first: a row without its object could not be read. The sweep removes an object that is left.
    const { objects: left, undelivered } = await removeSegments(db, id, state !== 'deleted')
    if (undelivered > 0) exportDropped(undelivered)
    followers.deleted(id)
    for (const key of left) await objects.delete(key, signal)
  }

  return {
    /** @throws 404 */
    async list(
      project: string,
      idOrName: string,
      { category, type, offset, limit, since, until, order }: Query<'listTelemetryEvents'>,
      signal: AbortSignal,
    ): Promise<Page<Envelope>> {
      const isForwards = order === 'asc'
      if (!isForwards && offset === 0 && since) throw fault.field('since', 'cannot be combined with order=desc, which begins with the newest event; use until')
      const from = microseconds('since', since)
      const to = microseconds('until', until)
      const { id } = await find(project, idOrName, signal)
      const place = offset === 0 ? {} : isForwards ? { after: offset } : { before: offset }
      const window = {
        ...place,
        ...(isForwards && offset === 0 && { since: from ?? (Date.now() - LOOKBACK_MS) * 1000 }),
        ...(to !== undefined && { until: to }),
        types: typesOf(category, type),
      }
      const items: Envelope[] = []
      let sum = 0
      // Filter before the page is cut: a page is empty only at the end. Clients may stop at an empty page.
      for await (const { envelope, length } of readLines(stored, id, window, isForwards, signal)) {
        sum += length
        if (items.length === limit || (items.length > 0 && sum > PAGE_LENGTH)) return { items, nextOffset: items.at(-1)!.seq }
        items.push(envelope)
      }
      return { items, nextOffset: undefined }
    },
    /** @throws 404 */
    async har(project: string, idOrName: string, { since, until }: Query<'exportHar'>, signal: AbortSignal): Promise<Bytes> {
      const window = { since: microseconds('since', since), until: microseconds('until', until), types: HAR_TYPES }
      const { id } = await find(project, idOrName, signal)
      const inTime = AbortSignal.any([signal, AbortSignal.timeout(HAR_WAIT_MS)])
      const turn = await hars.enter(inTime).catch((error: unknown) => {
        signal.throwIfAborted()
        if (!inTime.aborted) throw error
        throw fault.tooMany(`${HARS_AT_ONCE} HAR files are being made; try again later`, HAR_WAIT_MS / 1000)
      })
      const body = Readable.from(harOf(readEvents(stored, id, window, true, signal)), { objectMode: false })
      // Free the slot also when nobody has begun to read the body.
      body.once('close', () => turn[Symbol.dispose]())
      return {
        body,
        headers: { 'content-disposition': `attachment; filename="${id}.har"`, 'cache-control': 'no-store' },
      }
    },
    /** @throws 404 */
    async delete(project: string, idOrName: string, signal: AbortSignal): Promise<void> {
      const row = await find(project, idOrName, signal)
      await remove(row, signal)
      log.info({ browser: row.id }, 'the telemetry of a session was deleted')
    },
    /** Deletes the telemetry of all sessions that ended before a time. */
    async deleteBefore(project: string, text: string, signal: AbortSignal): Promise<{ sessions: number }> {
      const before = microseconds('before', text)
      if (before === undefined) throw fault.field('before', TIME_FORM)
      for (let sessions = 0; ;) {
        const ids = await endedWithTelemetry(db, scope, project, new Date(before / 1000), DELETED_AT_ONCE)
        if (ids.length === 0) return { sessions }
        for (const id of ids) {
          signal.throwIfAborted()
          await remove({ id, state: 'deleted' }, signal)
        }
        sessions += ids.length
      }
    },
  }
}
