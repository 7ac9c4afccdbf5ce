// The rules of connections: create, list, change and delete. Their logins: logins.ts.
import { newId } from '../../../base/ids.ts'
import { fault } from '../../../http/fault.ts'
import type { Page, Principal } from '../../../http/route.ts'
import { isDuplicate, isProjectGone, type Db } from '../../../store/db.ts'
import { pageOf } from '../../../store/lists.ts'
import { rescheduled, withoutRefusal } from './check-rules.ts'
import { CHECK_SECONDS, type Connection, type CreateConnection, type UpdateConnection } from './contract.ts'
import type { CredentialColumns, CredentialReferences } from './credential-references.ts'
import type { Flows } from './flows.ts'
import {
  changeConnection,
  connectionsOfProfile,
  deleteConnection,
  findConnection,
  idOfPair,
  insertConnection,
  listConnections,
  lockConnection,
  type ConnectionFilter,
  type ConnectionRow,
  type ConnectionWithProfile,
  type StoredBrowser,
} from './rows.ts'
import type { Views } from './views.ts'
import { isOfProject, resolveBrowser, storedBrowser, type BrowserNames, type Resolved } from './wanted-browser.ts'

/** Attempts to create a connection while others create or delete its profile. */
const CREATE_TRIES = 3

export interface ConnectionsSettings {
  db: Db
  scope: string
  flows: Flows
  references: CredentialReferences
  names: BrowserNames
  views: Views
  /** The id of the profile of this name. Creates the profile if there is none. @throws 400 for an invalid name */
  profileNamed: (project: string, name: string) => Promise<string>
}

export class Connections {
  readonly #settings: ConnectionsSettings

  constructor(settings: ConnectionsSettings) {
    this.#settings = settings
  }

  /** @throws 400; 409 with the id of the connection of the same profile and domain */
  async create(by: Principal, wanted: CreateConnection, origin: string, signal: AbortSignal): Promise<Connection> {
    const { names, references, profileNamed } = this.#settings
    const { project } = by
    const resolved = await resolveBrowser(names, project, wanted)
    const credential = wanted.credential && (await references.columns(project, wanted.credential))
    if (credential && isOfProject(by)) await references.assertFits(credential, wanted.domain, signal)
    for (let left = CREATE_TRIES; left > 0; left--) {
      const profile = await profileNamed(project, wanted.profile_name)
      const id = await this.#insert(by, profile, wanted, resolved, credential)
      if (id !== undefined) return this.get(by, id, origin)
    }
    throw fault.conflict('the profile of this connection is being changed by others at the same time')
  }

  async list(by: Principal, filter: ConnectionFilter, origin: string): Promise<Page<Connection>> {
    const { scope, views } = this.#settings
    const found = await views.of(by, origin, (tx) => listConnections(tx, { scope, project: by.project }, filter))
    return pageOf(found, filter, (connection) => connection)
  }

  /** @throws 404, like all that follow */
  async get(by: Principal, id: string, origin: string): Promise<Connection> {
    const found = await this.#settings.views.of(by, origin, async (tx) => [await this.#find(by.project, id, tx)])
    return found[0]!
  }

  /** @throws 400 */
  async update(by: Principal, id: string, changes: UpdateConnection, origin: string, signal: AbortSignal): Promise<Connection> {
    const { db, names, references } = this.#settings
    const { project } = by
    const resolved = await resolveBrowser(names, project, changes)
    const credential = changes.credential && (await references.columns(project, changes.credential))
    const setsPlaces = isOfProject(by) && (credential !== undefined || changes.allowed_domains !== undefined || typeof resolved.proxy_id === 'string')
    if (setsPlaces) {
      const before = await this.#find(project, id)
      await references.assertFits(credential ?? before, before.domain, signal)
    }
    await db.transaction().execute(async (tx) => {
      await lockConnection(tx, id)
      const row = await this.#find(project, id, tx)
      await changeConnection(tx, id, {
        ...changedColumns(changes),
        ...this.#schedule(row, changes),
        ...(credential && { ...credential, checks: JSON.stringify(withoutRefusal(row.checks)) }),
        // When a caller of one project sets where the credential is typed, this is recorded. Only a caller of the organization who names the credential removes
        // the record.
        ...((setsPlaces || credential) && { by_project_key: setsPlaces }),
        ...(resolved.proxy_id !== undefined && { proxy_id: resolved.proxy_id }),
        browser: JSON.stringify(storedBrowser(row.browser, resolved)),
      })
    })
    return this.get(by, id, origin)
  }

