// Every route of the control plane: one `mount` line for each group.
import type { Config } from '../base/config.ts'
import type { AuditSettings } from '../http/audit.ts'
import { mountForward } from '../http/forward.ts'
import { mount, type MountContext } from '../http/mount.ts'
import { mountUpgrades } from '../http/upgrade.ts'
import type { Db } from '../store/db.ts'
import { contracts, openapiText } from './api.ts'
import { apps } from './apps/apps/contract.ts'
import { appHandlers } from './apps/apps/handlers.ts'
import { serveHostedPage } from './logins/auth-connections/hosted-page.ts'
import { authConnections } from './logins/auth-connections/contract.ts'
import { authConnectionHandlers } from './logins/auth-connections/handlers.ts'
import { countConnections } from './logins/auth-connections/rows.ts'
import type { ManagedAuth } from './logins/auth-connections/open.ts'
import { browserPools as browserPoolsContract } from './sessions/browser-pools/contract.ts'
import { browserPoolHandlers } from './sessions/browser-pools/handlers.ts'
import type { BrowserPools } from './sessions/browser-pools/pools.ts'
import type { Browsers } from './sessions/browsers/browsers.ts'
import { cdpHttpEverywhere, cdpHttpHandlers } from './sessions/browsers/cdp-http.ts'
import { browsers as browsersContract } from './sessions/browsers/contract.ts'
import type { Fleet } from './sessions/browsers/fleet.ts'
import { browserHandlers } from './sessions/browsers/handlers.ts'
import { atSession, innerPath, instanceApis, reacher, SESSION_PATH } from './sessions/browsers/instance-apis.ts'
import { countByState, countSeats } from './sessions/browsers/rows.ts'
import type { SessionSockets } from './sessions/browsers/sockets.ts'
import { credentials as credentialsContract } from './logins/credentials/contract.ts'
import type { Credentials } from './logins/credentials/credentials.ts'
import { credentialHandlers } from './logins/credentials/handlers.ts'
import { serveDashboard } from './service/dashboard/dashboard.ts'
import { deployments as deploymentsContract } from './apps/deployments/contract.ts'
import type { Deployments } from './apps/deployments/deployments.ts'
import { deploymentHandlers } from './apps/deployments/handlers.ts'
import { chromeStore } from './sessions/extensions/chrome-store.ts'
import { extensions as extensionsContract } from './sessions/extensions/contract.ts'
import type { Extensions } from './sessions/extensions/extensions.ts'
import { extensionHandlers } from './sessions/extensions/handlers.ts'
import { invocations as invocationsContract } from './apps/invocations/contract.ts'
import { invocationHandlers } from './apps/invocations/handlers.ts'
import type { Invocations } from './apps/invocations/invocations.ts'
import type { LiveViews } from './sessions/live/routes.ts'
import { mountMcp } from './service/mcp/mount.ts'
import { mountOAuth, type OAuthParts } from './access/oauth/mount.ts'
import { assertOrganization, mountOrganization, type OrganizationSettings } from './access/mount.ts'
import { profiles as profilesContract } from './sessions/profiles/contract.ts'
import { profileHandlers } from './sessions/profiles/handlers.ts'
import type { Profiles } from './sessions/profiles/profiles.ts'
import { credentialProviders } from './logins/credential-providers/contract.ts'
import { credentialProviderHandlers } from './logins/credential-providers/handlers.ts'
import type { CredentialProviders } from './logins/credential-providers/providers.ts'
import { proxies as proxiesContract } from './sessions/proxies/contract.ts'
import { proxyHandlers } from './sessions/proxies/handlers.ts'
import type { Proxies } from './sessions/proxies/proxies.ts'
import { replays as replaysContract } from './sessions/replays/contract.ts'
import type { ReplayEvents } from './sessions/replays/events.ts'
import { replayHandlers } from './sessions/replays/handlers.ts'
import { servePlayer } from './sessions/replays/player.ts'
import type { Replays } from './sessions/replays/replays.ts'
import { signIn } from './access/sign-in/contract.ts'
import { signInHandlers, type SignInSettings } from './access/sign-in/handlers.ts'
import { system } from './service/system/contract.ts'
import type { Disk } from './service/system/disk.ts'
import { serveDocs } from './service/system/docs.ts'
import { search } from './service/system/docs-search.ts'
import { systemHandlers } from './service/system/handlers.ts'
import type { Metrics } from './service/system/metrics.ts'
import { missingFrom, refuseMissing } from './service/system/missing.ts'
import { telemetryDestinations } from './sessions/telemetry/destinations/contract.ts'
import type { Destinations } from './sessions/telemetry/destinations/destinations.ts'
import { destinationHandlers } from './sessions/telemetry/destinations/handlers.ts'
import { telemetryArchive } from './sessions/telemetry/contract.ts'
import { telemetryHandlers } from './sessions/telemetry/handlers.ts'
import type { Telemetry } from './sessions/telemetry/telemetry.ts'

