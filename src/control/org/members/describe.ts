// What a caller is told about itself: who it is, its role, and its projects.
import { sql } from 'kysely'
import { isAccount, type Principal, type Role } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { findPerson, greater } from './person.ts'

/** A dashboard offers these to choose from. All of them are in `GET /org/projects`, by pages. */
const MOST_PROJECTS = 1_000

export interface Described {
  principal: { type: 'api_key' | 'user'; id: string; name: string | null; email: string | null }
  role: Role | null
  projects: { id: string; name: string; role: Role }[]
}

/** The caller of a request, with roles as they are now. */
export async function describe(db: Db, by: Principal['by']): Promise<Described> {
  if (!isAccount(by)) throw new Error('tokens of sessions and logins describe nobody')
  const person = by.kind === 'user' ? await findPerson(db, by.id) : undefined
  const everywhere =
    by.kind === 'user'
      ? by.via.kind === 'oauth' && by.project !== undefined
        ? undefined
        : person?.everywhere
      : by.project === undefined
        ? ('owner' as const)
        : undefined
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
  const roleIn = (id: string): Role => (by.kind === 'key' ? 'owner' : (greater(person?.everywhere, person?.roles.get(id)) ?? 'viewer'))
  return {
    principal: { type: by.kind === 'user' ? 'user' : 'api_key', id: by.id, name, email: by.kind === 'user' ? by.email : null },
    role: everywhere ?? null,
    projects: projects.map((project) => ({ ...project, role: roleIn(project.id) })),
  }
}
