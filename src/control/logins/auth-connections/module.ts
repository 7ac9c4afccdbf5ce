// Managed auth: connections, the flows that log in for them, and the engine that works on flows.
import { sql } from 'kysely'
import { sleep } from '../../../base/wait.ts'
import { sealedColumn } from '../../../store/sealed-columns.ts'
import type { Db } from '../../../store/db.ts'
import { secretsBelow } from '../../access/audit-logs/module.ts'
import { ownTokens } from '../../access/own-tokens.ts'
import { defineModule, phases, type House } from '../../module.ts'
import { inside } from '../../service/addresses.ts'
import { dashboard } from '../../service/dashboard/module.ts'
import { browsers } from '../../sessions/browsers/module.ts'
import { watched } from '../../sessions/browsers/watched.ts'
import { live, whileActing } from '../../sessions/live/module.ts'
import { profileDeleted, profiles } from '../../sessions/profiles/module.ts'
import { proxies } from '../../sessions/proxies/module.ts'
import { proxyOfSession } from '../../sessions/proxies/rows.ts'
import { replays } from '../../sessions/replays/module.ts'
import { telemetry } from '../../sessions/telemetry/module.ts'
import { hostsOf } from '../credential-providers/match.ts'
import { credentialProviders } from '../credential-providers/module.ts'
import type { CredentialProviders } from '../credential-providers/providers.ts'
import { ProviderProblem } from '../credential-providers/resolve.ts'
import { versionOf, type Credentials } from '../credentials/credentials.ts'
import { credentials } from '../credentials/module.ts'
import { readTotp, totpCode } from '../credentials/totp.ts'
import type { Principal } from '../../../http/route.ts'
import { loginBrowsers } from './browsers.ts'
import { authConnections as contract } from './contract.ts'
import type { CredentialLinks } from './credential-references.ts'
import type { LoginBrowsers } from './engine/browser.ts'
import { makeEngine } from './engine/engine.ts'
import { interpret } from './engine/interpret.ts'
import { interpretByModel, makeModelInterpreter } from './engine/model.ts'
import type { ProxyReads } from './engine/secrets.ts'
import { authConnectionHandlers } from './handlers.ts'
import { HOSTED_PATH, serveHostedPage } from './hosted-page.ts'
import { openManagedAuth, type ManagedAuth } from './open.ts'
import { oldFlows } from './purge.ts'
import { countConnections } from './rows.ts'

/** Timeout of the provider that has the item of a connection. */
const FITS_MS = 10_000

export const authConnections = defineModule({
  name: 'auth-connections',
  contracts: [contract],
  sealed: [
    sealedColumn('auth_connections', 'landing', { purpose: 'auth-flows' }),
    sealedColumn('auth_flows', 'answer', { purpose: 'auth-flows' }),
    sealedColumn('auth_flows', 'landing', { purpose: 'auth-flows' }),
    sealedColumn('auth_flows', 'typed', { purpose: 'auth-flows' }),
  ],
  duties: ['logins'],
  purges: ({ db, scope, config }) => [oldFlows(db, scope, config.keepEndedDays)],
  holdings: [{ called: 'auth connections', isAtWork: false, table: 'auth_connections' }],
  counts: { auth_connections: countConnections },
  open(house) {
    const { db, config, serving, driver } = house
    const { findSession } = house.of(watched)
    const ofProfiles = house.of(profiles)
    const ofBrowsers = loginBrowsers({
      browsers: house.of(browsers).browsers,
      startReplay: house.of(replays).start,
      origin: () => inside(serving.bound().port),
      findSession: (id) => findSession(undefined, id),
      saveAtEnd: (session) => ofProfiles.changeSave(session, true),
      livePath: house.of(live).path,
    })
    const managedAuth = house.use(
      openManagedAuth({
        ...house,
        credentials: credentialLinks(db, house.of(credentials), house.of(credentialProviders)),
        profileNamed: (project, name) => ofProfiles.idOfNamed(project, name, 'profile_name'),
        names: { region: config.region, proxyIdOf: house.of(proxies).idOf, nameDestination: house.of(telemetry).nameDestination },
        liveViewUrl: ofBrowsers.liveViewUrl,
      }),
    )
    const { connections, handOff } = managedAuth
    house.mount(contract, authConnectionHandlers(managedAuth))
    house.serve(({ app }) => serveHostedPage(app, house.of(dashboard)))
    house.fill(secretsBelow, HOSTED_PATH)
    house.fill(whileActing, (flow, signal) => managedAuth.whileActing(flow, signal))
    house.fill(profileDeleted, (id) => connections.profileDeleted(id))
    const byLogin = async (token: string, connection: string): Promise<Principal> => {
      const { flow, project } = await handOff.check(token, connection)
      return { by: { kind: 'login', id: flow }, project }
    }
    house.fill(ownTokens, {
      access: 'login',
      read: ({ bearer, id }) => (bearer !== undefined && handOff.isToken(bearer) ? byLogin(bearer, id) : undefined),
    })
    // Without pages no login is possible. Tests then act as the engine.
    if (driver.loadsPages) openEngine(house, managedAuth, ofBrowsers)
  },
})

/** Opens the engine. It starts to work on flows when the service listens, because it tells the browsers of logins the port. */
function openEngine(house: House, managedAuth: ManagedAuth, ofBrowsers: LoginBrowsers): void {
  const { db, scope, config, log } = house
  const asked = config.loginModel && makeModelInterpreter(config.loginModel, (reason) => log.warn({ reason }, 'the model for logins did not answer'))
  const engine = house.use(
    makeEngine({
      flows: managedAuth.flows,
      browsers: ofBrowsers,
      credentials: house.of(credentials),
      providers: {
        async resolve(id, by, signal) {
          const { values, totp, urls } = await house.of(credentialProviders).resolve(id, by, signal)
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
    }),
  )
  house.fill(phases.start, () => engine.start())
}

/** Sessions whose flow has ended: the service was killed after the end of the flow and before the end of its browser. */
async function strayBrowsers(db: Db, scope: string): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select b.id from browsers b where b.scope = ${scope} and b.state = 'running' and b.auth_flow_id is not null
      and not exists (select from auth_flows f where f.id = b.auth_flow_id and f.state = 'IN_PROGRESS')`.execute(db)
  return rows.map(({ id }) => id)
}

/** The descriptions of credentials and providers for connections. */
function credentialLinks(db: Db, credentials: Credentials, providers: CredentialProviders): CredentialLinks {
  return {
    credentialIdOf: (project, name) => credentials.idOf(project, name),
    providerIdOf: (nameOrId) => providers.idOf(nameOrId),
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

/**
 * The part of a login's traffic that a proxy can read. A caller's own proxy may have certificates to impersonate any site; the operator's proxies are trusted.
 */
async function proxyReads(db: Db, project: string, id: string): Promise<ProxyReads> {
  const row = await proxyOfSession(db, project, id)
  if (!row) return 'all'
  return row.type !== 'custom' ? 'nothing' : row.config.has_ca_bundle ? 'all' : 'plain'
}
