// The rows of people and their memberships, as those who manage them see them.
import { sql, type SqlBool } from 'kysely'
import type { Role } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { holds } from '../../../store/names.ts'
import type { Member } from './contract.ts'

/** The only project whose members a caller manages; undefined: all. */
export type Within = string | undefined

/** Most roles in single projects that are shown of a person. */
const MOST_SHOWN = 1_000

const peopleWithin = (db: Db, within: Within) =>
  db
    .selectFrom('people as h')
    .selectAll('h')
    .$if(within !== undefined, (select) =>
      select.where((eb) =>
        eb.exists(eb.selectFrom('memberships as m').select('m.role').whereRef('m.person_id', '=', 'h.id').where('m.project_id', '=', within!)),
      ),
    )

/** Shows people with their roles: for those who manage one project, only the role there. */
async function shown(db: Db, within: Within, people: Awaited<ReturnType<ReturnType<typeof peopleWithin>['execute']>>): Promise<Member[]> {
  const memberships = await db
    .selectFrom('memberships as m')
    .leftJoin('projects as p', 'p.id', 'm.project_id')
    .select(['m.person_id', 'm.project_id', 'm.role', 'p.name'])
    .where(sql<SqlBool>`m.person_id = any(${people.map(({ id }) => id)})`)
    .$if(within !== undefined, (select) => select.where('m.project_id', '=', within!))
    .orderBy('p.created_at')
    .execute()
  return people.map(({ id, email, name, subject, created_at, signed_in_at }) => {
    const own = memberships.filter(({ person_id }) => person_id === id)
    return {
      id,
      email,
      name,
      subject,
      status: signed_in_at === null ? 'invited' : 'active',
      role: (own.find(({ project_id }) => project_id === null)?.role ?? null) as Role | null,
      projects: own
        .flatMap(({ project_id, role, name: project }) => (project_id === null ? [] : [{ id: project_id, name: project!, role: role as Role }]))
        .slice(0, MOST_SHOWN),
      created_at: created_at.toISOString(),
      signed_in_at: signed_in_at?.toISOString() ?? null,
    }
  })
}

export async function findMember(db: Db, within: Within, id: string): Promise<Member | undefined> {
  const row = await peopleWithin(db, within).where('h.id', '=', id).executeTakeFirst()
  return row && (await shown(db, within, [row]))[0]
}

/** One page of people, by their addresses, with one more than `limit` when there are more. */
export async function listPeople(
  db: Db,
  within: Within,
  { query, offset, limit }: { query?: string | undefined; offset: number; limit: number },
): Promise<Member[]> {
  const rows = await peopleWithin(db, within)
    .$if(Boolean(query), (select) => select.where((eb) => eb.or([holds('h.email', query!), holds('h.name', query!)])))
    .orderBy(sql`lower(h.email)`)
    .orderBy('h.id')
    .offset(offset)
    .limit(limit + 1)
    .execute()
  return shown(db, within, rows)
}

/** Sets the role in a project (null: in all), in place of the one there is. */
export const setRole = async (tx: Db, person: string, project: string | null, role: Role, bySettings = false): Promise<void> =>
  void (await tx
    .insertInto('memberships')
    .values({ person_id: person, project_id: project, role, by_settings: bySettings })
    .onConflict((conflict) => conflict.columns(['person_id', 'project_id']).doUpdateSet({ role, by_settings: bySettings }))
    .execute())

/** One change of roles at a time: two owners must not take the role from each other at once. Ends with the transaction. */
export const lockRoles = async (tx: Db): Promise<void> => void (await sql`select pg_advisory_xact_lock(hashtext('cob roles'))`.execute(tx))

/** The id of the person who is invited by an address, and has not signed in yet. */
export const findInvited = async (tx: Db, email: string): Promise<string | undefined> =>
  (
    await tx
      .selectFrom('people')
      .select('id')
      .where('subject', 'is', null)
      .where(sql<SqlBool>`lower(email) = lower(${email})`)
      .forUpdate()
      .executeTakeFirst()
  )?.id

export const hasRole = async (tx: Db, person: string, project: string | null): Promise<boolean> =>
  (await tx
    .selectFrom('memberships')
    .select('role')
    .where('person_id', '=', person)
    .where(sql<SqlBool>`project_id is not distinct from ${project}`)
    .executeTakeFirst()) !== undefined
