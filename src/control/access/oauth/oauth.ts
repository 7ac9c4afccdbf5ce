// The rules of the consent page: who may allow a program access and to what, and who manages these programs.
import { fault } from '../../../http/fault.ts'
import { isAccount, type ByAccount, type Page, type Principal } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { pageOf, type Paging } from '../../../store/lists.ts'
import { findPerson } from '../members/person.ts'
import { findClient } from './clients.ts'
import type { AllowedProgram, Answer, AuthorizationRequest, ShownRequest } from './contract.ts'
import type { Allowed, Giver, Grants } from './grants.ts'
import { placeOf } from './redirects.ts'
import { assertResource, LOOK_SCOPE, type OAuthServer } from './server.ts'

interface ConsentSettings {
  db: Db
  server: OAuthServer
  grants: Grants
  /** @throws 429 */
  countTry: (address: string) => void
}

export class Consent {
  readonly #settings: ConsentSettings

  constructor(settings: ConsentSettings) {
    this.#settings = settings
  }

  /** The facts that a person reads before they decide. @throws 400, 429 */
  async show(request: AuthorizationRequest, address: string, origin: string): Promise<ShownRequest> {
    const { server, countTry } = this.#settings
    countTry(address)
    const { name } = await server.assertClient(request)
    assertResource(request.resource, origin)
    return { client: { name }, goes_to: placeOf(request.redirect_uri), looks_only: (request.scope ?? '').split(' ').includes(LOOK_SCOPE) }
  }

  /** The address to which the web browser goes after a person's answer. @throws 400, 403, 404 */
  async answer({ by }: Principal, { request, allow, project_id: wanted, looks_only: looksOnly }: Answer, origin: string): Promise<{ redirect_to: string }> {
    // A token must not make another one that outlives it. A program with a key must not make one for a client that nobody has seen.
    if (!isAccount(by) || by.via?.kind !== 'dashboard') throw fault.forbidden('only a person who has signed in on the page can allow a program access')
    const { db, server } = this.#settings
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
  }

  /** The programs that the caller has allowed access. @throws 403 */
  async list(principal: Principal, paging: Paging): Promise<Page<AllowedProgram>> {
    const { items, nextOffset } = pageOf(await this.#settings.grants.list(giverOf(principal), paging), paging, (row) => this.#present(row))
    return { items: await Promise.all(items), nextOffset }
  }

  /** @throws 403, 404 */
  async end(principal: Principal, id: string): Promise<void> {
    if (!(await this.#settings.grants.end(giverOf(principal), id))) throw fault.notFound('allowed program', id)
  }

  async #present({ id, clientId, name, project, looksOnly, createdAt, expiresAt }: Allowed): Promise<AllowedProgram> {
    return {
      id,
      name: name ?? (await findClient(this.#settings.db, clientId))?.name ?? clientId,
      project_id: project,
      looks_only: looksOnly,
      created_at: createdAt.toISOString(),
      expires_at: expiresAt.toISOString(),
    }
  }
}

/** The owner of these programs. @throws 403 for a program that was allowed access itself, and for the code of an app */
function giverOf({ by }: Principal): Giver {
  if (!isAccount(by) || by.via?.kind === 'oauth' || by.deployment !== undefined)
    throw fault.forbidden('only a person who has signed in, or their own key, can look after the programs that were allowed access')
  return { kind: by.kind, id: by.id }
}

/** @throws 404 */
async function assertMayUse(db: Db, by: ByAccount, wanted: string): Promise<void> {
  const person = by.kind === 'user' ? await findPerson(db, by.id) : undefined
  const mayUse = by.kind === 'key' ? by.project === undefined || by.project === wanted : person?.everywhere !== undefined || person?.roles.has(wanted)
  const row = mayUse && (await db.selectFrom('projects').select('id').where('id', '=', wanted).where('status', '=', 'active').executeTakeFirst())
  if (!row) throw fault.projectIdNotFound(wanted)
}
