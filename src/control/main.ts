// Starts the control plane: first its base, then all modules of modules.ts, then the server.
import type { Config } from '../base/config.ts'
import { newId } from '../base/ids.ts'
import type { Log } from '../base/log.ts'
import { dataPaths } from '../base/paths.ts'
import { makeSealer } from '../base/sealed.ts'
import { secretFile } from '../base/secret-file.ts'
import { limitConnections } from '../http/connections.ts'
import { RateLimit } from '../http/rate-limit.ts'
import { makeServer } from '../http/server.ts'
import { storedEndpoints } from '../http/stored-endpoint.ts'
import { mountUpgrades } from '../http/upgrade.ts'
import { isFull } from '../store/db.ts'
import { postgresRuns } from '../store/embedded.ts'
import { listenForEvents } from '../store/events.ts'
import { heldByBackups } from '../store/held-objects.ts'
import { makeObjects } from '../store/make-objects.ts'
import { apiKeys } from './access/api-keys/module.ts'
import { auditLogs } from './access/audit-logs/module.ts'
import type { OwnKey } from './access/keys.ts'
import { admission } from './access/principal.ts'
import { opening, phases, type Foundation, type Opening, type Serving } from './module.ts'
import { duties, modules } from './modules.ts'
import { boundAddress } from './service/addresses.ts'
import { assertRestored } from './service/backup/marker.ts'
import { makeDriver } from './service/engines.ts'
import { openStore, type Store } from './service/open-store.ts'
import { checkPort, listenProblem } from './service/port.ts'
import { takeLeases } from './service/replicas.ts'
import { serviceKeys } from './service/service-keys.ts'
import { makeDisk } from './service/system/disk.ts'
import { makeMetrics } from './service/system/metrics.ts'
import { anonymousLimits } from './service/limits.ts'

export interface ControlPlane extends AsyncDisposable {
  /** Where it listens. */
  url: string
  key: OwnKey
  /** Aborts when another process has taken the scope. Dispose the service then: everything that runs is left to the other process. */
  lost: AbortSignal
}

/** Starts the service. Disposing ends it with its sessions and its Postgres. `drive` replaces the driver that `config` names; `all` are its modules. */
export async function startControlPlane(config: Config, log: Log, signal: AbortSignal, drive = makeDriver, all = modules): Promise<ControlPlane> {
  await using opened = new AsyncDisposableStack()
  await checkPort(config)
  assertRestored(config.dataDir)
  const { foundation, store, room } = await lay(config, log, signal, opened, drive)
  // The freed disk space stays until the end of the start, which writes, too.
  using _ = room
  const listening = Promise.withResolvers<number>()
  const serving: Serving = { bound: boundAddress(() => context.app.server), openSockets: () => upgrades.open(), listening: listening.promise }
  const house = opening(foundation, serving, all, opened)
  const { of } = await house.openAll()
  const audit = of(auditLogs)
  const context = makeServer({
    log,
    authenticate: of(admission),
    guard: of(apiKeys).guard,
    ...(config.rateLimitPerMinute > 0 && { rateLimit: new RateLimit(config.rateLimitPerMinute) }),
    origin: config.publicUrl,
    secretsBelow: audit.secretsBelow,
    audit,
    anonymous: anonymousLimits(config),
    assertRoom: foundation.disk.assertRoom,
    onDone: foundation.metrics.request,
  })
  const { app } = context
  limitConnections(app.server, config.maxBrowsers + config.maxInvocations, log)
  const upgrades = mountUpgrades(app.server, log, house.mountAll(context), { known: context.known, audit })
  for (const phase of [phases.takeOver, phases.adopt, phases.settle]) {
    await house.run(phase)
    signal.throwIfAborted()
  }
  const background = house.beginBackground()
  opened.defer(() => end(house, background, store, foundation, app))
  await app.listen({ host: config.host, port: config.port }).catch((error: unknown) => {
    throw listenProblem(config, error)
  })
  const { port } = serving.bound()
  listening.resolve(port)
  await house.run(phases.start)
  const owner = opened.move()
  return {
    url: config.publicUrl ?? `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`,
    key: of(apiKeys).own,
    lost: store.lost,
    [Symbol.asyncDispose]: () => owner.disposeAsync(),
  }
}

/** Opens the base on which the modules work. */
async function lay(config: Config, log: Log, signal: AbortSignal, opened: AsyncDisposableStack, drive: typeof makeDriver) {
  const paths = dataPaths(config.dataDir)
  const scope = config.scope ?? secretFile(paths.hostId, newId).value
  const replica = newId()
  const keys = serviceKeys(config, paths)
  const endpoints = storedEndpoints(makeSealer(keys, 'endpoints'))
  const driver = opened.use(await drive(config, paths, scope, log, replica, endpoints))
  const disk = opened.use(makeDisk({ dir: paths.root, reserveMb: config.diskReserveMb, log, relieve: () => driver.relieve() }))
  // A running Postgres may be another service's: this service then waits for the lock of the data directory.
  const room = config.databaseUrl === undefined && !postgresRuns(paths) ? await disk.makeRoomToStart() : undefined
  if (room) disk.watch()
  const store = await openStore(config, paths, scope, log, signal, opened, disk)
  const { db, address } = store
  disk.watch(() => isFull(db))
  signal.throwIfAborted()
  const leases = await takeLeases(config, store, scope, replica, duties, log, opened)
  const notifier = opened.use(listenForEvents(address, log))
  const objects = opened.use(heldByBackups(await makeObjects(paths.objects, config.s3), db))
  const metrics = makeMetrics()
  const foundation: Foundation = { config, log, paths, scope, replica, keys, endpoints, driver, disk, db, leases, notifier, objects, metrics, signal }
  return { foundation, store, room }
}

/** The order of the end: no new callers, then everything that runs, then the work in the background, then the store. */
async function end(
  house: Opening,
  background: AsyncDisposable,
  store: Store,
  { leases }: Foundation,
  app: { server: { close(): unknown }; close(): Promise<void> },
): Promise<void> {
  app.server.close()
  await store.check()
  await house.run(phases.stop)
  await house.run(phases.close)
  await background[Symbol.asyncDispose]()
  // Other replicas take over at once, and clients of sessions that continue connect there.
  await leases[Symbol.asyncDispose]()
  await house.run(phases.leave)
  await app.close()
}
