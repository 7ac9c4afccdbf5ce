// Projects: finds the effective project of a request. Every object of callers belongs to one.
import { isUtf8 } from 'node:buffer'
import type { IncomingHttpHeaders } from 'node:http'
import { fault } from '../../../http/fault.ts'
import type { ByKey } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { isCalled } from '../../../store/names.ts'
import type { Rights } from '../rights.ts'

/** The project of callers who name none. A migration creates it, with this id in every service. */
export const DEFAULT_PROJECT = 'defaultproject0000000000'

/** The headers in which clients name a project: `Project` by id or name; older clients send `Project-Id`. */
const HEADERS = ['x-kernel-project', 'x-kernel-project-id'] as const

/** The projects that a request names; an empty header names none. */
export const namedProjects = (headers: IncomingHttpHeaders): string[] =>
  HEADERS.map((header) => headers[header]).filter((value) => typeof value === 'string' && value !== '') as string[]

/** The text of a header: Node reads its bytes as Latin-1, which browsers send. Most other clients send UTF-8. */
function textOf(header: string): string {
  const bytes = Buffer.from(header, 'latin1')
  return isUtf8(bytes) ? bytes.toString() : header
}

/** Finds the effective project. @throws 404 `project_not_found`; 403 for a project that the key may not use; 400 when two headers name different ones */
export type ResolveProject = (key: Pick<ByKey, 'project'>, headers: IncomingHttpHeaders) => Promise<string>

export function projectResolver(db: Db, rights: Rights): ResolveProject {
  const known = rights.remember<string>()

  /** The active project with that id or name. @throws 404 */
  const find = (named: string): Promise<string> =>
    known.get(named, async () => {
      const rows = await db
        .selectFrom('projects')
        .select('id')
        .where('status', '=', 'active')
        .where((eb) => eb.or([eb('id', '=', named), isCalled('name', named)]))
        .execute()
      const id = rows.find((row) => row.id === named)?.id ?? rows[0]?.id
      if (id === undefined) throw fault.projectNotFound(named)
      return { value: id }
    })

  return async (key, headers) => {
    const own = key.project ?? DEFAULT_PROJECT
    const named = namedProjects(headers)
    if (named.length === 0) return own === DEFAULT_PROJECT ? own : find(own)
    const [id, other] = await Promise.all(named.map((value) => find(textOf(value))))
    if (other !== undefined && other !== id) throw fault.field('X-Kernel-Project', 'names another project than X-Kernel-Project-Id')
    // A key of one project must not even see whether another one exists. Here the caller has named an existing one.
    if (key.project !== undefined && id !== key.project) throw fault.forbidden('this key or token belongs to another project')
    return id!
  }
}
