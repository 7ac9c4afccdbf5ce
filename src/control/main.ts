// Wires the control plane: opens its parts in order into a scope, passes them as arguments, listens.
import type { Config } from '../base/config.ts'
import { newId } from '../base/ids.ts'
import type { Log } from '../base/log.ts'
import { dataPaths } from '../base/paths.ts'
import { makeSealer } from '../base/sealed.ts'
import { secretFile } from '../base/secret-file.ts'
import { makeForwarder } from '../egress/forwarder.ts'
import type { AuditSettings } from '../http/audit.ts'
import { limitConnections } from '../http/connections.ts'
import { RateLimit } from '../http/rate-limit.ts'
import { makeServer } from '../http/server.ts'
import { postgresRuns } from '../store/embedded.ts'
import { listenForEvents } from '../store/events.ts'
import { heldByBackups } from '../store/held-objects.ts'
import { teller } from '../store/leases.ts'
import { makeObjects } from '../store/make-objects.ts'
import { makeSpool } from '../store/spool.ts'
import { apiHosts, boundAddress, inside, portsOf } from './service/addresses.ts'
import { HOSTED_PATH } from './logins/auth-connections/hosted-page.ts'
import { assertRestored } from './service/backup/marker.ts'
import { watchActivity } from './sessions/browsers/activity.ts'
import type { EndReason } from './sessions/browsers/end-step.ts'
import { headlessKind, stealthKind, usualKind } from './sessions/browsers/fleet/kinds.ts'
import { Registry } from './sessions/browsers/fleet/registry.ts'
import { Fleet } from './sessions/browsers/fleet.ts'
import { killInstance, removeInstance } from './sessions/browsers/fleet/instance-steps.ts'
import { OpenCalls } from './sessions/browsers/open-calls.ts'
import { placeOf } from './sessions/browsers/place.ts'
import { countOrphans, keptBrowser, poolCounts } from './sessions/browsers/pooled-rows.ts'
import { isFull } from '../store/db.ts'
import { findBrowser } from './sessions/browsers/rows.ts'
import { makeSessionProxies } from './sessions/browsers/session-proxies.ts'
import { closeForRestart, closeSockets, sessionSockets, type OpenSockets } from './sessions/browsers/sockets.ts'
import { sleepWhenUnused } from './sessions/browsers/standby.ts'
import { storedEndpoints } from '../http/stored-endpoint.ts'
import { sessionTokens } from './sessions/browsers/tokens.ts'
import { makeDeployments } from './apps/deployments/deployments.ts'
import { buildsInProgress, sandboxOf } from './apps/deployments/rows.ts'
import { makeDriver } from './service/engines.ts'
import { makeExtensions } from './sessions/extensions/extensions.ts'
import { makeInvocations } from './apps/invocations/invocations.ts'
import { Runs } from './apps/invocations/runs.ts'
import { LIVE_PATH, liveLinks } from './sessions/live/links.ts'
import { makeLiveViews } from './sessions/live/routes.ts'
import { keyChecker, ownKey, type OwnKey } from './access/keys.ts'
import { assertOrganization, auditTrail, exportAuditLog, makeTarget, storeRows, watchKeys } from './access/mount.ts'
import { projectResolver } from './access/projects/resolve.ts'
import { Rights } from './access/rights.ts'
import { projectCaps, projectHoldings } from './access/in-projects.ts'
import { admission } from './access/principal.ts'
import { openSignIns } from './access/sign-ins.ts'
import { objectOwners } from './service/object-owners.ts'
import { openStore } from './service/open-store.ts'
import { openLogins } from './logins/logins.ts'
import { anonymousLimits, mostWarm } from './sessions/limits.ts'
import { mountRoutes } from './routes.ts'
import { checkPort, listenProblem } from './service/port.ts'
import { purges } from './service/purges.ts'
import { buildsOf, closingText, dismissOwn, END_BUILD, hearReplicas, takeLeases, watcherTeller } from './service/replicas.ts'
import { makeProfiles } from './sessions/profiles/profiles.ts'
import { Saves } from './sessions/profiles/saves.ts'
import { makeProxies } from './sessions/proxies/proxies.ts'
import { proxyNaming, timeZoneOfSession, waysOfSession } from './sessions/proxies/references.ts'
import { openTimeZones } from './sessions/proxies/time-zones.ts'
import { replayEvents } from './sessions/replays/events.ts'
import { replaySigner } from './sessions/replays/links.ts'
import { makeReplays } from './sessions/replays/replays.ts'
import { endRecordings, Transfers } from './sessions/replays/transfers.ts'
import { serviceKeys } from './service/service-keys.ts'
import { makeSessions } from './sessions/sessions.ts'
import { makeDisk } from './service/system/disk.ts'
import { makeMetrics } from './service/system/metrics.ts'
import { careForObjects } from './service/system/objects.ts'
import { keepPurging } from './service/system/purge.ts'
import { makeTelemetryExports } from './sessions/telemetry/exports.ts'
import { openTelemetry } from './sessions/telemetry/open.ts'

