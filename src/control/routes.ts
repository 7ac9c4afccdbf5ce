// Every route of the control plane: one `mount` line for each group.
import type { Config } from '../base/config.ts'
import type { AuditSettings } from '../http/audit.ts'
import { mountForward } from '../http/forward.ts'
import { mount, type MountContext } from '../http/mount.ts'
import { mountUpgrades } from '../http/upgrade.ts'
import type { Db } from '../store/db.ts'
import { contracts, openapiText } from './api.ts'
import { apps } from './apps/contract.ts'
import { appHandlers } from './apps/handlers.ts'
import { serveHostedPage } from './auth-connections/hosted-page.ts'
import { authConnections } from './auth-connections/contract.ts'
import { authConnectionHandlers } from './auth-connections/handlers.ts'
import { countConnections } from './auth-connections/rows.ts'
import type { ManagedAuth } from './auth-connections/open.ts'
import { browserPools as browserPoolsContract } from './browser-pools/contract.ts'
import { browserPoolHandlers } from './browser-pools/handlers.ts'
import type { BrowserPools } from './browser-pools/pools.ts'
import type { Browsers } from './browsers/browsers.ts'
import { cdpHttpEverywhere, cdpHttpHandlers } from './browsers/cdp-http.ts'
import { browsers as browsersContract } from './browsers/contract.ts'
import type { Fleet } from './browsers/fleet.ts'
import { browserHandlers } from './browsers/handlers.ts'
import { atSession, innerPath, instanceApis, reacher, SESSION_PATH } from './browsers/instance-apis.ts'
import { countByState, countSeats } from './browsers/rows.ts'
import type { SessionSockets } from './browsers/sockets.ts'
import { credentials as credentialsContract } from './credentials/contract.ts'
import type { Credentials } from './credentials/credentials.ts'
import { credentialHandlers } from './credentials/handlers.ts'
import { serveDashboard } from './dashboard/dashboard.ts'
import { deployments as deploymentsContract } from './deployments/contract.ts'
import type { Deployments } from './deployments/deployments.ts'
import { deploymentHandlers } from './deployments/handlers.ts'
import { chromeStore } from './extensions/chrome-store.ts'
import { extensions as extensionsContract } from './extensions/contract.ts'
import type { Extensions } from './extensions/extensions.ts'
import { extensionHandlers } from './extensions/handlers.ts'
import { invocations as invocationsContract } from './invocations/contract.ts'
import { invocationHandlers } from './invocations/handlers.ts'
import type { Invocations } from './invocations/invocations.ts'
import type { LiveViews } from './live/routes.ts'
import { mountMcp } from './mcp/mount.ts'
import { mountOAuth, type OAuthParts } from './oauth/mount.ts'
import { assertOrganization, mountOrganization, type OrganizationSettings } from './org/mount.ts'
import { profiles as profilesContract } from './profiles/contract.ts'
import { profileHandlers } from './profiles/handlers.ts'
import type { Profiles } from './profiles/profiles.ts'
import { credentialProviders } from './credential-providers/contract.ts'
import { credentialProviderHandlers } from './credential-providers/handlers.ts'
import type { CredentialProviders } from './credential-providers/providers.ts'
import { proxies as proxiesContract } from './proxies/contract.ts'
import { proxyHandlers } from './proxies/handlers.ts'
import type { Proxies } from './proxies/proxies.ts'
import { replays as replaysContract } from './replays/contract.ts'
import type { ReplayEvents } from './replays/events.ts'
import { replayHandlers } from './replays/handlers.ts'
import { servePlayer } from './replays/player.ts'
import type { Replays } from './replays/replays.ts'
import { signIn } from './sign-in/contract.ts'
import { signInHandlers, type SignInSettings } from './sign-in/handlers.ts'
import { system } from './system/contract.ts'
import type { Disk } from './system/disk.ts'
import { serveDocs } from './system/docs.ts'
import { search } from './system/docs-search.ts'
import { systemHandlers } from './system/handlers.ts'
import type { Metrics } from './system/metrics.ts'
import { missingFrom, refuseMissing } from './system/missing.ts'
import { telemetryDestinations } from './telemetry/destinations/contract.ts'
import type { Destinations } from './telemetry/destinations/destinations.ts'
import { destinationHandlers } from './telemetry/destinations/handlers.ts'
import { telemetryArchive } from './telemetry/contract.ts'
import { telemetryHandlers } from './telemetry/handlers.ts'
import type { Telemetry } from './telemetry/telemetry.ts'

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
