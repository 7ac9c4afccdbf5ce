// The rules of telemetry destinations: who may change them, what they may be, what keeps one from being deleted.
import { newId } from '../../../../base/ids.ts'
import type { Sealer } from '../../../../base/sealed.ts'
import { reachable, Unreachable, type ReachSettings } from '../../../../egress/reachable.ts'
import { fault } from '../../../../http/fault.ts'
import type { Page, Principal } from '../../../../http/route.ts'
import { isDuplicate, type Db } from '../../../../store/db.ts'
import type { CreateDestination, TelemetryDestination, UpdateDestination } from './contract.ts'
import { assertSaid, changedHeaders, type Headers } from './headers.ts'
import {
  changeDestination,
  deleteDestination,
  findDestination,
  insertDestination,
  listDestinations,
  lockDestination,
  usesOf,
  type DestinationFilter,
  type DestinationRow,
  type Naming,
} from './rows.ts'

const KIND = 'telemetry destination'
/** Each may cost a connection or more. */
export const MOST_DESTINATIONS = 100

interface DestinationsSettings {
  db: Db
  sealer: Sealer
  reach: ReachSettings
  /** @throws 403 unless the caller has a key of the whole organization */
  assertOrganization: (by: Principal) => void
}

/** They belong to no project: everybody may read them and have telemetry exported to them; changing them needs a key of the whole organization. */
export interface Destinations {
  /** @throws 400, also for an address that is closed to callers; 403; 409 when the name is taken, or there are too many */
  create(by: Principal, wanted: CreateDestination, signal: AbortSignal): Promise<TelemetryDestination>
  list(filter: DestinationFilter): Promise<Page<TelemetryDestination>>
  /** @throws 404 */
  get(idOrName: string): Promise<TelemetryDestination>
  /** Sessions that export to it take the change. @throws 400, 403, 404, 409 */
  update(by: Principal, idOrName: string, changes: UpdateDestination, signal: AbortSignal): Promise<TelemetryDestination>
  /** @throws 403, 404; 409 while a session, a pool or an auth connection uses it */
  delete(by: Principal, idOrName: string): Promise<void>
  /** The id of one that an option of a browser names. @throws 400 naming `field` */
  idOf(by: { id: string } | { name: string }, field: string): Promise<string>
}

/** The headers of a destination with their values. @throws when they were sealed with another key */
export const headersOf = ({ id, headers }: Pick<DestinationRow, 'id' | 'headers'>, sealer: Sealer): Headers =>
  headers === null ? {} : (JSON.parse(sealer.open(headers, id)) as Headers)

function present({ id, name, endpoint, description, header_names: names, ...row }: DestinationRow): TelemetryDestination {
  const times = { last_error_at: row.last_error_at, last_export_at: row.last_export_at }
  return {
    id,
    name,
    endpoint,
    ...(description !== null && { description }),
    headers: Object.fromEntries(names.map((header) => [header, ''])),
    consecutive_failures: row.consecutive_failures,
    ...(row.last_error !== null && { last_error: row.last_error }),
    ...Object.fromEntries(Object.entries(times).flatMap(([field, time]) => (time ? [[field, time.toISOString()]] : []))),
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  }
}

export function makeDestinations({ db, sealer, reach, assertOrganization }: DestinationsSettings): Destinations {
  const sealed = (id: string, headers: Headers) => {
    const names = Object.keys(headers)
    return { header_names: names, headers: names.length === 0 ? null : sealer.seal(JSON.stringify(headers), id) }
  }

  /** What it was when it was named is checked again at each connection. @throws 400 */
  async function assertReachable(endpoint: string, signal: AbortSignal): Promise<void> {
    await reachable(new URL(endpoint).hostname, reach, signal).catch((error: unknown) => {
      throw error instanceof Unreachable ? fault.field('endpoint', error.message) : error
    })
  }

  const named = async <T>(name: string | undefined, work: Promise<T>): Promise<T> =>
    work.catch((error: unknown) => {
      throw isDuplicate(error, 'telemetry_destinations_name') ? fault.conflict(`there is a ${KIND} named "${name}" already`) : error
    })

  /** @throws 503 when what it has cannot be read: the key of the service is another one */
  function openHeaders(row: DestinationRow): Headers {
    try {
      return headersOf(row, sealer)
    } catch (cause) {
      throw fault.broken('the headers of this destination cannot be read with the secret key of the service; create another destination', cause)
    }
  }

  return {
    async create(by, { name, endpoint, description, headers = {} }, signal) {
      assertOrganization(by)
      const wanted = changedHeaders({}, headers)
      await assertReachable(endpoint, signal)
      const id = newId()
      const row = { id, name, endpoint, description: description || null, ...sealed(id, wanted) }
      const made = await named(name, insertDestination(db, row, MOST_DESTINATIONS))
      if (!made) throw fault.conflict(`there are ${MOST_DESTINATIONS} telemetry destinations already, the limit; delete one`)
      return present(made)
    },

    async list({ offset, limit, ...filter }) {
      const rows = await listDestinations(db, { ...filter, offset, limit })
      return { items: rows.slice(0, limit).map(present), nextOffset: rows.length > limit ? offset + limit : undefined }
    },

    async get(idOrName) {
      const row = await findDestination(db, idOrName)
      if (!row) throw fault.notFound(KIND, idOrName)
      return present(row)
    },

    async update(by, idOrName, { name, endpoint, description, headers }, signal) {
      assertOrganization(by)
      if (endpoint !== undefined) await assertReachable(endpoint, signal)
      const work = db.transaction().execute(async (tx) => {
        const row = await lockDestination(tx, idOrName)
        if (!row) throw fault.notFound(KIND, idOrName)
        if ([name, endpoint, description, headers].every((value) => value === undefined)) return row
        const { origin } = new URL(endpoint ?? row.endpoint)
        if (origin !== new URL(row.endpoint).origin) assertSaid(origin, row.header_names, headers ?? {})
        return changeDestination(tx, row.id, {
          ...(name !== undefined && { name }),
          ...(endpoint !== undefined && { endpoint }),
          ...(description !== undefined && { description: description || null }),
          ...(headers !== undefined && sealed(row.id, changedHeaders(openHeaders(row), headers))),
        })
      })
      return present(await named(name, work))
    },

    async delete(by, idOrName) {
      assertOrganization(by)
      await db.transaction().execute(async (tx) => {
        const row = await lockDestination(tx, idOrName)
        if (!row) throw fault.notFound(KIND, idOrName)
        const { sessions, pools, connections } = await usesOf(tx, row.id)
        const uses = [
          ...(sessions > 0 ? [`${sessions} live sessions`] : []),
          ...(pools > 0 ? [`${pools} browser pools`] : []),
          ...(connections > 0 ? [`${connections} auth connections`] : []),
        ]
        if (uses.length > 0) throw fault.conflict(`${uses.join(' and ')} export telemetry to this destination; end or change them first`)
        await deleteDestination(tx, row.id)
      })
    },

    async idOf(by: Naming & object, field) {
      const row = await findDestination(db, by)
      if (!row) throw fault.field(field, `there is no such ${KIND}`)
      return row.id
    },
  }
}
