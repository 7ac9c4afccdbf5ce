// Calls of the stores behind providers: one at a time for each, within a time limit, with a token that is stored encrypted. Lists of items are cached.
import type { Config } from '../../../base/config.ts'
import type { Keys } from '../../../base/keys.ts'
import { Mutexes } from '../../../base/mutex.ts'
import { makeSealer, type Sealer } from '../../../base/sealed.ts'
import { fault } from '../../../http/fault.ts'
import { BackendProblem, type Backend, type Item } from './backends/backend.ts'
import { credentialFiles } from './backends/files.ts'
import { makeAsker } from './backends/http.ts'
import { openBackend, type BackendTools } from './backends/open.ts'
import { WrongToken } from './backends/token.ts'
import type { ProviderType } from './contract.ts'
import { makeItemLists } from './item-lists.ts'
import type { ProviderRow } from './rows.ts'

/** Limit on one call of a store, with its waits. */
const BACKEND_MS = 30_000

export interface StoresSettings {
  keys: Keys
  config: Pick<Config, 'credentialFilesDir' | 'allowHostLoopback'>
}

export class Stores {
  readonly #sealer: Sealer
  readonly #tools: BackendTools
  readonly #lists = makeItemLists()
  /** One call at a time for each provider, so that nobody can open a store many times at once. */
  readonly #turns = new Mutexes()

  constructor({ keys, config }: StoresSettings) {
    this.#sealer = makeSealer(keys, 'credential-providers')
    this.#tools = { files: credentialFiles(config.credentialFilesDir), asker: makeAsker(config) }
  }

  /** The stored form of a token. */
  seal(token: string, id: string): Buffer {
    return this.#sealer.seal(token, id)
  }

  /** @throws 400 naming the token when its form does not fit the type, or it names a server that callers may not reach */
  async assertToken(type: ProviderType, token: string, signal: AbortSignal): Promise<void> {
    try {
      await openBackend(type, token, this.#tools).assertAllowed?.(signal)
    } catch (error) {
      throw error instanceof WrongToken || error instanceof BackendProblem ? fault.field('token', error.message) : error
    }
  }

  /** The items of a provider. @throws BackendProblem; the signal's reason */
  items(row: ProviderRow, signal: AbortSignal, isFresh = false): Promise<Item[]> {
    return this.#lists.get(row, isFresh, () => this.ask(row, signal, (backend, both) => backend.listItems(both)))
  }

  /** Removes the items of a deleted provider from the cache. */
  forget(id: string): void {
    this.#lists.forget(id)
  }

  /**
   * One call of a provider's store. Only the name of an unexpected error is passed on, because its text may contain data from the store.
   * @throws BackendProblem; the signal's reason
   */
  async ask<T>(row: ProviderRow, signal: AbortSignal, work: (backend: Backend, signal: AbortSignal) => Promise<T>): Promise<T> {
    const limit = AbortSignal.timeout(BACKEND_MS)
    const both = AbortSignal.any([signal, limit])
    try {
      return await this.#turns.run(row.id, async () => work(openBackend(row.provider_type as ProviderType, this.#tokenOf(row), this.#tools), both), both)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof BackendProblem) throw error
      if (limit.aborted) throw new BackendProblem(`the store did not answer within ${BACKEND_MS / 1000} s`)
      if (error instanceof WrongToken) throw new BackendProblem('the token does not have the form of this type any more; set it again')
      const { name, code } = error as NodeJS.ErrnoException
      throw new Error(`a credential provider of the type ${row.provider_type} failed: ${name}${code === undefined ? '' : ` ${code}`}`)
    }
  }

  #tokenOf(row: ProviderRow): string {
    try {
      return this.#sealer.open(row.token, row.id)
    } catch {
      throw new BackendProblem('the token cannot be read with the secret key of the service; set it again')
    }
  }
}
