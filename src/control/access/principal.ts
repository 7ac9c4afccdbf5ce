// Who calls, and what it sees: the one place that makes the principal of a request.
import type { FastifyRequest } from 'fastify'
import { fault } from '../../http/fault.ts'
import { bearer } from '../../http/bearer.ts'
import type { Authenticate } from '../../http/mount.ts'
import type { Principal } from '../../http/route.ts'
import type { HandOff } from '../logins/auth-connections/hand-off.ts'
import type { Browsers } from '../sessions/browsers/browsers.ts'
import type { SessionTokens } from '../sessions/browsers/tokens.ts'
import type { CheckKey } from './keys.ts'
import { callerOf, inProject } from './members/person.ts'
import { namedProjects, type ResolveProject } from './projects/resolve.ts'
import { sessionCookie } from './sign-in/cookie.ts'
import type { SignIns } from './sign-in/web-sessions.ts'

/**
 * Who calls: a key, for its project or the one that a header names; the holder of a session's token (`?jwt=`), for calls below its own session, by id or by name; or
 * the holder of a login's token, for the few calls that go on with this login; or who has signed in, by a cookie that counts only from our own page, or a token of OAuth. A project
 * that a header names must exist, and for a token be the session's.
 */
export function admission(
  checkKey: CheckKey,
  resolve: ResolveProject,
  tokens: SessionTokens,
  browsers: Pick<Browsers, 'nameOf' | 'leaseOf' | 'projectOf'>,
  logins: Pick<HandOff, 'isToken' | 'check'>,
  signIns: SignIns,
): (...call: Parameters<Authenticate>) => Promise<Principal> {
  const bySession = async (request: FastifyRequest, token: unknown, idOrName: string): Promise<Principal> => {
    const session = await tokens.check(token, idOrName, browsers)
    const project = await browsers.projectOf(session.id)
    // Tokens of ended sessions are no credentials any more, and their requests are not in the audit log.
    if (project === undefined) throw fault.notFound('browser', idOrName)
    const by = { kind: 'session', ...session } as const
    request.caller = { by, project }
    // Its own project is not looked up: the session goes on when that is archived.
    if (namedProjects(request.headers).length > 0) await resolve({ project }, request.headers)
    return { by, project }
  }
  const byLogin = async (request: FastifyRequest, token: string, connection: string): Promise<Principal> => {
    const { flow, project } = await logins.check(token, connection)
    const by = { kind: 'login', id: flow } as const
    request.caller = { by, project }
    if (namedProjects(request.headers).length > 0) await resolve({ project }, request.headers)
    return { by, project }
  }
  return async (request, access, _signal, seen, origin) => {
    const { jwt } = request.query as { jwt?: unknown }
    if (access === 'session' && jwt !== undefined) return bySession(request, jwt, (request.params as { id: string }).id)
    const token = bearer(request)
    if (access === 'login' && token !== undefined && logins.isToken(token)) return byLogin(request, token, (request.params as { id: string }).id)
    const cookie = token === undefined ? sessionCookie(request.headers, origin()) : undefined
    const account =
      cookie !== undefined
        ? await signIns.ofCookie(cookie)
        : token !== undefined && signIns.isToken(token)
          ? await signIns.ofToken(token)
          : await checkKey(token)
    const shown = callerOf(account)
    // The audit log also has requests that are refused from here on.
    request.caller = { by: shown, project: shown.project }
    seen(shown)
    const { by, project } =
      account.kind === 'key' ? { by: account, project: await resolve(account, request.headers) } : await inProject(account, resolve, request.headers)
    request.caller = { by, project }
    return { by, project }
  }
}
