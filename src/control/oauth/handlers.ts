// Handlers of the consent page's calls: what is asked for, and what a person answers.
import { fault } from '../../http/fault.ts'
import { isAccount, known, type ByAccount, type Handlers } from '../../http/route.ts'
import type { Db } from '../../store/db.ts'
import { findPerson } from '../org/members/person.ts'
import type { AuthorizationRequest, oauth as contract } from './contract.ts'
import { placeOf } from './redirects.ts'
import { LOOK_SCOPE, type OAuthServer } from './server.ts'

export interface OAuthSettings {
  db: Db
  server: OAuthServer
  countTry: (address: string) => void
}

/** A token for this service is asked for, and for no other (RFC 8707). @throws 400 */
export function assertResource(resource: AuthorizationRequest['resource'], origin: string): void {
  for (const one of [resource ?? []].flat())
    if (!URL.canParse(one) || new URL(one).origin !== new URL(origin).origin) throw fault.field('resource', `must be an address of this service, ${origin}`)
}

export const oauthHandlers = ({ db, server, countTry }: OAuthSettings): Handlers<typeof contract> => ({
  async getAuthorizationRequest({ query, address, origin }) {
    countTry(address)
    const { name } = await server.assertClient(query)
    assertResource(query.resource, origin)
    return { client: { name }, goes_to: placeOf(query.redirect_uri), looks_only: (query.scope ?? '').split(' ').includes(LOOK_SCOPE) }
  },
  async answerAuthorizationRequest({ principal, body: { request, allow, project_id: wanted, looks_only: looksOnly }, origin }) {
    const { by } = known(principal)
    // A token must not make another that outlives it, nor a program with a key one for a client that nobody has seen.
    if (!isAccount(by) || by.via?.kind !== 'dashboard') throw fault.forbidden('only a person who has signed in on the page can allow a program access')
    await server.assertClient(request)
    assertResource(request.resource, origin)
    const only = wanted ?? (by.kind === 'key' ? by.project : undefined)
    if (only !== undefined) await assertMayUse(db, by, only)
    const redirectTo = await server.authorize(request, allow, {
      keyId: by.kind === 'key' ? by.id : null,
      personId: by.kind === 'user' ? by.id : null,
      project: only ?? null,
      looksOnly,
    })
    return { redirect_to: redirectTo }
  },
})

/** @throws 404 */
async function assertMayUse(db: Db, by: ByAccount, wanted: string): Promise<void> {
  const person = by.kind === 'user' ? await findPerson(db, by.id) : undefined
  const mayUse = by.kind === 'key' ? by.project === undefined || by.project === wanted : person?.everywhere !== undefined || person?.roles.has(wanted)
  const row = mayUse && (await db.selectFrom('projects').select('id').where('id', '=', wanted).where('status', '=', 'active').executeTakeFirst())
  if (!row) throw fault.projectIdNotFound(wanted)
}
