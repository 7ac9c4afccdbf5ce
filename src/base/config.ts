// Every setting, read once from the environment. docs/settings.md describes them for users.
import type { BlockList } from 'node:net'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { addressList } from './address-list.ts'
import {
  containerSettings,
  dockerSettings,
  kubernetesSettings,
  type ContainerSettings,
  type DockerSettings,
  type KubernetesSettings,
} from './container-settings.ts'
import { oidcSettings, type OidcSettings } from './oidc-settings.ts'
import { mcpToolsets, type McpToolset } from './mcp-toolsets.ts'
import { parseProxyUrl, type NamedProxy } from './proxy-url.ts'
import { s3Settings, type S3Settings } from './s3-settings.ts'
import { address, ConfigError, flag, integer, needed, oneOf, origin } from './setting.ts'
import { unknownSettings } from './setting-names.ts'
import { isRoot } from './user.ts'

export interface Config {
  /** Address to listen on. Loopback by default. */
  host: string
  /** Port; 0 takes a free one (tests). */
  port: number
  /** Origin that clients use when a proxy stands in front of the service: scheme and host, no path. */
  publicUrl: string | undefined
  dataDir: string
  /** The only folder whose files callers may have read as password stores. */
  credentialFilesDir: string
  /** The user's own Postgres; undefined starts the embedded one. */
  databaseUrl: string | undefined
  /** The bucket for archives and replays; undefined keeps them as files in the data directory. */
  s3: S3Settings | undefined
  /** A key that is always valid, besides those in the database. */
  apiKey: string | undefined
  /** 32 bytes as 64 hex digits; undefined keeps one in `<data>/secret-key`. */
  secretKey: string | undefined
  /** As the one above: the first encrypts what is stored, all decrypt. */
  sealingKeys: string[]
  /** Other services share this one's database and data directory: each is a replica (store/leases.ts). */
  replicas: boolean
  driver: 'local' | 'local-tls' | 'docker' | 'kubernetes' | 'fake'
  /** The name of what the driver manages, for replicas with data directories of their own; undefined: one of the data directory. */
  scope: string | undefined
  /** Of the driver `docker`. */
  docker: DockerSettings
  /** Of the driver `kubernetes`. */
  kubernetes: KubernetesSettings
  /** Of both. */
  containers: ContainerSettings
  /** Warm browsers: booted before a caller asks for one; 0 keeps none. */
  warmBrowsers: number
  /** Most warm browsers, when many callers ask at once; undefined: what fits a part of the memory. */
  warmBrowsersMax: number | undefined
  /** Most sessions at the same time on this machine. */
  maxBrowsers: number
  /** Most connections of one address that have not yet shown a key or a token; four times that for all addresses together. */
  maxAnonymousConnections: number
  /** Most requests that one key may make within a minute, of this replica; 0: no limit. */
  rateLimitPerMinute: number
  /** How long a sign-in of a web browser lasts, in hours. */
  signInHours: number
  /** Undefined: people sign in with keys only. */
  oidc: OidcSettings | undefined
  /** Memory one instance may use, in MiB, where cgroups allow a limit. */
  instanceMemoryMb: number
  /** Processes and threads one instance may have. */
  instancePids: number
  /** What one instance may write on disk, in MiB. */
  instanceDiskMb: number
  /** CPU time one instance may use at most, in percent of one core, where cgroups allow a limit; 0: no limit. */
  instanceCpuPercent: number
  /** Memory that one build or run of an app may use, in MiB, where cgroups allow a limit. */
  appMemoryMb: number
  /** Processes and threads of one build or run. */
  appPids: number
  /** What one build or run may write on disk, in MiB. */
  appDiskMb: number
  /** What copies of apps' code may take on disk, in MiB, besides those in use. */
  appCodeCacheMb: number
  /** CPU time of one build or run, as {@link instanceCpuPercent}. */
  appCpuPercent: number
  /** What one run's log may hold, in MiB. */
  runLogMb: number
  /** What the log of a deployment and all its runs may hold, in MiB. */
  appLogMb: number
  /** Room on the disk of the data directory that is left free for the database and other programs, in MiB. */
  diskReserveMb: number
  /** Most runs of all apps at the same time. Callers over it are told to retry later. */
  maxInvocations: number
  /** Most logins of managed auth at the same time. Each has a browser. */
  maxLogins: number
  /** Most health checks of managed auth at the same time. Each has a browser. */
  maxHealthChecks: number
  /** Sessions and runs without a service end themselves after their timeout plus this time. */
  abandonedGraceSeconds: number
  /** Sessions that nothing uses for so long sleep; 0: none does. */
  standbyAfterSeconds: number
  /** The same while a CDP or BiDi client is connected, which may wait for something to happen in a page. */
  standbyConnectedAfterSeconds: number
  /** Base URL of repositories for a `source` of type github. */
  gitBase: string
  /** The update service of the Chrome Web Store, or of a server that answers like it. */
  chromeStoreUrl: string
  /** Reverse proxies that are believed when they say who their client is. */
  trustedProxies: BlockList
  /** Days that entries of the audit log are kept. */
  auditLogRetentionDays: number
  /** How the audit log may be exported; undefined: not at all. */
  auditExport: AuditExportSettings | undefined
  /** How often what is new in the audit log is exported, in seconds. */
  auditExportSeconds: number
  /** How far a destination of telemetry may be behind before the oldest events are given up: MiB of one session as they are stored, and hours. */
  telemetryBehindMb: number
  telemetryBehindHours: number
  /** Days that replays are kept. */
  replayRetentionDays: number
  /** Days that telemetry is kept. */
  telemetryRetentionDays: number
  /** The most that is kept of the telemetry of one session, compressed, in MiB. */
  telemetryMaxMb: number
  /** The most that one saved profile may have, compressed, in MiB. */
  profileMaxMb: number
  /** Days that sessions, runs and deployments are found after their end. */
  keepEndedDays: number
  /** Lets pages reach this machine's loopback as host.cob.internal. */
  allowHostLoopback: boolean
  /** The operator's own proxies for the types that callers may ask for without naming a server. */
  proxies: Record<ProvidedProxyType, NamedProxy | undefined>
  /** A page that answers with the address of its caller, for checks of proxies. */
  proxyCheckUrl: string | undefined
  /** A MaxMind database, for the time zones of proxies. */
  geoipFile: string | undefined
  /** A model that is asked about login pages which the rules do not understand; undefined: none is. */
  loginModel: LoginModelSettings | undefined
  /** The browser's program inside the instance. */
  chromium: string
  /** The region that sessions report: only a name, for clients that ask. */
  region: (typeof REGIONS)[number]
  /** Families of MCP tools that are not offered. */
  mcpDisabledToolsets: McpToolset[]
  logLevel: string
  /** Variables that begin as settings do, and are none. */
  unknownSettings: string[]
  /** Prints the address, the key and three lines to copy on standard error after the start. */
  greeting: boolean
}

