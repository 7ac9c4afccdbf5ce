// Projects. Until they are built there is one, called "Default". A caller that names another one gets an error.
import type { IncomingHttpHeaders } from 'node:http'
import { fault } from '../../http/fault.ts'

/** The headers in which clients name a project: `Project` by id or name; older clients send `Project-Id`. */
const HEADERS = ['x-kernel-project', 'x-kernel-project-id'] as const
const DEFAULT = 'default'

/** @throws 404 `project_not_found` when a header names a project other than the default one. An empty header names none. */
export function checkProject(headers: IncomingHttpHeaders): void {
  for (const header of HEADERS) {
    const named = headers[header]
    if (typeof named === 'string' && named !== '' && named.toLowerCase() !== DEFAULT) throw fault.projectNotFound(named)
  }
}
