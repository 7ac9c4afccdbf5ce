// The rules of the account: facts about a caller's credential, and the features of this service.
import type { IncomingHttpHeaders } from 'node:http'
import type { Config } from '../../../base/config.ts'
import { isAccount, type Principal } from '../../../http/route.ts'
import { CHECK_SECONDS } from '../../logins/auth-connections/contract.ts'
import { namedProjects } from '../projects/resolve.ts'
import { ORGANIZATION, type AuthContext, type Entitlements } from './contract.ts'

/** The settings that limit callers. */
export type Limits = Pick<Config, 'maxBrowsers' | 'maxInvocations' | 'replayRetentionDays'>

/** No plan disables a feature. A feature that this version lacks answers with an error of its own. */
const INCLUDED = { enabled: true }

/** The limits of the published API, in seconds. */
const HEALTH_CHECKS = {
  health_check_interval_default_seconds: CHECK_SECONDS.usual,
  health_check_interval_max_seconds: CHECK_SECONDS.most,
  health_check_interval_min_seconds: CHECK_SECONDS.least,
}

export function contextOf({ by, project }: Principal, headers: IncomingHttpHeaders): AuthContext {
  const own = isAccount(by) ? (by.project ?? null) : project
  const via = isAccount(by) ? by.via : undefined
  return {
    authentication: via
      ? { credential_id: via.kind === 'oauth' ? via.id : null, method: 'jwt', source: via.kind }
      : { credential_id: by.id, method: 'api_key', source: 'api_key' },
    authorization: { credential_scope: { project_id: own }, effective_scope: { project_id: namedProjects(headers).length > 0 ? project : own } },
    organization: { id: ORGANIZATION },
    principal: { id: by.id, type: by.kind === 'user' ? 'user' : 'api_key' },
  }
}

export const entitlements = ({ maxBrowsers, maxInvocations, replayRetentionDays }: Limits): Entitlements => ({
  features: {
    browser_extensions: { ...INCLUDED, max_stored_per_org: null },
    browser_pools: INCLUDED,
    browser_replays: { ...INCLUDED, retention_days: replayRetentionDays },
    credential_providers: INCLUDED,
    credentials: INCLUDED,
    custom_proxies: INCLUDED,
    file_io: INCLUDED,
    gpu: INCLUDED,
    managed_auth: { ...INCLUDED, ...HEALTH_CHECKS, max_connections: null },
    managed_proxies: INCLUDED,
    profiles: INCLUDED,
    proxy_bypass_hosts: INCLUDED,
    search: INCLUDED,
    vaults: INCLUDED,
  },
  limits: {
    default_max_concurrent_invocations_per_app: maxInvocations,
    max_concurrent_browsers: maxBrowsers,
    max_concurrent_invocations: maxInvocations,
    max_vaults: null,
  },
  plan: { id: 'ENTERPRISE', effective_id: 'ENTERPRISE', is_trialing: false, status: 'ACTIVE', trial_ends_at: null },
})
