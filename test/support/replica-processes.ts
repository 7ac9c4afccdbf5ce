// Starts replicas as processes, for all tests of a file.
import { afterAll, beforeAll, expect } from 'vitest'
import { newKey } from '../../src/control/access/keys.ts'
import { leftovers, processesNow } from './leaks.ts'
import { replicaProcess, share, START_MS, type ReplicaProcess, type Shared } from './replicas.ts'

/** The limit for all replicas to end, with hundreds of sessions. */
const END_MS = 240_000

export interface ReplicaProcesses {
  shared: Shared
  /** At least two. */
  replicas: [ReplicaProcess, ReplicaProcess, ...ReplicaProcess[]]
  /** The API key of all replicas. */
  key: string
}

/**
 * Starts `count` replicas before a file's tests. After the tests it stops them, and fails when anything is left. `instances` starts the holder of their instances, if
 * the replicas do not hold them themselves.
 */
export function replicaProcesses(
  count: number,
  env: Record<string, string>,
  { program, instances }: { program?: readonly string[]; instances?: (dataDir: string) => Promise<AsyncDisposable> } = {},
): ReplicaProcesses {
  const before = processesNow()
  const key = newKey()
  const shared = {} as Shared
  const replicas: ReplicaProcess[] = []
  let holder: AsyncDisposable | undefined
  beforeAll(async () => {
    Object.assign(shared, await share(env))
    holder = await instances?.(shared.paths.root)
    for (let made = 0; made < count; made++) replicas.push(await replicaProcess(shared, key, program))
    // Start them in order: the first one takes the duties.
    for (const replica of replicas) await replica.start()
  }, 2 * START_MS)
  afterAll(async () => {
    const codes = await Promise.all(replicas.map((replica) => replica.stop()))
    // Replicas leave running instances to the next replica. A service that runs alone adopts and ends them.
    const { COB_REPLICAS: _, ...alone } = shared.env
    const last = await replicaProcess({ env: { ...alone, COB_WARM_BROWSERS: '0', COB_WARM_BROWSERS_MAX: '0' } }, key, program)
    await last.start()
    const failed = replicas.filter((_replica, at) => codes[at] !== 0)
    if ((await last.stop()) !== 0) failed.push(last)
    await holder?.[Symbol.asyncDispose]()
    await shared.stopPostgres()
    const left = await leftovers(shared.paths.root, before)
    await shared[Symbol.asyncDispose]()
    expect([...left, ...failed.map((replica) => replica.log().slice(-3000))]).toEqual([])
  }, END_MS)
  return { shared, replicas: replicas as ReplicaProcesses['replicas'], key }
}
