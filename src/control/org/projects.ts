// Projects: which one is in effect for a request. Every object of callers belongs to one.
import type { IncomingHttpHeaders } from 'node:http'
import { fault } from '../../http/fault.ts'
import type { ByKey } from '../../http/route.ts'
import type { Db } from '../../store/db.ts'

/** The project of callers who name none. Made by the migration that made projects, with this id everywhere. */
export const DEFAULT_PROJECT = 'defaultproject0000000000'

/** The headers in which clients name a project: `Project` by id or name; older clients send `Project-Id`. */
const HEADERS = ['x-kernel-project', 'x-kernel-project-id'] as const

/** The projects that a request names; an empty header names none. */
export const namedProjects = (headers: IncomingHttpHeaders): string[] =>
  HEADERS.map((header) => headers[header]).filter((value) => typeof value === 'string' && value !== '') as string[]

/** How long a project that was found is used without another query. One that was archived may still be used for so long. */
const REMEMBER_MS = 2_000
const REMEMBER_PROJECTS = 1_000

/** Tells the project in effect. @throws 404 `project_not_found`; 403 for a project that the key may not be used for; 400 when two headers name different ones */
export type ResolveProject = (key: Pick<ByKey, 'project'>, headers: IncomingHttpHeaders) => Promise<string>

export function projectResolver(db: Db): ResolveProject {
  const known = new Map<string, { id: string; until: number }>()

  /** The active project with that id or name. @throws 404 */
  async function find(named: string): Promise<string> {
    const name = named.toLowerCase()
    const found = known.get(name)
    if (found && found.until > performance.now()) return found.id
    const rows = await db
      .selectFrom('projects')
      .select('id')
      .where('status', '=', 'active')
      .where((eb) => eb.or([eb('id', '=', named), eb(eb.fn('lower', ['name']), '=', name)]))
      .execute()
    const id = rows.find((row) => row.id === named)?.id ?? rows[0]?.id
    if (id === undefined) throw fault.projectNotFound(named)
    if (known.size >= REMEMBER_PROJECTS) known.clear()
    known.set(name, { id, until: performance.now() + REMEMBER_MS })
    return id
  }

  return async (key, headers) => {
    const own = key.project ?? DEFAULT_PROJECT
    const named = namedProjects(headers)
    if (named.length === 0) return own === DEFAULT_PROJECT ? own : find(own)
    const [id, other] = await Promise.all(named.map(find))
    if (other !== undefined && other !== id) throw fault.field('X-Kernel-Project', 'names another project than X-Kernel-Project-Id')
    // Of other projects such a key must not even see whether they exist; but it has named one that does.
    if (key.project !== undefined && id !== key.project) throw fault.forbidden('this key or token belongs to another project')
    return id!
  }
}
