// Web sessions, each identified by a cookie. Their table has only the SHA-256. A session ends with its key or person, when it expires, and by signing out.
import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { newId } from '../../../base/ids.ts'
import { fault } from '../../../http/fault.ts'
import type { ByKey } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { hashOf } from '../keys.ts'
import type { Person } from '../members/person.ts'
import type { Rights } from '../rights.ts'

/** Most sessions of one key or person. The oldest are ended, so that the owner of a key cannot fill the table. */
const MOST_SESSIONS = 100

/** The owner of a session: as {@link ByKey} or {@link Person}, but not an app's code. */
export type Whose = { key: string } | { person: string }

export interface WebSessionsSettings {
  db: Db
  rights: Rights
  hours: number
  /** A valid key by its id. */
  keyOf: (id: string) => Promise<ByKey | undefined>
  personOf: (id: string) => Promise<Person | undefined>
}

export interface WebSessions {
  /** Starts a session. */
  begin(whose: Whose): Promise<{ token: string; maxAgeSeconds: number }>
  /** The owner of a cookie's session. @throws 401 */
  check(token: string): Promise<ByKey | Person>
  /** Ends a session at once. @returns its owner */
  end(token: string): Promise<ByKey | Person | undefined>
}

export function makeWebSessions({ db, rights, hours, keyOf, personOf }: WebSessionsSettings): WebSessions {
  const good = rights.remember<ByKey | Person>()

  async function find(token: string): Promise<{ value: ByKey | Person; leftMs: number } | undefined> {
    const row = await db
      .selectFrom('web_sessions')
      .select(['id', 'key_id', 'person_id', sql<number>`(extract(epoch from expires_at - now()) * 1000)::float8`.as('leftMs')])
      .where('hash', '=', hashOf(token))
      .where('expires_at', '>', sql<Date>`now()`)
      .executeTakeFirst()
    if (!row) return undefined
    const via = { kind: 'dashboard', id: row.id } as const
    const account = row.key_id === null ? await personOf(row.person_id!) : await keyOf(row.key_id)
    return account && { value: { ...account, via }, leftMs: row.leftMs }
  }

  return {
    async begin(whose) {
      const token = randomBytes(32).toString('hex')
      const of = 'key' in whose ? ({ column: 'key_id', id: whose.key } as const) : ({ column: 'person_id', id: whose.person } as const)
      const { leftSeconds, ended } = await db.transaction().execute(async (tx) => {
        const { numAffectedRows } = await sql`
          delete from web_sessions where id in (
            select id from web_sessions where ${sql.ref(of.column)} = ${of.id} order by created_at desc, id offset ${MOST_SESSIONS - 1})`.execute(tx)
        const made = await tx
          .insertInto('web_sessions')
          .values({
            id: newId(),
            hash: hashOf(token),
            key_id: null,
            person_id: null,
            [of.column]: of.id,
            expires_at: sql<Date>`now() + make_interval(hours => ${hours})`,
          })
          .returning(sql<number>`extract(epoch from expires_at - now())::float8`.as('leftSeconds'))
          .executeTakeFirstOrThrow()
        return { ...made, ended: numAffectedRows }
      })
      if (ended) await rights.taken()
      return { token, maxAgeSeconds: leftSeconds }
    },
    async check(token) {
      return good.get(hashOf(token).toString('base64'), async () => {
        const found = await find(token)
        if (!found) throw fault.unauthorized('your sign-in has ended; sign in again')
        return found
      })
    },
    async end(token) {
      const found = await find(token)
      await db.deleteFrom('web_sessions').where('hash', '=', hashOf(token)).execute()
      await rights.taken()
      return found?.value
    },
  }
}
