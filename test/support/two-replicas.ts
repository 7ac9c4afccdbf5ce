// Two services (replicas) inside the test's process, with fake browsers, on one database and one data directory.
import { readdirSync } from 'node:fs'
import { afterEach, aroundAll } from 'vitest'
import { readConfig } from '../../src/base/config.ts'
import { silentLog } from '../../src/base/log.ts'
import type { DataPaths } from '../../src/base/paths.ts'
import { startControlPlane } from '../../src/control/main.ts'
import { fakeDriver } from '../../src/instances/fake/fake.ts'
import { replicaCalls, share, START_MS, type ReplicaCalls, type Shared } from './replicas.ts'

export interface FastReplica extends ReplicaCalls {
  key: string
  /** Stops it as Ctrl-C does. A second call does nothing. */
  stop(): Promise<void>
}

export interface TwoReplicas {
  shared: Shared
  one: FastReplica
  two: FastReplica
  /** Starts another replica with its own settings. It is stopped after the test. */
  another(env?: Env): Promise<FastReplica>
}

type Env = Record<string, string>

const NONE_WARM: Env = { COB_WARM_BROWSERS: '0', COB_WARM_BROWSERS_MAX: '0' }

/**
 * Starts two replicas before the tests of a file or a describe. After the tests it stops both, and fails when an instance is left. `overTls`: agents are reached over
 * TCP, as on other machines. `env` may be a function, if it needs something that starts earlier.
 */
export function twoReplicas(env: Env | (() => Env) = {}, { overTls = true } = {}): TwoReplicas {
  const shared = {} as Shared
  const one = {} as FastReplica
  const two = {} as FastReplica
  const more: FastReplica[] = []
  const start = (own: Env = {}) => startReplica({ ...shared.env, ...own }, overTls)
  aroundAll(async (runTests) => {
    await using scope = new AsyncDisposableStack()
    Object.assign(shared, scope.use(await share({ ...NONE_WARM, ...(typeof env === 'function' ? env() : env) })))
    scope.defer(() => assertNoneLeft(shared))
    scope.defer(() => endAll(shared, overTls))
    for (const replica of [one, two]) {
      Object.assign(replica, await start())
      scope.defer(replica.stop)
    }
    await runTests()
  })
  afterEach(async () => void (await Promise.all(more.splice(0).map((replica) => replica.stop()))))
  return {
    shared,
    one,
    two,
    async another(own) {
      const replica = await start(own)
      more.push(replica)
      return replica
    },
  }
}

async function startReplica(env: Env, overTls: boolean): Promise<FastReplica> {
  const drive = async (_config: unknown, paths: DataPaths, _host: unknown, _log: unknown, replica: string) => fakeDriver(paths, { overTls, replica })
  const plane = await startControlPlane(readConfig({ COB_DRIVER: 'fake', ...env }), silentLog, AbortSignal.timeout(START_MS), drive)
  let stopped: Promise<void> | undefined
  return { ...replicaCalls(plane.url, plane.key.value), key: plane.key.value, stop: () => (stopped ??= Promise.resolve(plane[Symbol.asyncDispose]())) }
}

/** Replicas leave running instances to the next replica. A service that runs alone adopts and ends them. */
async function endAll({ env }: Shared, overTls: boolean): Promise<void> {
  const { COB_REPLICAS: _, ...alone } = env
  await (await startReplica({ ...alone, ...NONE_WARM }, overTls)).stop()
}

function assertNoneLeft({ paths }: Shared): void {
  const left = readdirSync(paths.instances)
  if (left.length > 0) throw new Error(`instances are left: ${left.join(', ')}`)
}
