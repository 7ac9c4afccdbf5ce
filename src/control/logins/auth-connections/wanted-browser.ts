// Browser options of a connection: the fields of both generations of the API, and their stored form with ids in place of names.
import { fault } from '../../../http/fault.ts'
import { isAccount, type Principal } from '../../../http/route.ts'
import { telemetryProblem, type GivenTelemetry } from '../../sessions/telemetry/contract.ts'
import type { BeginLogin } from './contract.ts'
import type { Asked, FlowRow } from './flow-rows.ts'
import type { ConnectionRow, StoredBrowser } from './rows.ts'

/** The options that a caller may give. */
export type GivenBrowser = Pick<BeginLogin, 'browser' | 'browser_telemetry' | 'proxy' | 'proxy_id'>

/** The same with ids in place of names. Absent fields were not given. */
export interface Resolved {
  /** null: none. */
  proxy_id?: string | null
  browser: Partial<Omit<StoredBrowser, 'proxy_mode'>> & { proxy_mode?: StoredBrowser['proxy_mode'] | null }
}

export interface BrowserNames {
  /** The region of this service. */
  region: string
  /** @throws 400 naming `field` */
  proxyIdOf: (project: string, by: { id: string } | { name: string }, field: string) => Promise<string>
  /** Replaces the name of a telemetry destination by its id. @throws 400 */
  nameDestination: <T extends { telemetry?: GivenTelemetry | undefined }>(given: T) => Promise<T>
}

/** Whether a caller acts for one project only. Such a caller has fewer rights on items of providers, which belong to the organization. */
export const isOfProject = ({ by }: Principal): boolean => !isAccount(by) || by.project !== undefined

/** @throws 400 */
export async function resolveBrowser(names: BrowserNames, project: string, given: GivenBrowser): Promise<Resolved> {
  const { browser = {} } = given
  if (browser.region !== undefined && browser.region !== names.region)
    throw fault.field('browser.region', `this service is in ${names.region} (COB_REGION); leave region out`)
  const proxy = await proxyOf(names, project, given)
  const said = browser.telemetry !== undefined ? browser.telemetry : given.browser_telemetry
  const telemetry = said ? (await names.nameDestination({ telemetry: said })).telemetry : said
  const problem = telemetry ? telemetryProblem(telemetry, undefined, true) : undefined
  if (problem) throw fault.field(`browser.${problem.field}`, problem.problem)
  return {
    ...(proxy && { proxy_id: proxy.id }),
    browser: {
      ...(proxy && { proxy_mode: proxy.mode ?? null }),
      ...(browser.region !== undefined && { region: browser.region }),
      ...(browser.stealth !== undefined && { stealth: browser.stealth }),
      ...(telemetry !== undefined && { telemetry: telemetry ?? {} }),
    },
  }
}

/** The nested field takes precedence. Undefined when the caller has named none. */
async function proxyOf(
  { proxyIdOf }: BrowserNames,
  project: string,
  { browser, proxy, proxy_id }: GivenBrowser,
): Promise<{ id: string | null; mode?: StoredBrowser['proxy_mode'] } | undefined> {
  const [given, at] = browser?.proxy ? [browser.proxy, 'browser.proxy'] : [proxy, 'proxy']
  if (browser?.proxy?.mode !== undefined) return { id: null, mode: browser.proxy.mode }
  if (given) {
    const by = given.id !== undefined ? { id: given.id } : { name: given.name! }
    return { id: await proxyIdOf(project, by, `${at}.${given.id !== undefined ? 'id' : 'name'}`) }
  }
  if (proxy_id === undefined) return undefined
  return { id: proxy_id === '' ? null : await proxyIdOf(project, { id: proxy_id }, 'proxy_id') }
}

/** The stored options of a connection after a change. */
export function storedBrowser(before: StoredBrowser, { browser }: Resolved): StoredBrowser {
  const { proxy_mode: mode, ...said } = browser
  const { proxy_mode: modeBefore, ...rest } = before
  const after = mode === undefined ? modeBefore : (mode ?? undefined)
  return { ...rest, ...said, ...(after !== undefined && { proxy_mode: after }) }
}

/** The settings of one login for its row. */
export const askedOf = ({ proxy_id, browser }: Resolved, record: boolean | undefined, isOfProject: boolean): Asked => {
  const { proxy_mode: _, ...own } = browser
  return {
    ...(record !== undefined && { record_session: record }),
    ...(proxy_id !== undefined && { proxy_id }),
    ...(typeof proxy_id === 'string' && isOfProject && { by_project_key: true }),
    ...(Object.keys(own).length > 0 && { browser: own }),
  }
}

/** The browser options of a flow: its caller's, or else its connection's. */
export function browserOf(connection: Pick<ConnectionRow, 'proxy_id' | 'browser' | 'record_session'>, { asked, type }: Pick<FlowRow, 'asked' | 'type'>) {
  const proxy = asked.proxy_id === undefined ? connection.proxy_id : asked.proxy_id
  const { stealth, telemetry } = { ...connection.browser, ...asked.browser }
  return {
    proxyId: proxy ?? undefined,
    stealth,
    telemetry,
    record: type !== 'health_check' && (asked.record_session ?? connection.record_session),
  }
}
