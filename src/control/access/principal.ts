// Makes the principal of a request, from its credential and project. No other code does.
import type { FastifyRequest } from 'fastify'
import { bearer } from '../../http/bearer.ts'
import type { Authenticate } from '../../http/mount.ts'
import type { Principal } from '../../http/route.ts'
import { apiKeys } from './api-keys/module.ts'
import { defineModule } from '../module.ts'
import { callerOf, inProject } from './members/person.ts'
import { isAccessToken } from './oauth/grants.ts'
import { oauth } from './oauth/module.ts'
import { ownTokens } from './own-tokens.ts'
import { projects } from './projects/module.ts'
import { namedProjects } from './projects/resolve.ts'
import { signIn } from './sign-in/module.ts'
import { sessionCookie } from './sign-in/cookie.ts'

type Admission = (...call: Parameters<Authenticate>) => Promise<Principal>

/**
 * The caller of a request. One of:
 * - an API key, for its project or for the project that a header names;
 * - the holder of a session's or a login's own token, for calls below its path;
 * - a person who has signed in, by a cookie (only from our own pages) or an OAuth token.
 * A project that a header names must exist. For a token it must be the token's own.
 */
export const admission = defineModule<Admission>({
  name: 'admission',
  open(house) {
    const { checkKey } = house.of(apiKeys)
    const { resolve } = house.of(projects)
    const sessions = house.of(signIn)
    const grants = house.of(oauth)
    const own = house.all(ownTokens)

    async function byOwnToken(request: FastifyRequest, reading: Promise<Principal>): Promise<Principal> {
      const principal = await reading
      request.caller = principal
      // The token's own project is not looked up: its holder may continue when the project is archived.
      if (namedProjects(request.headers).length > 0) await resolve({ project: principal.project }, request.headers)
      return principal
    }

    return async (request, access, _signal, seen, origin) => {
      const token = bearer(request)
      for (const kind of own) {
        const reading = kind.access === access ? kind.read({ query: request.query, bearer: token, id: (request.params as { id: string }).id }) : undefined
        if (reading) return byOwnToken(request, reading)
      }
      const cookie = token === undefined ? sessionCookie(request.headers, origin()) : undefined
      const account =
        cookie !== undefined ? await sessions.check(cookie) : token !== undefined && isAccessToken(token) ? await grants.check(token) : await checkKey(token)
      const shown = callerOf(account)
      // From here on, refused requests are in the audit log, too.
      request.caller = { by: shown, project: shown.project }
      seen(shown)
      const { by, project } =
        account.kind === 'key' ? { by: account, project: await resolve(account, request.headers) } : await inProject(account, resolve, request.headers)
      request.caller = { by, project }
      return { by, project }
    }
  },
})