/** The types of proxies for which the operator names a server. */
export const PROVIDED_PROXY_TYPES = ['datacenter', 'isp', 'residential', 'mobile'] as const
export type ProvidedProxyType = (typeof PROVIDED_PROXY_TYPES)[number]

/** The variable that names the server of a type. */
export const proxySetting = (type: ProvidedProxyType): string => `COB_PROXY_${type.toUpperCase()}`

/** A server that answers as OpenAI's does. */
export interface LoginModelSettings {
  /** Its base, before `/chat/completions`. */
  url: string
  key: string | undefined
  model: string
}

/** Who writes exports of the audit log, and where. Callers choose bucket, region and role, never a server. */
export interface AuditExportSettings {
  accessKeyId: string
  secretAccessKey: string
  /** Origin of an S3 server; undefined means Amazon's. */
  s3Endpoint: string | undefined
  /** Origin of an STS server; undefined means Amazon's, and with {@link s3Endpoint} none. */
  stsEndpoint: string | undefined
  /** The user or role that these keys belong to, for the policies of roles; empty: not told. */
  principalArn: string
}

/** The regions that the API knows. */
const REGIONS = ['us-east', 'us-west', 'eu-west', 'ap-southeast'] as const

/** How many times longer a session stays awake whose client is connected and silent, unless it is set: more than the 30 s for which Playwright waits for an event, with the usual 5 s. */
const STANDBY_CONNECTED = 7

