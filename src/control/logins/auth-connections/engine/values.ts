// The values of a form for the agent to type: from the credential, a person, or the secret of one-time codes. Nothing is stored here.
import { MAX_HOSTS, type Action, type PageModel } from '../../../../agent/login/contract.ts'
import { itemVersion } from '../reauth.ts'
import { browserOf } from '../wanted-browser.ts'
import type { Fill } from './decision.ts'
import { allowedHosts, isAllowedHost } from './hosts.ts'
import type { Memory } from './memory.ts'
import type { ItemPlaces, SecretResolver, StoredValues, Totp } from './secrets.ts'
import { FlowFailure, type Connection, type Flow, type Tools } from './work.ts'

/** A code that expires sooner may be invalid when the site checks it. */
const LEAST_CODE_MS = 4000
/** Clocks of sites differ a little from ours. */
const AFTER_MS = 300

const BY_OPERATOR = 'an API key of the whole organization has to set the credential of this connection'

/** The present credential of a connection. @throws FlowFailure when it cannot be read */
export async function storedValues(connection: Connection, flow: Flow, tools: Tools, signal: AbortSignal): Promise<StoredValues | undefined> {
  const { project_id: project, credential_id: credential, provider_id: provider, provider_path: path, domain } = connection
  const isOfProject = connection.by_project_key || flow.asked.by_project_key === true
  if (credential !== null) return tools.credentials.open(project, credential)
  if (provider === null) return undefined
  try {
    // The item may have other URLs by now than when the connection was created.
    const by = path === null ? { domain } : { path, domain: isOfProject ? domain : undefined }
    const { values, totp, hosts } = await tools.providers.resolve(provider, by, signal)
    const { proxyId } = browserOf(connection, flow)
    const places = isOfProject ? { hosts, proxyReads: proxyId === undefined ? ('nothing' as const) : await tools.proxyReads(project, proxyId) } : undefined
    const version = itemVersion(provider, path)
    return { version, values, ssoProvider: undefined, totp: totp === undefined ? undefined : readTotp(tools, totp), places }
  } catch (error) {
    signal.throwIfAborted()
    const { code, message } = error as { code?: unknown; message: string }
    if (code === 'provider_unavailable' || code === 'credential_not_found') throw new FlowFailure(code, message)
    throw error
  }
}

/**
 * The hosts that may get the values of a form. The connection's caller chooses its allowed domains and its proxy. So an item that the caller may use only at
 * its own places (`ofItem`) is not typed at those hosts, nor where that proxy could read it. @throws FlowFailure when the form is at such a place
 */
export function hostsForValues(
  fills: readonly Fill[],
  page: PageModel,
  { domain, allowed_domains: allowedDomains }: Pick<Connection, 'domain' | 'allowed_domains'>,
  ofItem: ItemPlaces | undefined,
  sso: string,
): string[] {
  const allowed = allowedHosts({ domain, allowedDomains, sso })
  /** The allowed hosts among those in the page: the agent compares with no others. */
  const inPage = (isMeant: (host: string) => boolean) => [...new Set([page.host, ...page.frames.map(({ host }) => host)])].filter(isMeant)
  if (!ofItem || !fills.some(({ source }) => source === 'stored' || source === 'totp'))
    // A connection with 100 allowed domains has more.
    return allowed.length <= MAX_HOSTS ? allowed : inPage((host) => isAllowedHost(host, allowed))
  const isRead = ofItem.proxyReads === 'all' || (ofItem.proxyReads === 'plain' && !page.url.startsWith('https:'))
  if (isRead) throw new FlowFailure('domain_not_allowed', `the connection's proxy could read the values of the provider's item at this page; ${BY_OPERATOR}`)
  const meant = [...allowedHosts({ domain, allowedDomains: [], sso: '' }), ...ofItem.hosts]
  const isBoth = (host: string) => isAllowedHost(host, allowed) && isAllowedHost(host, meant)
  const refused = [page.host, ...fills.map(({ field }) => field.host)].find((host) => !isBoth(host))
  if (refused !== undefined)
    throw new FlowFailure('domain_not_allowed', `the provider's item has no URL of ${refused || 'a frame without a host'}; ${BY_OPERATOR}`)
  return inPage(isBoth)
}

function readTotp({ totp }: Pick<Tools, 'totp'>, text: string): Totp {
  try {
    return totp.read(text)
  } catch {
    // The original error may contain the secret's address.
    throw new FlowFailure('provider_unavailable', 'the TOTP secret in the item of the provider cannot be read')
  }
}

/**
 * A code from the secret that no earlier attempt of this flow has used and that does not expire at once. Records its period in the memory before it is typed.
 */
export async function freshCode(spec: Totp, memory: Memory, { totp, clock }: Pick<Tools, 'totp' | 'clock'>, signal: AbortSignal): Promise<string> {
  const periodAt = (now: number) => Math.floor(now / (spec.period * 1000))
  for (;;) {
    const now = clock.now()
    const { code, expiresAt } = totp.code(spec, new Date(now))
    const left = expiresAt.getTime() - now
    if (periodAt(now) > memory.totp.period && left >= LEAST_CODE_MS) {
      memory.totp.period = periodAt(now)
      return code
    }
    await clock.sleep(Math.max(1, left) + AFTER_MS, signal)
  }
}

/** The version of the stored values that are sent; that of the password takes precedence, because the site refuses that one. */
export function versionSent(
  fills: readonly Fill[],
  { version }: Pick<SecretResolver, 'version'>,
  { sentVersion }: Pick<Memory, 'sentVersion'>,
): string | undefined {
  if (fills.some(({ source, field }) => source === 'typed' && field.role === 'password')) return undefined
  return fills.some(({ source }) => source === 'stored' || source === 'totp') ? version : sentVersion
}

const IS_YES = /^(true|yes|on|1|checked)$/i

/** The actions that type the values into the fields; or the key of a select without an option for its value. */
export function actionsOf(fills: readonly Fill[], secrets: SecretResolver, code: string | undefined): { actions: Action[] } | { unfit: string } {
  const actions: Action[] = []
  for (const { field, source } of fills) {
    const { key, role, ref, boxes, options } = field
    const value = source === 'totp' ? code : secrets.valueOf(key, role, source)
    if (value === undefined) return { unfit: key }
    if (role === 'checkbox') actions.push({ kind: 'check', ref, checked: IS_YES.test(value) })
    else if (options !== undefined || role === 'select') {
      const wanted = value.trim().toLowerCase()
      const option = (options ?? []).findIndex((label) => label.trim().toLowerCase() === wanted)
      if (option === -1) return { unfit: key }
      actions.push({ kind: 'select', ref, option })
    } else actions.push({ kind: 'fill', ref, value, ...(boxes && boxes.length > 0 && { boxes }) })
  }
  return { actions }
}