  async delete(project: string, id: string): Promise<void> {
    await this.#find(project, id)
    await this.#end(id, 'the connection was deleted')
  }

  /** Deletes the connections of a profile that was deleted. */
  async profileDeleted(profileId: string): Promise<void> {
    for (const id of await connectionsOfProfile(this.#settings.db, profileId)) await this.#end(id, 'the profile was deleted')
  }

  async #find(project: string, id: string, tx = this.#settings.db): Promise<ConnectionWithProfile> {
    const row = await findConnection(tx, { scope: this.#settings.scope, project }, id)
    if (!row) throw fault.notFound('auth connection', id)
    return row
  }

  /** Inserts a connection. Undefined when the profile, or another connection of the pair, was deleted just now. @throws 409 */
  async #insert(by: Principal, profile: string, wanted: CreateConnection, resolved: Resolved, credential?: CredentialColumns): Promise<string | undefined> {
    const { db, scope } = this.#settings
    const { project } = by
    await this.#assertFirst(project, profile, wanted)
    const id = newId()
    const row = {
      id,
      scope,
      project_id: project,
      profile_id: profile,
      domain: wanted.domain,
      login_url: wanted.login_url ?? null,
      allowed_domains: wanted.allowed_domains ?? [],
      auto_reauth: wanted.auto_reauth ?? true,
      health_checks: wanted.health_checks ?? true,
      health_check_seconds: wanted.health_check_interval ?? CHECK_SECONDS.usual,
      record_session: wanted.record_session ?? false,
      save_credentials: wanted.save_credentials ?? true,
      ...(credential ?? { credential_id: null, provider_id: null, provider_path: null }),
      by_project_key: isOfProject(by),
      proxy_id: resolved.proxy_id ?? null,
      browser: JSON.stringify(storedBrowser({ stealth: true } satisfies StoredBrowser, resolved)),
    }
    try {
      return (await insertConnection(db, row)) && id
    } catch (error) {
      if (isProjectGone(error)) throw fault.projectNotFound(project)
      if (!isDuplicate(error, 'auth_connections_pair')) throw error
      await this.#assertFirst(project, profile, wanted)
      return undefined
    }
  }

  /** A profile has one connection at a domain. @throws 409 with its id */
  async #assertFirst(project: string, profile: string, { domain, profile_name: name }: CreateConnection): Promise<void> {
    const existing = await idOfPair(this.#settings.db, project, profile, domain)
    if (existing !== undefined) throw fault.exists(`there is a connection of the profile "${name}" at ${domain} already`, existing)
  }

  /** The columns of health checks, if a caller has changed whether or how often they run. */
  #schedule(row: ConnectionRow, { health_checks = row.health_checks, health_check_interval: seconds = row.health_check_seconds }: UpdateConnection) {
    if (health_checks === row.health_checks && seconds === row.health_check_seconds) return {}
    const columns = { health_checks, health_check_seconds: seconds }
    return { ...columns, next_check_at: rescheduled({ ...row, ...columns }, { at: Date.now(), random: Math.random() }) }
  }

  async #end(id: string, why: string): Promise<void> {
    await this.#settings.flows.cancel(id, why)
    await deleteConnection(this.#settings.db, id)
  }
}

/** The columns that have the names of their fields; undefined ones stay unchanged. */
function changedColumns({ allowed_domains, auto_reauth, record_session, save_credentials, login_url: url }: UpdateConnection) {
  return {
    ...(allowed_domains !== undefined && { allowed_domains }),
    ...(auto_reauth !== undefined && { auto_reauth }),
    ...(record_session !== undefined && { record_session }),
    ...(save_credentials !== undefined && { save_credentials }),
    ...(url !== undefined && { login_url: url || null }),
  }
}