/** Reads the settings. @throws ConfigError naming the variable. */
export function readConfig(env: NodeJS.ProcessEnv): Config {
  const dataDir = env.COB_DATA_DIR || defaultDataDir(env)
  const standbyAfterSeconds = integer(env, 'COB_STANDBY_AFTER_SECONDS', 5, 0, 86_400)
  return {
    host: env.COB_HOST || '127.0.0.1',
    port: integer(env, 'COB_PORT', 2627, 0, 65535),
    publicUrl: origin(env, 'COB_PUBLIC_URL'),
    dataDir,
    credentialFilesDir: env.COB_CREDENTIAL_FILES_DIR || join(dataDir, 'credential-files'),
    databaseUrl: env.DATABASE_URL || undefined,
    s3: s3Settings(env),
    apiKey: apiKey(env),
    secretKey: secretKey(env),
    sealingKeys: sealingKeys(env),
    replicas: replicas(env),
    driver: oneOf(env, 'COB_DRIVER', 'local', ['local', 'local-tls', 'docker', 'kubernetes', 'fake']),
    scope: scope(env),
    docker: dockerSettings(env),
    kubernetes: kubernetesSettings(env),
    containers: containerSettings(env),
    warmBrowsers: integer(env, 'COB_WARM_BROWSERS', 1, 0, MOST_WARM),
    warmBrowsersMax: warmBrowsersMax(env),
    maxBrowsers: integer(env, 'COB_MAX_BROWSERS', 50, 1, 10_000),
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
    chromium: env.COB_CHROMIUM || '/usr/lib/chromium/chromium',
    region: oneOf(env, 'COB_REGION', 'us-east', REGIONS),
    mcpDisabledToolsets: mcpToolsets(env, 'COB_MCP_DISABLED_TOOLSETS'),
    logLevel: oneOf(env, 'COB_LOG_LEVEL', 'info', ['trace', 'debug', 'info', 'warn', 'error', 'silent']),
    greeting: flag(env, 'COB_GREETING', '1'),
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

// A key with two dots looks like a JWT to clients that tell keys from tokens that way.
function apiKey(env: NodeJS.ProcessEnv): string | undefined {
  const key = env.COB_API_KEY
  if (!key) return undefined
  if (!/^[A-Za-z0-9_-]{16,200}$/.test(key)) throw new ConfigError('COB_API_KEY', 'must be 16 to 200 letters, digits, "_" or "-"')
  return key
}

function secretKey(env: NodeJS.ProcessEnv): string | undefined {
  const key = env.COB_SECRET_KEY
  if (!key) return undefined
  if (!/^[0-9a-f]{64}$/i.test(key)) throw new ConfigError('COB_SECRET_KEY', 'must be 32 bytes as 64 hex digits (openssl rand -hex 32)')
  return key
}

function sealingKeys(env: NodeJS.ProcessEnv): string[] {
  const keys = (env.COB_SEALING_KEYS ?? '').split(',').flatMap((key) => key.trim() || [])
  if (!keys.every((key) => /^[0-9a-f]{64}$/i.test(key)))
    throw new ConfigError('COB_SEALING_KEYS', 'must be keys of 32 bytes, each as 64 hex digits (openssl rand -hex 32), with commas between them')
  return keys
}

// It becomes part of the names of containers and networks.
function scope(env: NodeJS.ProcessEnv): string | undefined {
  const name = env.COB_SCOPE
  if (!name) return undefined
  if (!/^[a-z][a-z0-9]{0,23}$/.test(name)) throw new ConfigError('COB_SCOPE', 'must be up to 24 lower-case letters and digits, the first a letter')
  return name
}

// A replica finds nothing of the others in an embedded database, which ends with the service that started it.
function replicas(env: NodeJS.ProcessEnv): boolean {
  const wanted = flag(env, 'COB_REPLICAS')
  if (wanted && !env.DATABASE_URL) throw new ConfigError('COB_REPLICAS', 'needs DATABASE_URL: replicas share a Postgres of your own')
  return wanted
}

/** Most warm browsers that can be set. */
const MOST_WARM = 100

// Less than the least would leave one of the two without effect.
function warmBrowsersMax(env: NodeJS.ProcessEnv): number | undefined {
  const least = integer(env, 'COB_WARM_BROWSERS', 1, 0, MOST_WARM)
  const name = 'COB_WARM_BROWSERS_MAX'
  const most = env[name] ? integer(env, name, least, 0, MOST_WARM) : undefined
  if (most !== undefined && most < least) throw new ConfigError(name, `must not be less than COB_WARM_BROWSERS, which is ${least}`)
  if (least === 0 && most !== undefined && most > 0)
    throw new ConfigError(name, 'must be 0 or not set while COB_WARM_BROWSERS is 0, which keeps none; set COB_WARM_BROWSERS to 1 or more')
  return least === 0 ? 0 : most
}

// Not the keys of COB_S3_…: whoever manages destinations names a bucket, and would reach that of the service itself.
function auditExport(env: NodeJS.ProcessEnv): AuditExportSettings | undefined {
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

// A name or key without an address would look as if a model were asked.
function loginModel(env: NodeJS.ProcessEnv): LoginModelSettings | undefined {
  const url = address(env, 'COB_LOGIN_MODEL_URL')
  const other = ['COB_LOGIN_MODEL', 'COB_LOGIN_MODEL_KEY'].find((name) => env[name])
  if (url === undefined && other !== undefined) throw new ConfigError('COB_LOGIN_MODEL_URL', `must be set too, because ${other} is set`)
  if (url === undefined) return undefined
  const key = env.COB_LOGIN_MODEL_KEY ? needed(env, 'COB_LOGIN_MODEL_KEY', '') : undefined
  return { url, key, model: needed(env, 'COB_LOGIN_MODEL', 'COB_LOGIN_MODEL_URL is set') }
}
