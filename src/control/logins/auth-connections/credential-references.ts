// The credential or the provider of a connection: looked up when a caller names it, and described in answers.
import { fault } from '../../../http/fault.ts'
import type { CredentialReference } from './contract.ts'
import type { Referred } from './present.ts'
import { canReauth, itemVersion, type Source } from './reauth.ts'
import type { ConnectionRow } from './rows.ts'

/** The functions of credentials and providers that connections need. */
export interface CredentialLinks {
  /** Undefined when there is none of that name. */
  credentialIdOf(project: string, name: string): Promise<string | undefined>
  providerIdOf(nameOrId: string): Promise<string | undefined>
  /** Whether the provider's item at a path fits a domain; undefined when the provider cannot be asked now. */
  itemFits(providerId: string, path: string, domain: string, signal: AbortSignal): Promise<boolean | undefined>
  /** The descriptions of these credentials without values; deleted ones are missing. */
  credentials(ids: readonly string[]): Promise<Map<string, { name: string; keys: readonly string[]; hasTotp: boolean; version: string }>>
  providers(ids: readonly string[]): Promise<Map<string, { name: string }>>
}

export type CredentialColumns = Pick<ConnectionRow, 'credential_id' | 'provider_id' | 'provider_path'>

export class CredentialReferences {
  readonly #links: CredentialLinks

  constructor(links: CredentialLinks) {
    this.#links = links
  }

  /** The columns for a caller's reference. @throws 400 when there is none of that name */
  async columns(project: string, { name, provider, path }: CredentialReference): Promise<CredentialColumns> {
    if (name !== undefined) {
      const id = await this.#links.credentialIdOf(project, name)
      if (id === undefined) throw fault.field('credential.name', `there is no credential "${name.slice(0, 100)}"`)
      return { credential_id: id, provider_id: null, provider_path: null }
    }
    const id = await this.#links.providerIdOf(provider!)
    if (id === undefined) throw fault.field('credential.provider', `there is no credential provider "${provider!.slice(0, 100)}"`)
    return { credential_id: null, provider_id: id, provider_path: path ?? null }
  }

  /**
   * Items of providers belong to the whole organization. A caller of one project may use an item only at the sites in the item's URLs. If a provider does not
   * answer, it is asked again at the login. @throws 400
   */
  async assertFits(
    { provider_id: provider, provider_path: path }: Omit<CredentialColumns, 'credential_id'>,
    domain: string,
    signal: AbortSignal,
  ): Promise<void> {
    if (provider === null || path === null || (await this.#links.itemFits(provider, path, domain, signal)) !== false) return
    throw fault.field('credential.path', `the provider has no item at this path with a URL of ${domain}, which an API key of one project needs`)
  }

  /** The values that these connections have, described without the values themselves. */
  async of(rows: readonly CredentialColumns[]): Promise<(row: CredentialColumns) => Referred> {
    const ids = (id: (row: CredentialColumns) => string | null) => [...new Set(rows.map(id).filter((one) => one !== null))]
    const [stored, external] = [ids((row) => row.credential_id), ids((row) => row.provider_id)]
    const [credentials, providers] = await Promise.all([
      stored.length > 0 ? this.#links.credentials(stored) : new Map<string, never>(),
      external.length > 0 ? this.#links.providers(external) : new Map<string, never>(),
    ])
    return (row) => {
      const credential = credentials.get(row.credential_id ?? '')
      const provider = providers.get(row.provider_id ?? '')
      const source: Source = credential
        ? { kind: 'stored', ...credential }
        : provider && { kind: 'external', version: itemVersion(row.provider_id!, row.provider_path) }
      return { source, credentialName: credential?.name, providerName: provider?.name }
    }
  }

  /** Whether the service could log in again without a person. */
  async canReauth(row: ConnectionRow): Promise<boolean> {
    return canReauth(row.learned, (await this.of([row]))(row).source, row.checks.refused).can_reauth
  }
}