export interface ControlPlane extends AsyncDisposable {
  /** Where it listens. */
  url: string
  key: OwnKey
  /** Aborts when another process has taken the scope. Dispose it then: what runs is left to the other one. */
  lost: AbortSignal
}

/** Starts the service. Disposing ends it with its sessions and its Postgres. `drive` makes the driver instead of the one that `config` names. */
export async function startControlPlane(config: Config, log: Log, signal: AbortSignal, drive = makeDriver): Promise<ControlPlane> {
  await using opened = new AsyncDisposableStack()
  await checkPort(config)
  assertRestored(config.dataDir)
  const paths = dataPaths(config.dataDir)
  const scope = config.scope ?? secretFile(paths.hostId, newId).value
  const replica = newId()
  const keys = serviceKeys(config, paths)
  const endpoints = storedEndpoints(makeSealer(keys, 'endpoints'))
  const driver = opened.use(await drive(config, paths, scope, log, replica, endpoints))
  const disk = opened.use(makeDisk({ dir: paths.root, reserveMb: config.diskReserveMb, log, relieve: () => driver.relieve() }))
  // A Postgres that runs may be another service's: this one then waits for the lock of the data directory. Room that is made stays until the end of the start, which writes as well.
  using room = config.databaseUrl === undefined && !postgresRuns(paths) ? await disk.makeRoomToStart() : undefined
  if (room) disk.watch()
  const store = await openStore(config, paths, scope, log, signal, opened, disk)
  const { db, address, lost } = store
  disk.watch(() => isFull(db))
  const key = await ownKey(db, scope, config.apiKey, paths.apiKey)
  const { secret: secretKey } = keys.root
  const tokens = sessionTokens(secretKey)
  const links = liveLinks(secretKey)
  signal.throwIfAborted()

  // What the steps of an end work on. The parts that fill these come later, because they need the fleet.
  const registry = new Registry()
  const openSockets: OpenSockets = new Map()
  const leases = await takeLeases(config, store, scope, replica, log, opened)
  const bells = opened.use(listenForEvents(address, log))
  const rights = opened.use(new Rights(db, log, bells))
  const shared = { db, scope, keys, leases, bells, rights, config, log }
  const tellClosing = (id: string, reason: EndReason) => leases.tell('closing', closingText(id, reason))
  const transfers = new Transfers()
  const lookForRecordings = () => leases.catchUp(() => replays.look())
  const calls = new OpenCalls()
  const metrics = makeMetrics()
  const bound = boundAddress(() => app.server)
  const mostReady = mostWarm(config)
  const caps = projectCaps(db)
  const objects = opened.use(heldByBackups(await makeObjects(paths.objects, config.s3), db))
  const saves = new Saves({
    db,
    objects,
    scope,
    leases,
    agentOf: (id) => (registry.runs(id) ? registry.get(id)?.agent : undefined),
    maxBytes: config.profileMaxMb * 1024 * 1024,
    fullDisk: () => disk.room.problem,
    log,
  })
  const findSession = (project: string | undefined, idOrName: string) => findBrowser(db, { scope, project }, idOrName, true)
  const tell = teller(leases, log)
  const tellWatcher = watcherTeller(db, leases)
  const telemetry = opened.use(
    openTelemetry({ db, objects, scope, leases, registry, standby: driver.standby, tellWatcher, disk, config, metrics, findSession, log }),
  )
  const standby = opened.use(
    sleepWhenUnused({ standby: driver.standby, config, sessions: () => registry.reachable, isHere: (id) => leases.isAlive && registry.runs(id), log }),
  )
  metrics.show('cob_browsers_asleep', 'Sessions that sleep', () => standby.asleep)
  const forwarder = opened.use(makeForwarder({ allowHostLoopback: config.allowHostLoopback, logLevel: config.logLevel, log }))
  const proxies = makeProxies({ db, sealer: makeSealer(keys, 'proxies'), provided: config.proxies, reach: config, checkUrl: config.proxyCheckUrl, log })
  const sessionProxies = opened.use(
    makeSessionProxies({
      forwarder,
      uses: standby,
      leases,
      directWays: driver.directWays,
      waysOf: waysOfSession(proxies),
      timeZoneOf: config.geoipFile === undefined ? undefined : timeZoneOfSession(proxies, await openTimeZones(config.geoipFile)),
      find: (id) => keptBrowser(db, scope, id),
      apiHosts: () => apiHosts(config.publicUrl),
      log,
    }),
  )
  const fleet = new Fleet({
    db,
    driver,
    scope,
    leases,
    bells,
    maxSessions: config.maxBrowsers,
    projectSeats: caps.sessions,
    registry,
    endpoints,
    kinds: [stealthKind(mostReady), headlessKind(mostReady), usualKind(config.warmBrowsers, mostReady)],
    mostReady,
    meter: metrics.shelf,
    pools: {
      counts: async () => ({ pools: await poolCounts(db, { scope, replica }), orphans: await countOrphans(db, scope) }),
      plan: (id) => poolSource.plan(id),
      made: (id, error) => poolSource.made(id, error),
    },
    endSteps: [
      standby.wakeStep,
      calls.step,
      closeSockets(openSockets, tellClosing),
      endRecordings(transfers, (id) => registry.get(id) !== undefined, lookForRecordings),
      saves.step,
      telemetry.archive.step,
      sessionProxies.forget,
      killInstance(registry),
      removeInstance(registry),
    ],
    onTaken: ({ id, agent }) => {
      sessionProxies.restore(id, agent)
      telemetry.archive.lookSoon()
    },
    hasRoom: () => disk.room.problem === undefined,
    log,
    apiPorts: () => portsOf(bound(), config.publicUrl),
  })
  await fleet.adopt()
  signal.throwIfAborted()
  const background = new AbortController()
  const activity = watchActivity(db, fleet, log, background.signal)
  opened.defer(async () => {
    background.abort()
    await activity.ended
  })

  const onDeleted = (profile: string) => managedAuth.connections.profileDeleted(profile)
  const profiles = makeProfiles({ db, objects, saves, maxBytes: config.profileMaxMb * 1024 * 1024, onDeleted, log })
  const nameProxy = proxyNaming(proxies)
  const telemetryExports = makeTelemetryExports({ db, scope, objects, keys, config, assertOrganization, log })
  const { browsers, browserPools, poolSource } = makeSessions({
    db,
    scope,
    fleet,
    endpoints,
    tokens,
    links,
    activity,
    calls,
    uses: standby,
    lookUp: async (project, given) => ({
      options: await telemetryExports.nameDestination(await nameProxy(project, given)),
      brought: await extensions.choose(project, given.extensions),
    }),
    profiles,
    sessionProxies,
    dismiss: async (session) => {
      dismissOwn(session, openSockets, calls)
      await leases.tell('closing', closingText(session.id, 'released', session.lease))
    },
    stopRecordings: (session) => replays.stopAll(session),
    telemetry: telemetry.archive,
    place: placeOf(config.region, config.instanceMemoryMb),
    maxBrowsers: config.maxBrowsers,
    log,
  })
  const sockets = sessionSockets(browsers, tokens, openSockets, log)
  const extensions = makeExtensions({ db, objects, scope, log })
  const replays = makeReplays({
    db,
    leases,
    tellWatcher,
    objects,
    spool: makeSpool(paths.spool),
    earlierDir: paths.objects,
    transfers,
    tokens: replaySigner(secretKey),
    scope,
    retentionDays: config.replayRetentionDays,
    fullDisk: () => disk.room.problem,
    log,
    findSession,
    reach: (project, called) => browsers.reach(project, called, { isForLogins: true }),
    endpointOf: (id) => fleet.endpointOf(id),
  })
  await replays.adopt()
  await saves.adopt()
  await telemetry.archive.adopt()
  await fleet.endLost()
  const live = makeLiveViews({
    findSession: (id) => findSession(undefined, id),
    links,
    sockets,
    reach: (session) => browsers.reach(undefined, session, { isForLogins: true }),
    whileActing: (flow, signal) => logins.managedAuth.whileActing(flow, signal),
    log,
  })
  const deployments = makeDeployments({
    ...shared,
    tellBuilder: (toEnd) => tell('look', toEnd === undefined ? buildsOf(scope) : END_BUILD + toEnd),
    objects,
    sealer: makeSealer(keys, 'deployments'),
    sandboxes: driver.apps,
    apiUrl: () => inside(bound().port),
    unreachable: () =>
      ['127.0.0.1', '0.0.0.0', '::'].includes(bound().address)
        ? undefined
        : 'code of apps reaches the API on 127.0.0.1, where this service does not listen: set COB_HOST to 127.0.0.1 or 0.0.0.0',
    gitBase: config.gitBase,
    memoryMb: config.appMemoryMb,
    maxCodeBytes: config.appDiskMb * 1024 * 1024,
    maxLogBytes: config.appLogMb * 1024 * 1024,
    hasRoom: () => disk.room.problem === undefined,
    logLevel: config.logLevel,
    endRuns: (id, reason) => runs.endAll(id, reason),
    onRunning: (id) => runs.prepare(id),
  })
  const listening = Promise.withResolvers<number>()
  const runs = new Runs({
    db,
    bells,
    driver,
    scope,
    leases,
    apiUrl: listening.promise.then(inside),
    maxInvocations: config.maxInvocations,
    projectSeats: caps.invocations,
    appMemoryMb: config.appMemoryMb,
    logLimits: { runBytes: config.runLogMb * 1024 * 1024, deploymentBytes: config.appLogMb * 1024 * 1024 },
    logLevel: config.logLevel,
    log,
    environment: (id) => deployments.environment(id),
    code: (id) => deployments.code(id),
    retire: (id) => deployments.retire(id),
    building: async () => new Set((await buildsInProgress(db, scope)).map(sandboxOf)),
    endBrowsers: (id) => browsers.endOfInvocation(id),
    endBrowsersLeft: () => browsers.endLeftByInvocations(),
  })
  opened.defer(() => runs.stop())
  const invocations = makeInvocations({ db, bells, scope, runs, maxInvocations: config.maxInvocations })
  await runs.adopt()
  opened.use(hearReplicas(bells, { scope, leases, openSockets, calls, registry, fleet, runs, deployments, replays, telemetry: telemetry.archive, log }))
  const startReplay: typeof replays.start = (...given) => replays.start(...given)
  const ofSessions = { browsers, findSession, startReplay, links, origin: () => inside(bound().port) }
  const logins = openLogins({ ...shared, ...ofSessions, profiles, proxies, telemetryExports }, opened)
  const { credentials, credentialProviders, managedAuth } = logins
  const trail = opened.use(await auditTrail({ dir: paths.audit, replica, store: storeRows(db), log, signal }))
  const audit: AuditSettings = { log: trail, trustedProxies: config.trustedProxies, secretsBelow: [LIVE_PATH, HOSTED_PATH] }
  const checkKey = keyChecker(db, rights)
  const { signIns, handling: signInSettings, oauth } = openSignIns({ db, config, keys, checkKey, rights })
  const exportTarget = makeTarget(config.auditExport)
  const context = makeServer({
    log,
    authenticate: admission(checkKey, projectResolver(db, rights), tokens, browsers, managedAuth.handOff, signIns),
    guard: opened.use(watchKeys(db, log)).guard,
    ...(config.rateLimitPerMinute > 0 && { rateLimit: new RateLimit(config.rateLimitPerMinute) }),
    origin: config.publicUrl,
    secretsBelow: [LIVE_PATH, HOSTED_PATH],
    audit,
    anonymous: anonymousLimits(config),
    assertRoom: disk.assertRoom,
    onDone: metrics.request,
  })
  const { app } = context
  limitConnections(app.server, config.maxBrowsers + config.maxInvocations, log)
  mountRoutes(context, {
    db,
    scope,
    config,
    browsers,
    browserPools,
    replays,
    replayEvents: replayEvents({ db, objects }),
    telemetry: telemetry.rules,
    profiles,
    proxies,
    credentials,
    destinations: telemetryExports.destinations,
    managedAuth,
    credentialProviders,
    deployments,
    invocations,
    extensions,
    live,
    sockets,
    fleet,
    disk,
    metrics,
    audit,
    signInSettings,
    oauth,
    organization: { rights, caps, holdings: projectHoldings, trail, exportTarget },
  })
  opened.use(keepPurging(purges({ db, objects, scope, config }), log, () => leases.holds('purge')))
  opened.use(careForObjects({ db, objects, isShared: config.s3 !== undefined, isOurs: () => leases.holds('objects'), owners: objectOwners(db, scope), log }))
  opened.use(exportAuditLog({ db, target: exportTarget, everyMs: config.auditExportSeconds * 1000, isOurs: () => leases.holds('exports'), log }))
  opened.use(telemetryExports.start(metrics, telemetry.exportDropped, () => leases.holds('telemetry_exports')))
  // In this order: no new callers, then the sessions, then the work in the background, then their store.
  opened.defer(async () => {
    app.server.close()
    await store.check()
    await runs.stop()
    await deployments[Symbol.asyncDispose]()
    await fleet.stop()
    await replays[Symbol.asyncDispose]()
    await telemetry[Symbol.asyncDispose]()
    // Other replicas take over at once. Clients of sessions that go on connect there.
    await leases[Symbol.asyncDispose]()
    closeForRestart(openSockets)
    await app.close()
  })
  await app.listen({ host: config.host, port: config.port }).catch((error: unknown) => {
    throw listenProblem(config, error)
  })
  const { port } = bound()
  listening.resolve(port)
  fleet.refill()
  deployments.start()
  logins.start()
  const owner = opened.move()
  return {
    url: config.publicUrl ?? `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`,
    key,
    lost,
    [Symbol.asyncDispose]: () => owner.disposeAsync(),
  }
}
