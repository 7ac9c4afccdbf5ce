// Wires logins: stored credentials, providers of credentials, connections, and the engine that logs in.
import { sql } from 'kysely'
import type { Config } from '../../base/config.ts'
import { makeSealer } from '../../base/sealed.ts'
import { sleep } from '../../base/wait.ts'
import type { Db } from '../../store/db.ts'
import type { BrowserRow } from '../sessions/browsers/rows.ts'
import { loginBrowsers, type LoginBrowsersSettings } from './auth-connections/browsers.ts'
import type { CredentialLinks } from './auth-connections/connections.ts'
import { makeEngine } from './auth-connections/engine/engine.ts'
import { interpret } from './auth-connections/engine/interpret.ts'
import { interpretByModel, makeModelInterpreter } from './auth-connections/engine/model.ts'
import type { ProxyReads } from './auth-connections/engine/work.ts'
import { openManagedAuth, type ManagedAuth, type ManagedAuthSettings } from './auth-connections/open.ts'
import { hostsOf } from './credential-providers/match.ts'
import { makeCredentialProviders, ProviderProblem, type CredentialProviders } from './credential-providers/providers.ts'
import { makeCredentials, purposeOf, versionOf, type Credentials } from './credentials/credentials.ts'
import { readTotp, totpCode } from './credentials/totp.ts'
import type { LiveLinks } from '../sessions/live/links.ts'
import { assertOrganization } from '../access/mount.ts'
import type { Profiles } from '../sessions/profiles/profiles.ts'
import type { Proxies } from '../sessions/proxies/proxies.ts'
import { proxyOfSession } from '../sessions/proxies/rows.ts'
import type { TelemetryExports } from '../sessions/telemetry/exports.ts'

/** A caller waits so long for the store that has the item of a connection. */
const FITS_MS = 10_000

interface LoginsSettings
  extends Pick<ManagedAuthSettings, 'db' | 'scope' | 'keys' | 'leases' | 'bells' | 'log'>, Pick<LoginBrowsersSettings, 'browsers' | 'startReplay' | 'origin'> {
  config: Config
  profiles: Pick<Profiles, 'idOfNamed' | 'changeSave'>
  proxies: Pick<Proxies, 'idOf'>
  telemetryExports: Pick<TelemetryExports, 'nameDestination'>
  /** Also one that has ended, of any project. */
  findSession: (project: undefined, id: string) => Promise<BrowserRow | undefined>
  links: LiveLinks
}

export interface Logins {
  credentials: Credentials
  credentialProviders: CredentialProviders
  managedAuth: ManagedAuth
  /** Begins to work on flows. Not before the service listens: the browsers of logins are told where that is. */
  start(): void
}

/** Sessions of flows that have ended: the service was killed after the end of the flow, and before that of its browser. */
async function strayBrowsers(db: Db, scope: string): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select b.id from browsers b where b.scope = ${scope} and b.state = 'running' and b.auth_flow_id is not null
      and not exists (select from auth_flows f where f.id = b.auth_flow_id and f.state = 'IN_PROGRESS')`.execute(db)
  return rows.map(({ id }) => id)
}

/** What connections show of what they name. */
function credentialLinks(db: Db, credentials: Credentials, providers: CredentialProviders): CredentialLinks {
  return {
    credentialIdOf: credentials.idOf,
    providerIdOf: providers.idOf,
    async itemFits(id, path, domain, signal) {
      const limit = AbortSignal.timeout(FITS_MS)
      try {
        await providers.resolve(id, { path, domain }, AbortSignal.any([signal, limit]))
        return true
      } catch (error) {
        signal.throwIfAborted()
        if (error instanceof ProviderProblem) return error.code === 'credential_not_found' ? false : undefined
        if (limit.aborted) return undefined
        throw error
      }
    },
    async credentials(ids) {
      const columns = ['id', 'name', 'value_keys', 'totp', 'secrets_version'] as const
      const rows = ids.length === 0 ? [] : await db.selectFrom('credentials').select(columns).where('id', 'in', ids).execute()
      return new Map(rows.map((row) => [row.id, { name: row.name, keys: row.value_keys, hasTotp: row.totp !== null, version: versionOf(row) }]))
    },
    async providers(ids) {
      const rows = ids.length === 0 ? [] : await db.selectFrom('credential_providers').select(['id', 'name']).where('id', 'in', ids).execute()
      return new Map(rows.map(({ id, name }) => [id, { name }]))
    },
  }
}

/** A proxy that callers have named themselves may have certificates of its own, for which the browser takes any site. Those of the operator are trusted. */
async function proxyReads(db: Db, project: string, id: string): Promise<ProxyReads> {
  const row = await proxyOfSession(db, project, id)
  if (!row) return 'all'
  return row.type !== 'custom' ? 'nothing' : row.config.has_ca_bundle ? 'all' : 'plain'
}

/** Opens them. What is opened is closed by `opened`. */
export function openLogins(settings: LoginsSettings, opened: AsyncDisposableStack): Logins {
  const { db, scope, keys, config, profiles, links, log } = settings
  const credentials = makeCredentials({ db, sealerOf: (project) => makeSealer(keys, purposeOf(project)) })
  const credentialProviders = makeCredentialProviders({ db, keys, config, assertOrganization, log })
  const browsers = loginBrowsers({
    ...settings,
    findSession: (id) => settings.findSession(undefined, id),
    saveAtEnd: (session) => profiles.changeSave(session, true),
    livePath: links.path,
  })
  const managedAuth = opened.use(
    openManagedAuth({
      ...settings,
      credentials: credentialLinks(db, credentials, credentialProviders),
      profileNamed: (project, name) => profiles.idOfNamed(project, name, 'profile_name'),
      names: { region: config.region, proxyIdOf: settings.proxies.idOf, nameDestination: settings.telemetryExports.nameDestination },
      liveViewUrl: browsers.liveViewUrl,
    }),
  )
  // Tests over the fake driver have no page to log in at: they play the worker.
  if (config.driver === 'fake') return { credentials, credentialProviders, managedAuth, start() {} }
  const asked = config.loginModel && makeModelInterpreter(config.loginModel, (reason) => log.warn({ reason }, 'the model for logins did not answer'))
  const engine = makeEngine({
    flows: managedAuth.flows,
    browsers,
    credentials,
    providers: {
      async resolve(id, by, signal) {
        const { values, totp, urls } = await credentialProviders.resolve(id, by, signal)
        return { values, totp, hosts: hostsOf(urls) }
      },
    },
    proxyReads: (project, id) => proxyReads(db, project, id),
    totp: { read: (text) => readTotp(text, {}), code: totpCode },
    interpret,
    model: asked && ((page, context, signal) => interpretByModel(asked, page, context, signal)),
    async credentialName({ profile_id: profile, domain }) {
      const row = await db.selectFrom('profiles').select('name').where('id', '=', profile).executeTakeFirst()
      return `${row?.name ?? profile}-${domain}`
    },
    clock: { now: Date.now, sleep },
    most: config.maxLogins + config.maxHealthChecks,
    strayBrowsers: () => strayBrowsers(db, scope),
    log,
  })
  opened.use(engine)
  return { credentials, credentialProviders, managedAuth, start: () => engine.start() }
}
