// The rules of credential providers: who may manage, test and list them.
import { newId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import { fault } from '../../../http/fault.ts'
import type { Page, Principal } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { pageOf } from '../../../store/lists.ts'
import { written } from '../../service/written.ts'
import { BackendProblem, type Item } from './backends/backend.ts'
import type { CreateProvider, CredentialProvider, ProviderItem, ProviderType, TestResult, UpdateProvider } from './contract.ts'
import { pathOf, ProviderProblem, resolve, type ProvidedCredential, type Wanted } from './resolve.ts'
import { changeProvider, deleteProvider, findNamed, findProvider, insertProvider, listProviders, type ProviderFilter, type ProviderRow } from './rows.ts'
import { Stores, type StoresSettings } from './stores.ts'

const KIND = 'credential provider'
const MOST_PROVIDERS = 100

export interface ProvidersSettings extends StoresSettings {
  db: Db
  log: Log
  /** @throws 403 unless the caller has a key of the whole organization */
  assertOrganization: (by: Principal) => void
}

/** Providers belong to no project: everybody may see their names. Only a key of the whole organization may manage, test or list one. */
export class CredentialProviders {
  readonly #settings: ProvidersSettings
  readonly #stores: Stores

  constructor(settings: ProvidersSettings) {
    this.#settings = settings
    this.#stores = new Stores(settings)
  }

  /** @throws 400 for a token that its type cannot have; 403; 409 when the name is taken, or there are too many */
  async create(by: Principal, { name, provider_type: type, token, cache_ttl_seconds: ttl }: CreateProvider, signal: AbortSignal): Promise<CredentialProvider> {
    const { db, assertOrganization } = this.#settings
    assertOrganization(by)
    await this.#stores.assertToken(type, token, signal)
    const id = newId()
    const row = { id, name, provider_type: type, token: this.#stores.seal(token, id), cache_ttl_seconds: ttl }
    const made = await named(name, insertProvider(db, row, MOST_PROVIDERS))
    if (!made) throw fault.conflict(`there are ${MOST_PROVIDERS} ${KIND}s already, the limit; delete one`)
    return present(made)
  }

  async list(filter: ProviderFilter): Promise<Page<CredentialProvider>> {
    return pageOf(await listProviders(this.#settings.db, filter), filter, present)
  }

  /** @throws 404 */
  async get(id: string): Promise<CredentialProvider> {
    return present(await this.#find(id))
  }

  /** @throws 400, 403, 404, 409 */
  async update(by: Principal, id: string, { token, ...changes }: UpdateProvider, signal: AbortSignal): Promise<CredentialProvider> {
    const { db, assertOrganization } = this.#settings
    assertOrganization(by)
    const row = await this.#find(id)
    if (token !== undefined) await this.#stores.assertToken(row.provider_type as ProviderType, token, signal)
    const given = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined))
    if (token === undefined && Object.keys(given).length === 0) return present(row)
    const sealed = token === undefined ? {} : { token: this.#stores.seal(token, id) }
    const changed = await named(changes.name, changeProvider(db, id, { ...given, ...sealed }))
    if (!changed) throw fault.notFound(KIND, id)
    return present(changed)
  }

  /** @throws 403, 404 */
  async delete(by: Principal, id: string): Promise<void> {
    const { db, assertOrganization } = this.#settings
    assertOrganization(by)
    if (!(await deleteProvider(db, id))) throw fault.notFound(KIND, id)
    this.#stores.forget(id)
  }

  /** @throws 403, 404; 502 when the store does not answer */
  async items(by: Principal, id: string, signal: AbortSignal): Promise<{ items: ProviderItem[] }> {
    this.#settings.assertOrganization(by)
    const row = await this.#find(id)
    const items = await this.#stores.items(row, signal).catch((error: unknown) => {
      throw error instanceof BackendProblem ? fault.badGateway(`the ${KIND} "${row.name}" does not answer: ${error.message}`) : error
    })
    return { items: items.map(presentItem) }
  }

  /** @throws 403, 404 */
  async test(by: Principal, id: string, signal: AbortSignal): Promise<TestResult> {
    this.#settings.assertOrganization(by)
    const row = await this.#find(id)
    try {
      return { success: true, vaults: await this.#stores.ask(row, signal, (backend, both) => backend.test(both)) }
    } catch (error) {
      if (!(error instanceof BackendProblem)) throw error
      return { success: false, vaults: [], error: error.message }
    }
  }

  /** The id of a provider by name or id; undefined when there is none. */
  async idOf(nameOrId: string): Promise<string | undefined> {
    return (await findNamed(this.#settings.db, nameOrId))?.id
  }

  /** The present credential for a login, for the login engine only. @throws ProviderProblem; the signal's reason */
  async resolve(providerId: string, wanted: Wanted, signal: AbortSignal): Promise<ProvidedCredential> {
    const row = await findProvider(this.#settings.db, providerId)
    if (!row) throw new ProviderProblem('provider_unavailable', `there is no ${KIND} "${providerId.slice(0, 100)}"`)
    return resolve(this.#stores, row, wanted, this.#settings.log, signal)
  }

  async #find(id: string): Promise<ProviderRow> {
    const row = await findProvider(this.#settings.db, id)
    if (!row) throw fault.notFound(KIND, id)
    return row
  }
}

const named = <T>(name: string | undefined, work: Promise<T>): Promise<T> => written(work, { table: 'credential_providers', one: `a ${KIND}` }, name)

const present = ({ id, name, provider_type, enabled, priority, created_at, updated_at }: ProviderRow): CredentialProvider => ({
  id,
  name,
  provider_type: provider_type as ProviderType,
  enabled,
  priority,
  created_at: created_at.toISOString(),
  updated_at: updated_at.toISOString(),
})

const presentItem = (item: Item): ProviderItem => ({
  id: item.id,
  path: pathOf(item),
  title: item.title,
  vault_id: item.vault.id,
  vault_name: item.vault.name,
  urls: item.urls,
})
