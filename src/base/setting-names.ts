// The names of all settings, so that a misspelled variable is noticed. docs/settings.md describes each setting.
import { ConfigError } from './setting.ts'

const SETTINGS = new Set([
  'COB_ABANDONED_GRACE_SECONDS',
  'COB_ALLOW_HOST_LOOPBACK',
  'COB_API_KEY',
  'COB_APPS_API_URL',
  'COB_APP_CODE_CACHE_MB',
  'COB_APP_CPU_PERCENT',
  'COB_APP_DISK_MB',
  'COB_APP_LOG_MB',
  'COB_APP_MEMORY_MB',
  'COB_APP_PIDS',
  'COB_AUDIT_EXPORT_ACCESS_KEY_ID',
  'COB_AUDIT_EXPORT_PRINCIPAL_ARN',
  'COB_AUDIT_EXPORT_S3_ENDPOINT',
  'COB_AUDIT_EXPORT_SECONDS',
  'COB_AUDIT_EXPORT_SECRET_ACCESS_KEY',
  'COB_AUDIT_EXPORT_STS_ENDPOINT',
  'COB_AUDIT_LOG_RETENTION_DAYS',
  'COB_CHROME_STORE_URL',
  'COB_CHROMIUM',
  'COB_CLOSED_NETWORKS',
  'COB_CONTAINER_DNS',
  'COB_CREDENTIAL_FILES_DIR',
  'COB_DATA_DIR',
  'COB_DEBUG',
  'COB_DISK_RESERVE_MB',
  'COB_DOCKER_IMAGE',
  'COB_DOCKER_NETWORK',
  'COB_DOCKER_PUBLISH',
  'COB_DOCKER_RUNTIME',
  'COB_DRIVER',
  'COB_GEOIP_FILE',
  'COB_GIT_BASE',
  'COB_GREETING',
  'COB_HEADLESS',
  'COB_HOST',
  'COB_INSTANCE_CPU_PERCENT',
  'COB_INSTANCE_DISK_MB',
  'COB_INSTANCE_MEMORY_MB',
  'COB_INSTANCE_PIDS',
  'COB_KEEP_ENDED_DAYS',
  'COB_KUBERNETES_ALLOW_OPEN_NETWORK',
  'COB_KUBERNETES_CPU_REQUEST_PERCENT',
  'COB_KUBERNETES_HOST_ADDRESS',
  'COB_KUBERNETES_IMAGE',
  'COB_KUBERNETES_MEMORY_REQUEST_MB',
  'COB_KUBERNETES_NAMESPACE',
  'COB_KUBERNETES_NODE_SELECTOR',
  'COB_KUBERNETES_POD_PATCH',
  'COB_KUBERNETES_PULL_SECRET',
  'COB_KUBERNETES_RUNTIME_CLASS',
  'COB_KUBERNETES_SECCOMP',
  'COB_LOGIN_MODEL',
  'COB_LOGIN_MODEL_KEY',
  'COB_LOGIN_MODEL_URL',
  'COB_LOG_LEVEL',
  'COB_MAX_ANONYMOUS_CONNECTIONS',
  'COB_MAX_BROWSERS',
  'COB_MAX_HEALTH_CHECKS',
  'COB_MAX_INVOCATIONS',
  'COB_MAX_LOGINS',
  'COB_MCP_DISABLED_TOOLSETS',
  'COB_OIDC_ALLOW_HTTP',
  'COB_OIDC_CLIENT_ID',
  'COB_OIDC_CLIENT_SECRET',
  'COB_OIDC_DEFAULT_ROLE',
  'COB_OIDC_EMAIL_DOMAINS',
  'COB_OIDC_FIRST_OWNER',
  'COB_OIDC_ISSUER',
  'COB_OIDC_NAME',
  'COB_OIDC_ROLES',
  'COB_OIDC_ROLE_CLAIM',
  'COB_OIDC_SCOPES',
  'COB_OIDC_TRUST_EMAIL',
  'COB_OPEN_NETWORKS',
  'COB_PORT',
  'COB_PREPARED_SANDBOXES',
  'COB_PROFILE_MAX_MB',
  'COB_PROXY_CHECK_URL',
  'COB_PROXY_DATACENTER',
  'COB_PROXY_ISP',
  'COB_PROXY_MOBILE',
  'COB_PROXY_RESIDENTIAL',
  'COB_PUBLIC_URL',
  'COB_RATE_LIMIT_PER_MINUTE',
  'COB_REGION',
  'COB_REPLAY_RETENTION_DAYS',
  'COB_REPLICAS',
  'COB_RUN_LOG_MB',
  'COB_S3_ACCESS_KEY_ID',
  'COB_S3_BUCKET',
  'COB_S3_ENDPOINT',
  'COB_S3_PREFIX',
  'COB_S3_REGION',
  'COB_S3_SECRET_ACCESS_KEY',
  'COB_SCOPE',
  'COB_SEALING_KEYS',
  'COB_SECRET_KEY',
  'COB_SIGN_IN_HOURS',
  'COB_STANDBY_AFTER_SECONDS',
  'COB_STANDBY_CONNECTED_AFTER_SECONDS',
  'COB_TELEMETRY_EXPORT_BEHIND_HOURS',
  'COB_TELEMETRY_EXPORT_BEHIND_MB',
  'COB_TELEMETRY_MAX_MB',
  'COB_TELEMETRY_RETENTION_DAYS',
  'COB_TRUSTED_PROXIES',
  'COB_WARM_BROWSERS',
  'COB_WARM_BROWSERS_MAX',
])

