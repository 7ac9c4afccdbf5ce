// People: their roles, and how these become the principal of one request.
import type { IncomingHttpHeaders } from 'node:http'
import { sql } from 'kysely'
import { fault } from '../../../http/fault.ts'
import { ROLES, type ByAccount, type ByKey, type ByUser, type Role, type SignIn } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { DEFAULT_PROJECT, namedProjects, type ResolveProject } from '../projects/resolve.ts'

/** A person who has signed in, with all roles. */
export interface Person {
  kind: 'person'
  id: string
  name: string | null
  email: string | null
  via?: SignIn | undefined
  /** The role in all projects. */
  everywhere: Role | undefined
  /** Roles in active projects, oldest project first. */
  roles: ReadonlyMap<string, Role>
  /** The only project for which the sign-in is valid; undefined: all of theirs. */
  project: string | undefined
  /** The highest role that the sign-in was allowed. */
  most?: Role | undefined
}

const rank = (role: Role | undefined): number => (role === undefined ? -1 : ROLES.indexOf(role))

export const greater = (one: Role | undefined, other: Role | undefined): Role | undefined => (rank(one) >= rank(other) ? one : other)

/** A role, limited to what the sign-in was allowed. */
export const atMost = (role: Role, most: Role | undefined): Role => (most === undefined || rank(role) < rank(most) ? role : most)

/** Undefined when there is no such person, or they have no role. */
export async function findPerson(db: Db, id: string): Promise<Person | undefined> {
  const row = await db.selectFrom('people').select(['id', 'name', 'email']).where('id', '=', id).executeTakeFirst()
  if (!row) return undefined
  const memberships = await db
    .selectFrom('memberships as m')
    .leftJoin('projects as p', 'p.id', 'm.project_id')
    .select(['m.project_id', 'm.role'])
    .where('m.person_id', '=', id)
    .where((eb) => eb.or([eb('m.project_id', 'is', null), eb('p.status', '=', 'active')]))
    .orderBy(sql`p.created_at`)
    .orderBy('m.project_id')
    .execute()
  const everywhere = memberships.find(({ project_id }) => project_id === null)?.role as Role | undefined
  const roles = new Map(memberships.flatMap(({ project_id, role }) => (project_id === null ? [] : [[project_id, role as Role] as const])))
  return everywhere === undefined && roles.size === 0 ? undefined : { kind: 'person', ...row, everywhere, roles, project: undefined }
}

/** The present roles of these people in a project: the higher of their role in all projects and in that one. Undefined: none any more. */
export async function rolesNow(db: Db, people: string[]): Promise<(person: string, project: string) => Role | undefined> {
  const rows = await db
    .selectFrom('memberships as m')
    .leftJoin('projects as p', 'p.id', 'm.project_id')
    .select(['m.person_id', 'm.project_id', 'm.role'])
    .where('m.person_id', 'in', people)
    .where((eb) => eb.or([eb('m.project_id', 'is', null), eb('p.status', '=', 'active')]))
    .execute()
  const roles = new Map(rows.map(({ person_id, project_id, role }) => [`${person_id} ${project_id ?? ''}`, role as Role]))
  return (person, project) => greater(roles.get(`${person} `), roles.get(`${person} ${project}`))
}

/** Whether one role includes another. */
export const isAtLeast = (role: Role | undefined, other: Role): boolean => rank(role) >= rank(other)

/** The caller of a sign-in, before a project is known. */
export function callerOf(account: ByKey | Person): ByAccount {
  if (account.kind === 'key') return account
  const { id, name, email, via, everywhere = 'viewer', project, most } = account
  return { kind: 'user', id, name, email, via: via!, role: everywhere, most, project, projects: [], deployment: undefined }
}

/**
 * The caller in the effective project: the one that a header names, else the default one, else the person's first. If they have a role only there, the caller
 * is bound to that project, like a key of the project. @throws 403, 404
 */
export async function inProject(person: Person, resolve: ResolveProject, headers: IncomingHttpHeaders): Promise<{ by: ByUser; project: string }> {
  const { everywhere, roles } = person
  const own = person.project ?? (everywhere !== undefined || roles.has(DEFAULT_PROJECT) ? undefined : [...roles.keys()][0])
  const isNamed = namedProjects(headers).length > 0
  const project = await resolve({ project: person.project ?? (isNamed ? undefined : own) }, headers)
  const held = greater(everywhere, roles.get(project))
  if (held === undefined) throw fault.forbidden('you are not a member of this project')
  const isBound = person.project !== undefined || rank(everywhere) < rank(held)
  const role = atMost(held, person.most)
  const by: ByUser = {
    ...(callerOf(person) as ByUser),
    role,
    project: isBound ? project : undefined,
    projects: person.project === undefined ? [...roles.keys()] : [project],
  }
  return { by, project }
}
