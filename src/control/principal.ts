// Who calls, and what it sees: the one place that makes the principal of a request.
import type { FastifyRequest } from 'fastify'
import { fault } from '../http/fault.ts'
import { bearer, type Authenticate } from '../http/mount.ts'
import type { Principal } from '../http/route.ts'
import type { Browsers } from './browsers/browsers.ts'
import type { SessionTokens } from './browsers/tokens.ts'
import type { CheckKey } from './org/keys.ts'
import { namedProjects, type ResolveProject } from './org/projects/resolve.ts'

/**
 * Who calls: a key, for its project or the one that a header names; or the holder of a session's token (`?jwt=`), for calls below its own session, by id or by name. A project
 * that a header names must exist, and for a token be the session's.
 */
export function admission(
  checkKey: CheckKey,
  resolve: ResolveProject,
  tokens: SessionTokens,
  browsers: Pick<Browsers, 'nameOf' | 'projectOf'>,
): (...call: Parameters<Authenticate>) => Promise<Principal> {
  const bySession = async (token: unknown, idOrName: string, headers: FastifyRequest['headers']): Promise<Principal> => {
    const id = await tokens.check(token, idOrName, browsers.nameOf)
    const project = await browsers.projectOf(id)
    if (project === undefined) throw fault.notFound('browser', idOrName)
    const by = { kind: 'session', id } as const
    // Its own project is not looked up: the session goes on when that is archived.
    if (namedProjects(headers).length > 0) await resolve({ project }, headers)
    return { by, project }
  }
  return async (request, access, _signal, seen) => {
    const { jwt } = request.query as { jwt?: unknown }
    if (access === 'session' && jwt !== undefined) return bySession(jwt, (request.params as { id: string }).id, request.headers)
    const by = await checkKey(bearer(request))
    seen(by)
    return { by, project: await resolve(by, request.headers) }
  }
}
