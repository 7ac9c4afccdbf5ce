// Every setting, read once from the environment. docs/settings.md describes them for users.
import type { BlockList } from 'node:net'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { addressList } from './address-list.ts'
import { containerSettings, dockerSettings, kubernetesSettings } from './container-settings.ts'
import { oidcSettings } from './oidc-settings.ts'
import { mcpToolsets } from './mcp-toolsets.ts'
import { parseProxyUrl, type NamedProxy } from './proxy-url.ts'
import { s3Settings } from './s3-settings.ts'
import { address, ConfigError, flag, integer, needed, oneOf, origin } from './setting.ts'
import { unknownSettings } from './setting-names.ts'
import { isRoot } from './user.ts'

/** All settings, as {@link readConfig} reads them. */
export type Config = ReturnType<typeof readConfig>

/** The types of proxies for which the operator names a server. */
export const PROVIDED_PROXY_TYPES = ['datacenter', 'isp', 'residential', 'mobile'] as const
export type ProvidedProxyType = (typeof PROVIDED_PROXY_TYPES)[number]

/** The variable that names the server of a type. */
export const proxySetting = (type: ProvidedProxyType): string => `COB_PROXY_${type.toUpperCase()}`

/** A server with OpenAI's API, which is asked about login pages that the rules do not recognize. */
export type LoginModelSettings = NonNullable<Config['loginModel']>

/** The identity that writes exports of the audit log, and their server. Callers choose bucket, region and role, never a server. */
export type AuditExportSettings = NonNullable<Config['auditExport']>

/** The regions that the API knows. */
const REGIONS = ['us-east', 'us-west', 'eu-west', 'ap-southeast'] as const

/** Default of how many times longer a session stays awake while a silent client is connected. With the usual 5 s this is more than the 30 s for which Playwright waits for an event. */
const STANDBY_CONNECTED = 7

