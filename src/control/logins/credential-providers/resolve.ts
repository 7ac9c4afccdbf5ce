// Finds the credential for a login in the store of a provider: at a path, or for a domain.
import type { Log } from '../../../base/log.ts'
import { BackendProblem, type Item, type ItemValues } from './backends/backend.ts'
import { bestMatch, fits } from './match.ts'
import type { ProviderRow } from './rows.ts'
import type { Stores } from './stores.ts'

const KIND = 'credential provider'

/** The values for the login engine, which must not store them. */
export interface ProvidedCredential {
  values: Record<string, string>
  /** A base32 secret, or an otpauth:// URI. */
  totp: string | undefined
  urls: string[]
  title: string
}

/** The item at a path, with `domain` only if it fits that; or the best one for a domain. */
export type Wanted = { path: string; domain?: string | undefined } | { domain: string }

/** The reason why there is no credential. Its message is for callers, and contains no values. */
export class ProviderProblem extends Error {
  override name = 'ProviderProblem'
  readonly code: 'provider_unavailable' | 'credential_not_found'
  constructor(code: ProviderProblem['code'], message: string) {
    super(message)
    this.code = code
  }
}

export const pathOf = ({ vault, title }: Item): string => `${vault.name}/${title}`

/** Reads the present credential. @throws ProviderProblem; the signal's reason */
export async function resolve(stores: Stores, row: ProviderRow, wanted: Wanted, log: Log, signal: AbortSignal): Promise<ProvidedCredential> {
  if (!row.enabled) throw new ProviderProblem('provider_unavailable', `the ${KIND} "${row.name}" is disabled`)
  const meantFor = 'path' in wanted ? wanted.domain : undefined
  try {
    const item = 'path' in wanted ? await atPath(stores, row, wanted.path, signal) : await forDomain(stores, row, wanted.domain, signal)
    const read = await stores.ask(row, signal, (backend, both) => backend.resolve(item, both))
    // Check the URLs that were just read: the list is cached for a while.
    if (meantFor !== undefined && !fits(meantFor, read.urls)) throw notMeant(row)
    return provided(item, read)
  } catch (error) {
    if (!(error instanceof ProviderProblem)) signal.throwIfAborted()
    const problem = problemOf(error, row, log)
    throw meantFor !== undefined && problem.code === 'credential_not_found' ? notMeant(row) : problem
  }
}

/** The same error as for a missing item: a caller who may not list items learns nothing of them. */
const notMeant = (row: ProviderRow) => new ProviderProblem('credential_not_found', `the ${KIND} "${row.name}" has no item at this path for this domain`)

function problemOf(error: unknown, row: ProviderRow, log: Log): ProviderProblem {
  if (error instanceof ProviderProblem) return error
  if (error instanceof BackendProblem)
    return new ProviderProblem(error.isMissing ? 'credential_not_found' : 'provider_unavailable', `${KIND} "${row.name}": ${error.message}`)
  log.error({ err: error, provider: row.id }, 'a credential provider failed')
  return new ProviderProblem('provider_unavailable', `the ${KIND} "${row.name}" failed`)
}

/** @throws ProviderProblem when none or several items have this path */
async function atPath(stores: Stores, row: ProviderRow, path: string, signal: AbortSignal): Promise<Item> {
  const having = (items: Item[]) => items.filter((item) => pathOf(item) === path)
  // An item that was added after the list was cached is found, too.
  const remembered = having(await stores.items(row, signal))
  const found = remembered.length > 0 ? remembered : having(await stores.items(row, signal, true))
  if (found.length > 1)
    throw new ProviderProblem('credential_not_found', `${found.length} items of the ${KIND} "${row.name}" have this path; give them different titles`)
  if (!found[0]) throw new ProviderProblem('credential_not_found', `the ${KIND} "${row.name}" has no item at this path`)
  return found[0]
}

async function forDomain(stores: Stores, row: ProviderRow, domain: string, signal: AbortSignal): Promise<Item> {
  const item = bestMatch(domain, [await stores.items(row, signal)])
  if (!item) throw new ProviderProblem('credential_not_found', `the ${KIND} "${row.name}" has no item for this domain`)
  return item
}

/** Forms ask for a user name or an email address; stores usually have one field for both. */
function provided({ title }: Item, { values, totp, urls }: ItemValues): ProvidedCredential {
  const isEmail = /^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(values.username ?? '')
  return { values: { ...(isEmail && { email: values.username! }), ...values }, totp, urls, title }
}
