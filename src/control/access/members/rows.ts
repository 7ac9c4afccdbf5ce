// The rows of people and their memberships, for callers who manage them.
import { sql, type SqlBool } from 'kysely'
import type { Role } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import type { Paging } from '../../../store/lists.ts'
import { holds } from '../../../store/names.ts'
import type { Member } from './contract.ts'

/** The project whose members a caller manages; undefined: all. */
export type Within = string | undefined

/** Most roles in single projects that are shown for one person. */
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

/** The answers for people, with their roles. A caller who manages one project sees only the role there. */
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

export interface PeopleFilter extends Paging {
  query?: string | undefined
}

/** One page of people, by their addresses, with one more than `limit` when there are more. */
export async function listPeople(db: Db, within: Within, { query, offset, limit }: PeopleFilter): Promise<Member[]> {
  const rows = await peopleWithin(db, within)
    .$if(Boolean(query), (select) => select.where((eb) => eb.or([holds('h.email', query!), holds('h.name', query!)])))
    .orderBy(sql`lower(h.email)`)
    .orderBy('h.id')
    .offset(offset)
    .limit(limit + 1)
    .execute()
  return shown(db, within, rows)
}

/** Sets the role in a project (null: in all); replaces the present one. */
export const setRole = async (tx: Db, person: string, project: string | null, role: Role, bySettings = false): Promise<void> =>
  void (await tx
    .insertInto('memberships')
    .values({ person_id: person, project_id: project, role, by_settings: bySettings })
    .onConflict((conflict) => conflict.columns(['person_id', 'project_id']).doUpdateSet({ role, by_settings: bySettings }))
    .execute())

/** Allows one change of roles at a time: two owners must not remove each other's role at once. Ends with the transaction. */
export const lockRoles = async (tx: Db): Promise<void> => void (await sql`select pg_advisory_xact_lock(hashtext('cob roles'))`.execute(tx))

/** The id of the person who was invited by this address and has not signed in yet. */
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

/** Prevents the deletion of a project until the transaction ends. @returns whether there is one */
export const holdProject = async (tx: Db, id: string): Promise<boolean> =>
  (await tx.selectFrom('projects').select('id').where('id', '=', id).forKeyShare().executeTakeFirst()) !== undefined

interface NewPerson {
  id: string
  email: string | undefined
  name: string | undefined
  subject: string | undefined
  issuer: string | undefined
  /** The key or person that invites. */
  invitedBy: string
}

/** Inserts a person who has not signed in yet. */
export async function insertInvited(tx: Db, { id, invitedBy, ...facts }: NewPerson): Promise<void> {
  const { email = null, name = null, subject = null, issuer = null } = facts
  await tx.insertInto('people').values({ id, email, name, subject, issuer, invited_by: invitedBy }).execute()
}

export const removePerson = async (tx: Db, id: string): Promise<void> => void (await tx.deleteFrom('people').where('id', '=', id).execute())

/** Removes the role in one project. A person without another role is removed, too: nobody could see and remove them later. @returns whether there was a role */
export async function removeRole(tx: Db, person: string, project: string): Promise<boolean> {
  const { numDeletedRows } = await tx.deleteFrom('memberships').where('person_id', '=', person).where('project_id', '=', project).executeTakeFirst()
  if (numDeletedRows === 0n) return false
  await sql`delete from people p where id = ${person} and not exists (select from memberships m where m.person_id = p.id)`.execute(tx)
  return true
}