/** Reads the settings. @throws ConfigError naming the variable. */
export function readConfig(env: NodeJS.ProcessEnv) {
  const dataDir = env.COB_DATA_DIR || defaultDataDir(env)
  const standbyAfterSeconds = integer(env, 'COB_STANDBY_AFTER_SECONDS', 5, 0, 86_400)
  return {
    host: env.COB_HOST || '127.0.0.1',
    port: integer(env, 'COB_PORT', 2627, 0, 65535),
    publicUrl: origin(env, 'COB_PUBLIC_URL'),
    dataDir,
    // The only folder whose files callers may have read as password stores.
    credentialFilesDir: env.COB_CREDENTIAL_FILES_DIR || join(dataDir, 'credential-files'),
    databaseUrl: env.DATABASE_URL || undefined,
    s3: s3Settings(env),
    // A key that is always valid, in addition to those in the database.
    apiKey: apiKey(env),
    secretKey: secretKey(env),
    sealingKeys: sealingKeys(env),
    replicas: replicas(env),
    driver: oneOf(env, 'COB_DRIVER', 'local', ['local', 'local-tls', 'docker', 'kubernetes', 'fake']),
    // For replicas with data directories of their own; when undefined, a name is made in the data directory.
    scope: scope(env),
    docker: dockerSettings(env),
    kubernetes: kubernetesSettings(env),
    containers: containerSettings(env),
    // full: every browser has a display. auto: a headless one does without if its session needs nothing that only the full browser has. lean: one that does is
    // refused.
    headless: headless(env),
    warmBrowsers: integer(env, 'COB_WARM_BROWSERS', 1, 0, MOST_WARM),
    // When undefined, derived from the memory.
    warmBrowsersMax: warmBrowsersMax(env),
    // Of each form (instances/local/prepared.ts).
    preparedSandboxes: integer(env, 'COB_PREPARED_SANDBOXES', 4, 0, 20),
    maxBrowsers: integer(env, 'COB_MAX_BROWSERS', 50, 1, 10_000),
    // Per address; four times that for all addresses together.
    maxAnonymousConnections: integer(env, 'COB_MAX_ANONYMOUS_CONNECTIONS', 1024, 1, 100_000),
    rateLimitPerMinute: integer(env, 'COB_RATE_LIMIT_PER_MINUTE', 0, 0, 1_000_000),
    signInHours: integer(env, 'COB_SIGN_IN_HOURS', 168, 1, 8760),
    oidc: oidcSettings(env),
    instanceMemoryMb: integer(env, 'COB_INSTANCE_MEMORY_MB', 4096, 256, 1_048_576),
    instancePids: integer(env, 'COB_INSTANCE_PIDS', 4096, 64, 1_000_000),
    instanceDiskMb: integer(env, 'COB_INSTANCE_DISK_MB', 10_240, 64, 16_777_216),
    instanceCpuPercent: integer(env, 'COB_INSTANCE_CPU_PERCENT', 0, 0, 100_000),
    appMemoryMb: integer(env, 'COB_APP_MEMORY_MB', 2048, 256, 1_048_576),
    appPids: integer(env, 'COB_APP_PIDS', 1024, 64, 1_000_000),
    appDiskMb: integer(env, 'COB_APP_DISK_MB', 4096, 64, 16_777_216),
    appCodeCacheMb: integer(env, 'COB_APP_CODE_CACHE_MB', 10_240, 0, 16_777_216),
    appCpuPercent: integer(env, 'COB_APP_CPU_PERCENT', 0, 0, 100_000),
    runLogMb: integer(env, 'COB_RUN_LOG_MB', 32, 1, 16_384),
    appLogMb: integer(env, 'COB_APP_LOG_MB', 256, 1, 1_048_576),
    diskReserveMb: integer(env, 'COB_DISK_RESERVE_MB', 1024, 0, 16_777_216),
    maxInvocations: integer(env, 'COB_MAX_INVOCATIONS', 20, 1, 10_000),
    maxLogins: integer(env, 'COB_MAX_LOGINS', 20, 1, 10_000),
    maxHealthChecks: integer(env, 'COB_MAX_HEALTH_CHECKS', 2, 1, 1_000),
    // Zero: no session sleeps.
    standbyAfterSeconds,
    standbyConnectedAfterSeconds: integer(
      env,
      'COB_STANDBY_CONNECTED_AFTER_SECONDS',
      Math.min(86_400, Math.max(1, STANDBY_CONNECTED * standbyAfterSeconds)),
      1,
      86_400,
    ),
    abandonedGraceSeconds: integer(env, 'COB_ABANDONED_GRACE_SECONDS', 900, 1, 1_000_000),
    gitBase: origin(env, 'COB_GIT_BASE') ?? 'https://github.com',
    chromeStoreUrl: address(env, 'COB_CHROME_STORE_URL') ?? 'https://clients2.google.com/service/update2/crx',
    trustedProxies: addresses(env, 'COB_TRUSTED_PROXIES'),
    auditLogRetentionDays: integer(env, 'COB_AUDIT_LOG_RETENTION_DAYS', 365, 1, 36_500),
    auditExport: auditExport(env),
    auditExportSeconds: integer(env, 'COB_AUDIT_EXPORT_SECONDS', 60, 1, 3600),
    // How long a destination of telemetry may lag before the oldest events are dropped.
    telemetryBehindMb: integer(env, 'COB_TELEMETRY_EXPORT_BEHIND_MB', 64, 1, 65_536),
    telemetryBehindHours: integer(env, 'COB_TELEMETRY_EXPORT_BEHIND_HOURS', 6, 1, 720),
    replayRetentionDays: integer(env, 'COB_REPLAY_RETENTION_DAYS', 30, 1, 36_500),
    telemetryRetentionDays: integer(env, 'COB_TELEMETRY_RETENTION_DAYS', 30, 1, 36_500),
    telemetryMaxMb: integer(env, 'COB_TELEMETRY_MAX_MB', 256, 1, 1_048_576),
    profileMaxMb: integer(env, 'COB_PROFILE_MAX_MB', 1024, 1, 5120),
    keepEndedDays: integer(env, 'COB_KEEP_ENDED_DAYS', 30, 1, 36_500),
    allowHostLoopback: flag(env, 'COB_ALLOW_HOST_LOOPBACK'),
    proxies: {
      datacenter: proxy(env, 'datacenter'),
      isp: proxy(env, 'isp'),
      residential: proxy(env, 'residential'),
      mobile: proxy(env, 'mobile'),
    },
    proxyCheckUrl: address(env, 'COB_PROXY_CHECK_URL'),
    geoipFile: env.COB_GEOIP_FILE || undefined,
    loginModel: loginModel(env),
    // A path inside the instance.
    chromium: env.COB_CHROMIUM || '/usr/lib/chromium/chromium',
    headlessShell: '/usr/lib/chromium/chromium-headless-shell',
    region: oneOf(env, 'COB_REGION', 'us-east', REGIONS),
    mcpDisabledToolsets: mcpToolsets(env, 'COB_MCP_DISABLED_TOOLSETS'),
    logLevel: oneOf(env, 'COB_LOG_LEVEL', 'info', ['trace', 'debug', 'info', 'warn', 'error', 'silent']),
    greeting: flag(env, 'COB_GREETING', '1'),
    // Variables whose names begin like settings, and that are not settings.
    unknownSettings: unknownSettings(env),
  }
}

