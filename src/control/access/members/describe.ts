// Describes a caller to itself: identity, role, and projects.
import { sql } from 'kysely'
import { isAccount, roleOf, type ByAccount, type Principal, type Role } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { atMost, findPerson, greater, type Person } from './person.ts'

/** A dashboard offers these for selection. The rest is in `GET /org/projects`, by pages. */
const MOST_PROJECTS = 1_000

export interface Described {
  principal: { type: 'api_key' | 'user'; id: string; name: string | null; email: string | null }
  role: Role | null
  projects: { id: string; name: string; role: Role }[]
}

/** The caller of a request, with the present roles. */
export async function describe(db: Db, by: Principal['by']): Promise<Described> {
  if (!isAccount(by)) throw new Error('tokens of sessions and logins describe nobody')
  const person = by.kind === 'user' ? await findPerson(db, by.id) : undefined
  const everywhere = everywhereOf(by, person)
  const name = by.kind === 'user' ? by.name : ((await db.selectFrom('api_keys').select('name').where('id', '=', by.id).executeTakeFirst())?.name ?? null)
  const named = by.kind === 'user' ? by.projects : by.project === undefined ? [] : [by.project]
  const projects = await db
    .selectFrom('projects')
    .select(['id', 'name'])
    .where('status', '=', 'active')
    .$if(everywhere === undefined, (select) => select.where(sql<boolean>`id = any(${[...named]})`))
    .orderBy('created_at')
    .orderBy('id')
    .limit(MOST_PROJECTS)
    .execute()
  const roleIn = (id: string): Role => (by.kind === 'key' ? roleOf({ by }) : atMost(greater(person?.everywhere, person?.roles.get(id)) ?? 'viewer', by.most))
  return {
    principal: { type: by.kind === 'user' ? 'user' : 'api_key', id: by.id, name, email: by.kind === 'user' ? by.email : null },
    role: everywhere ?? null,
    projects: projects.map((project) => ({ ...project, role: roleIn(project.id) })),
  }
}

/** The role in all projects. */
function everywhereOf(by: ByAccount, person: Person | undefined): Role | undefined {
  if (by.kind === 'key') return by.project === undefined ? roleOf({ by }) : undefined
  // A token for one project is valid for no other, whatever role the person has there.
  if (person?.everywhere === undefined || by.via.project !== undefined) return undefined
  return atMost(person.everywhere, by.most)
}
