// The rules of telemetry destinations: who may change them, which values are valid, and when one cannot be deleted.
import { newId } from '../../../../base/ids.ts'
import type { Sealer } from '../../../../base/sealed.ts'
import { reachable, Unreachable, type ReachSettings } from '../../../../egress/reachable.ts'
import { fault } from '../../../../http/fault.ts'
import type { Page, Principal } from '../../../../http/route.ts'
import type { Db } from '../../../../store/db.ts'
import { pageOf, type Asked } from '../../../../store/lists.ts'
import { written } from '../../../service/written.ts'
import { MOST_DESTINATIONS } from '../limits.ts'
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
  type DestinationRow,
  type Naming,
} from './rows.ts'

const KIND = 'telemetry destination'

interface DestinationsSettings {
  db: Db
  sealer: Sealer
  reach: ReachSettings
  /** @throws 403 unless the caller has a key of the whole organization */
  assertOrganization: (by: Principal) => void
}

export type Destinations = ReturnType<typeof makeDestinations>

/** The headers of a destination with their values. @throws when they were encrypted with another key */
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

/** Destinations belong to no project: everybody may read them and export telemetry to them. Only a key of the whole organization may change them. */
export function makeDestinations({ db, sealer, reach, assertOrganization }: DestinationsSettings) {
  const sealed = (id: string, headers: Headers) => {
    const names = Object.keys(headers)
    return { header_names: names, headers: names.length === 0 ? null : sealer.seal(JSON.stringify(headers), id) }
  }

  /** Checks the address when it is given; each connection checks it again. @throws 400 */
  async function assertReachable(endpoint: string, signal: AbortSignal): Promise<void> {
    await reachable(new URL(endpoint).hostname, reach, signal).catch((error: unknown) => {
      throw error instanceof Unreachable ? fault.field('endpoint', error.message) : error
    })
  }

  const named = <T>(name: string | undefined, work: Promise<T>): Promise<T> => written(work, { table: 'telemetry_destinations', one: `a ${KIND}` }, name)

  /** @throws 503 when its headers cannot be decrypted because the service has another key */
  function openHeaders(row: DestinationRow): Headers {
    try {
      return headersOf(row, sealer)
    } catch (cause) {
      throw fault.broken('the headers of this destination cannot be read with the secret key of the service; create another destination', cause)
    }
  }

  return {
    /** @throws 400, also for an address that callers may not reach; 403; 409 when the name is taken, or there are too many */
    async create(by: Principal, { name, endpoint, description, headers = {} }: CreateDestination, signal: AbortSignal): Promise<TelemetryDestination> {
      assertOrganization(by)
      const wanted = changedHeaders({}, headers)
      await assertReachable(endpoint, signal)
      const id = newId()
      const row = { id, name, endpoint, description: description || null, ...sealed(id, wanted) }
      const made = await named(name, insertDestination(db, row, MOST_DESTINATIONS))
      if (!made) throw fault.conflict(`there are ${MOST_DESTINATIONS} telemetry destinations already, the limit; delete one`)
      return present(made)
    },

    list: async (filter: Asked): Promise<Page<TelemetryDestination>> => pageOf(await listDestinations(db, filter), filter, present),

    /** @throws 404 */
    async get(idOrName: string): Promise<TelemetryDestination> {
      const row = await findDestination(db, idOrName)
      if (!row) throw fault.notFound(KIND, idOrName)
      return present(row)
    },

    /** The change also applies to sessions that export to it. @throws 400, 403, 404, 409 */
    async update(
      by: Principal,
      idOrName: string,
      { name, endpoint, description, headers }: UpdateDestination,
      signal: AbortSignal,
    ): Promise<TelemetryDestination> {
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

    /** @throws 403, 404; 409 while a session, a pool or an auth connection uses it */
    async delete(by: Principal, idOrName: string): Promise<void> {
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

    /** The id of the destination in an option of a browser. @throws 400 naming `field` */
    async idOf(by: Naming & object, field: string): Promise<string> {
      const row = await findDestination(db, by)
      if (!row) throw fault.field(field, `there is no such ${KIND}`)
      return row.id
    },
  }
}
