// Handlers of the consent page's calls: what is asked for, and what a person answers.
import { fault } from '../../../http/fault.ts'
import { isAccount, known, type ByAccount, type Handlers, type Principal } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { findPerson } from '../members/person.ts'
import { findClient } from './clients.ts'
import type { AuthorizationRequest, oauth as contract } from './contract.ts'
import type { Giver, Grants } from './grants.ts'
import { placeOf } from './redirects.ts'
import { LOOK_SCOPE, type OAuthServer } from './server.ts'

export interface OAuthSettings {
  db: Db
  server: OAuthServer
  grants: Grants
  countTry: (address: string) => void
}

/** A token for this service is asked for, and for no other (RFC 8707). @throws 400 */
export function assertResource(resource: AuthorizationRequest['resource'], origin: string): void {
  for (const one of [resource ?? []].flat())
    if (!URL.canParse(one) || new URL(one).origin !== new URL(origin).origin) throw fault.field('resource', `must be an address of this service, ${origin}`)
}

/** Whose programs these are. @throws 403 for a program that was allowed access itself, and for the code of an app */
function giver(principal: Principal | undefined): Giver {
  const { by } = known(principal)
  if (!isAccount(by) || by.via?.kind === 'oauth' || by.deployment !== undefined)
    throw fault.forbidden('only a person who has signed in, or their own key, can look after the programs that were allowed access')
  return { kind: by.kind, id: by.id }
}

export const oauthHandlers = ({ db, server, grants, countTry }: OAuthSettings): Handlers<typeof contract> => ({
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
  async listAllowedPrograms({ principal, query: { offset, limit } }) {
    const rows = await grants.list(giver(principal), { offset, limit })
    const items = await Promise.all(
      rows.slice(0, limit).map(async ({ id, clientId, name, project, looksOnly, createdAt, expiresAt }) => ({
        id,
        name: name ?? (await findClient(db, clientId))?.name ?? clientId,
        project_id: project,
        looks_only: looksOnly,
        created_at: createdAt.toISOString(),
        expires_at: expiresAt.toISOString(),
      })),
    )
    return { items, nextOffset: rows.length > limit ? offset + limit : undefined }
  },
  async endAllowedProgram({ principal, params: { id } }) {
    if (!(await grants.end(giver(principal), id))) throw fault.notFound('allowed program', id)
  },
})

/** @throws 404 */
async function assertMayUse(db: Db, by: ByAccount, wanted: string): Promise<void> {
  const person = by.kind === 'user' ? await findPerson(db, by.id) : undefined
  const mayUse = by.kind === 'key' ? by.project === undefined || by.project === wanted : person?.everywhere !== undefined || person?.roles.has(wanted)
  const row = mayUse && (await db.selectFrom('projects').select('id').where('id', '=', wanted).where('status', '=', 'active').executeTakeFirst())
  if (!row) throw fault.projectIdNotFound(wanted)
}