// Other users cannot enter root's home, and Postgres and the instances run as such users. System services keep their data in /var/lib.
function defaultDataDir(env: NodeJS.ProcessEnv): string {
  if (env.XDG_DATA_HOME) return join(env.XDG_DATA_HOME, 'cob')
  return isRoot() ? '/var/lib/cob' : join(env.HOME || homedir(), '.local', 'share', 'cob')
}

function addresses(env: NodeJS.ProcessEnv, name: string): BlockList {
  const texts = (env[name] ?? '').split(',').map((text) => text.trim())
  try {
    return addressList(texts.filter((text) => text !== ''))
  } catch (error) {
    throw new ConfigError(name, `must be addresses or subnets with commas between them: ${(error as Error).message}`)
  }
}

// The value holds a password, so no error shows it.
function proxy(env: NodeJS.ProcessEnv, type: ProvidedProxyType): NamedProxy | undefined {
  const name = proxySetting(type)
  const text = env[name]
  try {
    return text ? parseProxyUrl(text) : undefined
  } catch (error) {
    throw new ConfigError(name, (error as Error).message)
  }
}

/** The text of a setting in a format of its own; undefined when it is not set. */
function matching(env: NodeJS.ProcessEnv, name: string, form: RegExp, problem: string): string | undefined {
  const text = env[name]
  if (text && !form.test(text)) throw new ConfigError(name, problem)
  return text || undefined
}

// A key with two dots looks like a JWT to clients that tell keys from tokens that way.
const apiKey = (env: NodeJS.ProcessEnv) => matching(env, 'COB_API_KEY', /^[A-Za-z0-9_-]{16,200}$/, 'must be 16 to 200 letters, digits, "_" or "-"')

const secretKey = (env: NodeJS.ProcessEnv) => matching(env, 'COB_SECRET_KEY', /^[0-9a-f]{64}$/i, 'must be 32 bytes as 64 hex digits (openssl rand -hex 32)')

function sealingKeys(env: NodeJS.ProcessEnv): string[] {
  const keys = (env.COB_SEALING_KEYS ?? '').split(',').flatMap((key) => key.trim() || [])
  if (!keys.every((key) => /^[0-9a-f]{64}$/i.test(key)))
    throw new ConfigError('COB_SEALING_KEYS', 'must be keys of 32 bytes, each as 64 hex digits (openssl rand -hex 32), with commas between them')
  return keys
}

// It becomes part of the names of containers and networks.
const scope = (env: NodeJS.ProcessEnv) =>
  matching(env, 'COB_SCOPE', /^[a-z][a-z0-9]{0,23}$/, 'must be up to 24 lower-case letters and digits, the first a letter')

