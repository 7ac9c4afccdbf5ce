// The configuration of a pool: how an update changes it, and the options of the pool's browsers.
import { isDeepStrictEqual } from 'node:util'
import { fault } from '../../../http/fault.ts'
import type { CreateBrowser } from '../browsers/contract.ts'
import { saysSomething, type GivenTelemetry } from '../telemetry/contract.ts'
import { poolProblems, type CreatePool, type UpdatePool } from './contract.ts'
import type { PoolRow, StoredConfig } from './rows.ts'

/** A configuration with all fields about browsers. */
export type WholeConfig = Omit<CreatePool, 'name' | 'size'>

/** The policies have a column of their own. */
export function split({ chrome_policy: policy, ...config }: WholeConfig): { config: StoredConfig; chrome_policy: Record<string, unknown> | undefined } {
  // Options that are not implemented are undefined after parsing.
  return { config: config as StoredConfig, chrome_policy: policy }
}

export const whole = ({ config, chrome_policy: policy }: Pick<PoolRow, 'config' | 'chrome_policy'>): WholeConfig =>
  ({ ...config, ...(policy && { chrome_policy: policy }) }) as WholeConfig

/** Whether the value itself is empty. A policy that switches something off is not empty. */
const isEmpty = (value: unknown): boolean => value === undefined || value === '' || (typeof value === 'object' && Object.keys(value ?? {}).length === 0)

/** The caller's configuration as it is stored: without empty fields, and with the fields that follow from a profile. */
export function normal(given: WholeConfig): WholeConfig {
  const { profile, refresh_on_profile_update: refresh, ...rest } = given
  const hasProfile = profile?.id !== undefined || profile?.name !== undefined
  const said = Object.entries(rest).filter(([, value]) => !isEmpty(value))
  return { ...(Object.fromEntries(said) as typeof rest), ...(hasProfile && { profile, refresh_on_profile_update: refresh ?? true }) }
}

/** A configuration after an update. @throws 400; 409 when the network is not the one that the caller has seen */
export function updated(before: WholeConfig, changes: UpdatePool): WholeConfig {
  const { name: _name, size: _size, discard_all_idle: _discard, expected_network: expected, ...given } = changes
  if (expected !== undefined && !isDeepStrictEqual(plain(expected), plain(before.network)))
    throw fault.staleNetwork('the network of the pool is not the expected one; read the pool again')
  const { proxy, proxy_id, refresh_on_profile_update: refresh, ...rest } = before
  // A new proxy setting replaces the old one. With another profile, refreshing is on again unless the update says otherwise.
  const wayOut = given.proxy === undefined && given.proxy_id === undefined ? { proxy, proxy_id } : {}
  const said = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
  if (given.telemetry !== undefined) said.telemetry = laidOver(before.telemetry, given.telemetry)
  const after = { ...rest, ...wayOut, ...(given.profile === undefined && { refresh_on_profile_update: refresh }), ...said } as WholeConfig
  const problems = poolProblems(after)
  if (problems.length > 0) throw fault.invalid(problems)
  return normal(after)
}

/** As in an update of a session: an empty value changes nothing, `enabled` starts from the defaults, and named fields are merged into the present ones. */
function laidOver(before: GivenTelemetry | undefined, given: GivenTelemetry): GivenTelemetry | undefined {
  if (!saysSomething(given)) return before
  if (given.enabled !== undefined || before === undefined || before.enabled === false) return given
  const otlp = given.export?.otlp ?? before.export?.otlp
  return {
    ...before,
    ...(given.browser && { browser: { ...before.browser, ...given.browser } }),
    ...(otlp && { export: { otlp } }),
    ...(given.storage && { storage: given.storage }),
  }
}

const plain = (network: object | undefined): unknown => JSON.parse(JSON.stringify(network ?? {}))

/** The options with which its browsers are created. Their profile is loaded separately. */
export const ofBrowser = ({ profile: _profile, fill_rate_per_minute: _rate, refresh_on_profile_update: _refresh, ...options }: WholeConfig): CreateBrowser =>
  options as CreateBrowser

/** Whether two configurations give the same browsers. */
export const hasSameBrowsers = (one: WholeConfig, other: WholeConfig): boolean =>
  isDeepStrictEqual([ofBrowser(one), one.profile], [ofBrowser(other), other.profile])