/** What the routes work on. */
interface Parts {
  db: Db
  scope: string
  config: Config
  browsers: Browsers
  browserPools: BrowserPools
  replays: Replays
  replayEvents: ReplayEvents
  telemetry: Telemetry
  profiles: Profiles
  proxies: Proxies
  credentials: Credentials
  destinations: Destinations
  managedAuth: Pick<ManagedAuth, 'connections' | 'handOff'>
  credentialProviders: CredentialProviders
  deployments: Deployments
  invocations: Invocations
  extensions: Extensions
  live: LiveViews
  sockets: SessionSockets
  fleet: Fleet
  disk: Disk
  metrics: Metrics
  audit: AuditSettings
  signInSettings: SignInSettings
  oauth: OAuthParts
  organization: Pick<OrganizationSettings, 'rights' | 'caps' | 'holdings' | 'trail' | 'exportTarget'>
}

export function mountRoutes(context: MountContext, parts: Parts): void {
  const { db, scope, config, browsers, replays, profiles, proxies, deployments, invocations, extensions, live, sockets, fleet, disk, metrics, audit } = parts
  const { app } = context
  context.refuse = refuseMissing(missingFrom(contracts), SESSION_PATH)
  mount(context, browsersContract, browserHandlers(browsers))
  for (const contract of cdpHttpEverywhere) mount(context, contract, cdpHttpHandlers(browsers))
  mountForward(context, instanceApis, reacher(browsers), innerPath)
  mountForward(context, atSession(instanceApis), reacher(browsers), innerPath)
  for (const replaysBelow of [replaysContract, atSession(replaysContract)]) mount(context, replaysBelow, replayHandlers(replays))
  mount(context, telemetryArchive, telemetryHandlers(parts.telemetry))
  mount(context, browserPoolsContract, browserPoolHandlers(parts.browserPools))
  mount(context, profilesContract, profileHandlers(profiles))
  mount(context, proxiesContract, proxyHandlers(proxies))
  mount(context, credentialsContract, credentialHandlers(parts.credentials))
  mount(context, telemetryDestinations, destinationHandlers(parts.destinations))
  mount(context, authConnections, authConnectionHandlers(parts.managedAuth.connections, parts.managedAuth.handOff))
  mount(context, credentialProviders, credentialProviderHandlers(parts.credentialProviders))
  mount(context, deploymentsContract, deploymentHandlers(deployments))
  mount(context, apps, appHandlers(db))
  mount(context, invocationsContract, invocationHandlers(invocations, browsers))
  mount(context, extensionsContract, extensionHandlers(extensions, chromeStore(config.chromeStoreUrl)))
  mount(context, signIn, signInHandlers(parts.signInSettings))
  mountOAuth(context, parts.oauth)
  mountOrganization(context, {
    ...parts.organization,
    db,
    config,
    sessions: () => countSeats(db, { scope }),
    authConnections: () => countConnections(db, { scope }),
  })
  const upgrades = mountUpgrades(app.server, context.log, { ...sockets.handlers, ...live.handlers }, { known: context.known, audit })
  mount(
    context,
    system,
    systemHandlers({
      db,
      countBrowsers: () => countByState(db, fleet.replica),
      metrics,
      assertOrganization,
      shelf: () => fleet.shelf,
      disk,
      openSockets: upgrades.open,
      browsersWork: () => fleet.isWell,
      openapiText: openapiText(),
    }),
  )
  mountMcp(context, { searchDocs: search, hidden: config.mcpDisabledToolsets, publicUrl: config.publicUrl })
  serveDashboard(context)
  serveDocs(context)
  servePlayer(app, replays, parts.replayEvents, context.log)
  live.mount(app, context.known)
  serveHostedPage(app)
}