/** Variables of scripts, images, tests and of the processes that the service starts. They may be in its environment, too. */
const OTHERS = new Set([
  'COB_AGENT',
  'COB_CLUSTER_ONLY',
  'COB_DISPLAY',
  'COB_FAKE_HOST_TLS',
  'COB_IMAGE',
  'COB_IMAGE_TAG',
  'COB_KEEP_LOGS',
  'COB_KEYS',
  'COB_RUNNER_PATHS',
  'COB_SAVE_IMAGES',
  'COB_SCRIPT',
  'COB_SETUP_TEST',
  'COB_URL',
  'COB_ZONE',
])
export const isKnown = (name: string) => SETTINGS.has(name) || OTHERS.has(name) || name.startsWith('COB_TEST_')

/** Variables that Kubernetes sets in every pod for a service whose name is `cob` or begins with it. */
const OF_KUBERNETES = /_(SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP))/

/** Names without `COB_` that are longer than this may have two wrong letters; a short name with two is another word, such as HOME for HOST. */
const SHORT = 7

/**
 * The variables whose names begin like settings and that are not settings. Empty ones count as not set. | @throws ConfigError for a likely misspelling of a
 * setting: if it were ignored, a service would open its port or start without a bucket, and nobody would notice
 */
export function unknownSettings(env: NodeJS.ProcessEnv): string[] {
  const unknown = Object.keys(env)
    .filter((name) => /^COB_/i.test(name) && env[name] && !isKnown(name) && !OF_KUBERNETES.test(name))
    .toSorted()
  for (const name of unknown) {
    const meant = name === 'COB_DATABASE_URL' ? 'DATABASE_URL' : meantBy(name.toUpperCase())
    if (meant !== undefined) throw new ConfigError(name, `there is no such setting; did you mean ${meant}?`)
  }
  return unknown
}

function meantBy(name: string): string | undefined {
  const most = name.length - 'COB_'.length > SHORT ? 2 : 1
  const near = [...SETTINGS].map((setting) => ({ setting, slips: slipsBetween(name, setting) })).filter(({ slips }) => slips <= most)
  return near.toSorted((one, other) => one.slips - other.slips)[0]?.setting
}

/** The distance of Damerau and Levenshtein: letters left out, added, changed, or swapped with the next. No letter takes part in two of these. */
function slipsBetween(one: string, other: string): number {
  const rows: number[][] = [Array.from({ length: other.length + 1 }, (_, at) => at)]
  for (let i = 1; i <= one.length; i++) {
    rows[i] = [i]
    for (let j = 1; j <= other.length; j++) {
      const changed = rows[i - 1]![j - 1]! + (one[i - 1] === other[j - 1] ? 0 : 1)
      const isSwapped = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]
      rows[i]![j] = Math.min(changed, rows[i - 1]![j]! + 1, rows[i]![j - 1]! + 1, isSwapped ? rows[i - 2]![j - 2]! + 1 : Infinity)
    }
  }
  return rows[one.length]![other.length]!
}
