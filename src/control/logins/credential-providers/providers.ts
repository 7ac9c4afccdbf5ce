// The rules of credential providers: who may manage them, what of their stores is remembered, and what the login engine gets of them.
import type { Config } from '../../../base/config.ts'
import { newId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import { Mutexes } from '../../../base/mutex.ts'
import type { Keys } from '../../../base/keys.ts'
import { makeSealer } from '../../../base/sealed.ts'
import { fault } from '../../../http/fault.ts'
import type { Page, Principal } from '../../../http/route.ts'
import { isDuplicate, type Db } from '../../../store/db.ts'
import { BackendProblem, type Backend, type Item, type ItemValues } from './backends/backend.ts'
import { credentialFiles } from './backends/files.ts'
import { makeAsker } from './backends/http.ts'
import { openBackend, type BackendTools } from './backends/open.ts'
import { WrongToken } from './backends/token.ts'
import type { CreateProvider, CredentialProvider, ProviderItem, ProviderType, TestResult, UpdateProvider } from './contract.ts'
import { makeItemLists } from './item-lists.ts'
import { bestMatch, fits } from './match.ts'
import { changeProvider, deleteProvider, findNamed, findProvider, insertProvider, listProviders, type ProviderFilter, type ProviderRow } from './rows.ts'

const KIND = 'credential provider'
const MOST_PROVIDERS = 100
/** One call of a store, with what it waits for. */
const BACKEND_MS = 30_000

/** What the login engine gets, and must not keep. */
export interface ProvidedCredential {
  values: Record<string, string>
  /** A base32 secret, or an otpauth:// URI. */
  totp: string | undefined
  urls: string[]
  title: string
}

/** Why there is no credential. Its message is for callers, and has no values in it. */
export class ProviderProblem extends Error {
  override name = 'ProviderProblem'
  readonly code: 'provider_unavailable' | 'credential_not_found'
  constructor(code: ProviderProblem['code'], message: string) {
    super(message)
    this.code = code
  }
}

export interface ProvidersSettings {
  db: Db
  keys: Keys
  config: Pick<Config, 'credentialFilesDir' | 'allowHostLoopback'>
  log: Log
  /** @throws 403 unless the caller has a key of the whole organization */
  assertOrganization: (by: Principal) => void
}

/** They belong to no project: everybody may see which there are. To manage, try or look into one takes a key of the whole organization. */
export interface CredentialProviders {
  /** @throws 400 for a token that its type cannot have; 403; 409 when the name is taken, or there are too many */
  create(by: Principal, wanted: CreateProvider, signal: AbortSignal): Promise<CredentialProvider>
  list(filter: ProviderFilter): Promise<Page<CredentialProvider>>
  /** @throws 404 */
  get(id: string): Promise<CredentialProvider>
  /** @throws 400, 403, 404, 409 */
  update(by: Principal, id: string, changes: UpdateProvider, signal: AbortSignal): Promise<CredentialProvider>
  /** @throws 403, 404 */
  delete(by: Principal, id: string): Promise<void>
  /** @throws 403, 404; 502 when the store does not answer */
  items(by: Principal, id: string, signal: AbortSignal): Promise<{ items: ProviderItem[] }>
  /** @throws 403, 404 */
  test(by: Principal, id: string, signal: AbortSignal): Promise<TestResult>
  /** The id of a provider by name or id; undefined when there is none. */
  idOf(nameOrId: string): Promise<string | undefined>
  /** The credential at a path (with `domain`: if it is meant for that one), or for a domain (auto), read now. @throws ProviderProblem; the signal's reason */
  resolve(providerId: string, by: { path: string; domain?: string | undefined } | { domain: string }, signal: AbortSignal): Promise<ProvidedCredential>
}

const pathOf = ({ vault, title }: Item): string => `${vault.name}/${title}`

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

export function makeCredentialProviders({ db, keys, config, assertOrganization, log }: ProvidersSettings): CredentialProviders {
  const sealer = makeSealer(keys, 'credential-providers')
  const tools: BackendTools = { files: credentialFiles(config.credentialFilesDir), asker: makeAsker(config) }
  const lists = makeItemLists()
  /** One call at a time of each provider, so that nobody can have a store opened many times at once. */
  const turns = new Mutexes()

  const named = async <T>(name: string | undefined, work: Promise<T>): Promise<T> =>
    work.catch((error: unknown) => {
      throw isDuplicate(error, 'credential_providers_name') ? fault.conflict(`there is a ${KIND} named "${name}" already`) : error
    })

  async function find(id: string): Promise<ProviderRow> {
    const row = await findProvider(db, id)
    if (!row) throw fault.notFound(KIND, id)
    return row
  }

  /** @throws 400 naming the token when it does not have the form of its type, or names a server that callers may not reach */
  async function assertToken(type: ProviderType, token: string, signal: AbortSignal): Promise<void> {
    try {
      await openBackend(type, token, tools).assertAllowed?.(signal)
    } catch (error) {
      throw error instanceof WrongToken || error instanceof BackendProblem ? fault.field('token', error.message) : error
    }
  }

  /**
   * One call of a provider's store. @throws BackendProblem; the signal's reason. Any other error of a backend may have in it what the backend has read, so only its name is passed on.
   */
  async function ask<T>(row: ProviderRow, signal: AbortSignal, work: (backend: Backend, signal: AbortSignal) => Promise<T>): Promise<T> {
    const limit = AbortSignal.timeout(BACKEND_MS)
    const both = AbortSignal.any([signal, limit])
    try {
      return await turns.run(row.id, async () => work(openBackend(row.provider_type as ProviderType, tokenOf(row), tools), both), both)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof BackendProblem) throw error
      if (limit.aborted) throw new BackendProblem(`the store did not answer within ${BACKEND_MS / 1000} s`)
      if (error instanceof WrongToken) throw new BackendProblem('the token does not have the form of this type any more; set it again')
      const { name, code } = error as NodeJS.ErrnoException
      throw new Error(`a ${KIND} of the type ${row.provider_type} failed: ${name}${code === undefined ? '' : ` ${code}`}`)
    }
  }

  function tokenOf(row: ProviderRow): string {
    try {
      return sealer.open(row.token, row.id)
    } catch {
      throw new BackendProblem('the token cannot be read with the secret key of the service; set it again')
    }
  }

  const itemsOf = (row: ProviderRow, signal: AbortSignal, isFresh = false): Promise<Item[]> =>
    lists.get(row, isFresh, () => ask(row, signal, (backend, both) => backend.listItems(both)))

  /** The same for an item that is not there: a caller who may not list items learns nothing of them. */
  const notMeant = (row: ProviderRow) => new ProviderProblem('credential_not_found', `the ${KIND} "${row.name}" has no item at this path for this domain`)

  /** @throws ProviderProblem when nothing, or more than one thing, has this path */
  async function atPath(row: ProviderRow, path: string, signal: AbortSignal): Promise<Item> {
    const having = (items: Item[]) => items.filter((item) => pathOf(item) === path)
    // One that was added after the list was read is found as well.
    const remembered = having(await itemsOf(row, signal))
    const found = remembered.length > 0 ? remembered : having(await itemsOf(row, signal, true))
    if (found.length > 1)
      throw new ProviderProblem('credential_not_found', `${found.length} items of the ${KIND} "${row.name}" have this path; give them different titles`)
    if (!found[0]) throw new ProviderProblem('credential_not_found', `the ${KIND} "${row.name}" has no item at this path`)
    return found[0]
  }

  async function forDomain(row: ProviderRow, domain: string, signal: AbortSignal): Promise<Item> {
    const item = bestMatch(domain, [await itemsOf(row, signal)])
    if (!item) throw new ProviderProblem('credential_not_found', `the ${KIND} "${row.name}" has no item for this domain`)
    return item
  }

  return {
    async create(by, { name, provider_type: type, token, cache_ttl_seconds: ttl }, signal) {
      assertOrganization(by)
      await assertToken(type, token, signal)
      const id = newId()
      const row = { id, name, provider_type: type, token: sealer.seal(token, id), cache_ttl_seconds: ttl }
      const made = await named(name, insertProvider(db, row, MOST_PROVIDERS))
      if (!made) throw fault.conflict(`there are ${MOST_PROVIDERS} ${KIND}s already, the limit; delete one`)
      return present(made)
    },

    async list({ offset, limit, ...filter }) {
      const rows = await listProviders(db, { ...filter, offset, limit })
      return { items: rows.slice(0, limit).map(present), nextOffset: rows.length > limit ? offset + limit : undefined }
    },

    get: async (id) => present(await find(id)),

    async update(by, id, { token, ...changes }, signal) {
      assertOrganization(by)
      const row = await find(id)
      if (token !== undefined) await assertToken(row.provider_type as ProviderType, token, signal)
      const given = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined))
      if (token === undefined && Object.keys(given).length === 0) return present(row)
      const changed = await named(changes.name, changeProvider(db, id, { ...given, ...(token !== undefined && { token: sealer.seal(token, id) }) }))
      if (!changed) throw fault.notFound(KIND, id)
      return present(changed)
    },

    async delete(by, id) {
      assertOrganization(by)
      if (!(await deleteProvider(db, id))) throw fault.notFound(KIND, id)
      lists.forget(id)
    },

    async items(by, id, signal) {
      assertOrganization(by)
      const row = await find(id)
      const items = await itemsOf(row, signal).catch((error: unknown) => {
        throw error instanceof BackendProblem ? fault.badGateway(`the ${KIND} "${row.name}" does not answer: ${error.message}`) : error
      })
      return { items: items.map(presentItem) }
    },

    async test(by, id, signal) {
      assertOrganization(by)
      const row = await find(id)
      try {
        return { success: true, vaults: await ask(row, signal, (backend, both) => backend.test(both)) }
      } catch (error) {
        if (!(error instanceof BackendProblem)) throw error
        return { success: false, vaults: [], error: error.message }
      }
    },

    idOf: async (nameOrId) => (await findNamed(db, nameOrId))?.id,

    async resolve(providerId, by, signal) {
      const row = await findProvider(db, providerId)
      if (!row) throw new ProviderProblem('provider_unavailable', `there is no ${KIND} "${providerId.slice(0, 100)}"`)
      if (!row.enabled) throw new ProviderProblem('provider_unavailable', `the ${KIND} "${row.name}" is disabled`)
      try {
        const item = 'path' in by ? await atPath(row, by.path, signal) : await forDomain(row, by.domain, signal)
        const read = await ask(row, signal, (backend, both) => backend.resolve(item, both))
        // By the URLs that it has now: the list is remembered for a while.
        if ('path' in by && by.domain !== undefined && !fits(by.domain, read.urls)) throw notMeant(row)
        return provided(item, read)
      } catch (error) {
        if (error instanceof ProviderProblem) throw error.code === 'credential_not_found' && 'path' in by && by.domain !== undefined ? notMeant(row) : error
        signal.throwIfAborted()
        if (error instanceof BackendProblem && error.isMissing && 'path' in by && by.domain !== undefined) throw notMeant(row)
        if (error instanceof BackendProblem)
          throw new ProviderProblem(error.isMissing ? 'credential_not_found' : 'provider_unavailable', `${KIND} "${row.name}": ${error.message}`)
        log.error({ err: error, provider: providerId }, 'a credential provider failed')
        throw new ProviderProblem('provider_unavailable', `the ${KIND} "${row.name}" failed`)
      }
    },
  }
}

/** Forms ask for a user name or an email address; stores mostly have one field for both. */
function provided({ title }: Item, { values, totp, urls }: ItemValues): ProvidedCredential {
  const isEmail = /^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(values.username ?? '')
  return { values: { ...(isEmail && { email: values.username! }), ...values }, totp, urls, title }
}