// Replicas do not share an embedded database, which ends with the service that started it.
function replicas(env: NodeJS.ProcessEnv): boolean {
  const wanted = flag(env, 'COB_REPLICAS')
  if (wanted && !env.DATABASE_URL) throw new ConfigError('COB_REPLICAS', 'needs DATABASE_URL: replicas share a Postgres of your own')
  return wanted
}

/** The highest number of warm browsers that can be set. */
const MOST_WARM = 100

/** The drivers that start lean browsers. */
const LEAN_DRIVERS = ['local', 'local-tls', 'fake']

function headless(env: NodeJS.ProcessEnv): 'full' | 'auto' | 'lean' {
  const mayBeLean = LEAN_DRIVERS.includes(env.COB_DRIVER || 'local')
  const value = oneOf(env, 'COB_HEADLESS', mayBeLean ? 'auto' : 'full', ['full', 'auto', 'lean'])
  if (value !== 'full' && !mayBeLean) throw new ConfigError('COB_HEADLESS', 'must be full with this driver; lean browsers in containers are not built yet')
  return value
}

// With less than the minimum, one of the two would have no effect.
function warmBrowsersMax(env: NodeJS.ProcessEnv): number | undefined {
  const least = integer(env, 'COB_WARM_BROWSERS', 1, 0, MOST_WARM)
  const name = 'COB_WARM_BROWSERS_MAX'
  const most = env[name] ? integer(env, name, least, 0, MOST_WARM) : undefined
  if (most !== undefined && most < least) throw new ConfigError(name, `must not be less than COB_WARM_BROWSERS, which is ${least}`)
  if (least === 0 && most !== undefined && most > 0)
    throw new ConfigError(name, 'must be 0 or not set while COB_WARM_BROWSERS is 0, which keeps none; set COB_WARM_BROWSERS to 1 or more')
  return least === 0 ? 0 : most
}

// Not the keys of COB_S3_…: a person who manages destinations names a bucket, and could reach the bucket of the service itself.
function auditExport(env: NodeJS.ProcessEnv) {
  const names = ['ACCESS_KEY_ID', 'SECRET_ACCESS_KEY', 'S3_ENDPOINT', 'STS_ENDPOINT', 'PRINCIPAL_ARN'].map((name) => `COB_AUDIT_EXPORT_${name}`)
  const first = names.find((name) => env[name])
  if (first === undefined) return undefined
  const why = `${first} is set`
  const principalArn = env.COB_AUDIT_EXPORT_PRINCIPAL_ARN || ''
  if (principalArn && !/^arn:[\x21-\x7e]{1,2000}$/.test(principalArn)) throw new ConfigError('COB_AUDIT_EXPORT_PRINCIPAL_ARN', 'must begin with "arn:"')
  return {
    accessKeyId: needed(env, 'COB_AUDIT_EXPORT_ACCESS_KEY_ID', why),
    secretAccessKey: needed(env, 'COB_AUDIT_EXPORT_SECRET_ACCESS_KEY', why),
    s3Endpoint: origin(env, 'COB_AUDIT_EXPORT_S3_ENDPOINT'),
    stsEndpoint: origin(env, 'COB_AUDIT_EXPORT_STS_ENDPOINT'),
    principalArn,
  }
}

// A name or key without an address would suggest that a model is asked.
function loginModel(env: NodeJS.ProcessEnv) {
  const url = address(env, 'COB_LOGIN_MODEL_URL')
  const other = ['COB_LOGIN_MODEL', 'COB_LOGIN_MODEL_KEY'].find((name) => env[name])
  if (url === undefined && other !== undefined) throw new ConfigError('COB_LOGIN_MODEL_URL', `must be set too, because ${other} is set`)
  if (url === undefined) return undefined
  const key = env.COB_LOGIN_MODEL_KEY ? needed(env, 'COB_LOGIN_MODEL_KEY', '') : undefined
  return { url, key, model: needed(env, 'COB_LOGIN_MODEL', 'COB_LOGIN_MODEL_URL is set') }
}
