// Clients of the authorization server: registered ones, and the official command line, which needs no registration.
import { sql } from 'kysely'
import { newId } from '../../../base/ids.ts'
import { fault } from '../../../http/fault.ts'
import type { Db } from '../../../store/db.ts'

/** Anybody may register. At this number, the oldest unused client is removed. */
const MOST_CLIENTS = 10_000

export interface Client {
  id: string
  name: string
  redirectUris: string[]
}

/** The official command line sends its own id, or that of KERNEL_OAUTH_CLIENT_ID, without registration. */
const CLI = { name: 'Kernel CLI', redirectUris: ['http://localhost/callback', 'http://127.0.0.1/callback'] }
const BUILT_IN = new Map(['kernel-cli', 'hmFrJn9hKDV2N02M'].map((id) => [id, { id, ...CLI }]))

export async function findClient(db: Db, id: string): Promise<Client | undefined> {
  const known = BUILT_IN.get(id)
  if (known) return known
  const row = await db.selectFrom('oauth_clients').select(['id', 'name', 'redirect_uris']).where('id', '=', id).executeTakeFirst()
  return row && { id: row.id, name: row.name, redirectUris: row.redirect_uris }
}

/** @throws 429 when there are too many clients in use */
export async function registerClient(db: Db, name: string, redirectUris: string[]): Promise<Client & { createdAt: Date }> {
  return db.transaction().execute(async (tx) => {
    await sql`select pg_advisory_xact_lock(hashtext('cob oauth clients'))`.execute(tx)
    const { count } = await tx
      .selectFrom('oauth_clients')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow()
    if (count >= MOST_CLIENTS) {
      const { numAffectedRows } = await sql`
        delete from oauth_clients where id = (
          select c.id from oauth_clients c where not exists (select from oauth_grants g where g.client_id = c.id) order by c.created_at limit 1)`.execute(tx)
      if (numAffectedRows === 0n) throw fault.tooMany(`${MOST_CLIENTS} clients are registered and in use`, 3600)
    }
    const row = await tx.insertInto('oauth_clients').values({ id: newId(), name, redirect_uris: redirectUris }).returningAll().executeTakeFirstOrThrow()
    return { id: row.id, name: row.name, redirectUris: row.redirect_uris, createdAt: row.created_at }
  })
}
