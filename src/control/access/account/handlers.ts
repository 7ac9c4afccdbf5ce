// Handlers of the account contract.
import type { Config } from '../../../base/config.ts'
import { isAccount, known, type Handlers } from '../../../http/route.ts'
import { CHECK_SECONDS } from '../../logins/auth-connections/contract.ts'
import { namedProjects } from '../projects/resolve.ts'
import { ORGANIZATION, type account } from './contract.ts'

/** What the settings limit. */
export type Limits = Pick<Config, 'maxBrowsers' | 'maxInvocations' | 'replayRetentionDays'>

/** No plan withholds anything. What this version has not built answers so by itself. */
const INCLUDED = { enabled: true }

/** The bounds of the interface, in seconds. */
const HEALTH_CHECKS = {
  health_check_interval_default_seconds: CHECK_SECONDS.usual,
  health_check_interval_max_seconds: CHECK_SECONDS.most,
  health_check_interval_min_seconds: CHECK_SECONDS.least,
}

export const accountHandlers = ({ maxBrowsers, maxInvocations, replayRetentionDays }: Limits): Handlers<typeof account> => ({
  getAuthContext({ principal, headers }) {
    const { by, project } = known(principal)
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
  },
  getEntitlements: () => ({
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
  }),
})
