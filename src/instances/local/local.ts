// The default driver: instances as sandboxed processes of this machine, one directory each.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, closeSync, existsSync, mkdirSync, openSync, readFileSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import { PACKAGE_DIR, type DataPaths } from '../../base/paths.ts'
import { descendantsOf, isAlive, killAll, nameProcess, processesUsing, type ProcessName } from '../../base/processes.ts'
import { instanceUser, isRoot } from '../../base/user.ts'
import { until, within } from '../../base/wait.ts'
import type { Driver, Exit, Instance, InstanceSpec } from '../driver.ts'
import { watchAgent } from '../lifeline.ts'
import { agentCache } from './agent-cache.ts'
import { writeGuestEtc } from './guest-etc.ts'
import { findLimits, type Limits } from './limits.ts'
import { planNetwork } from './network.ts'
import { removeTree } from './remove-tree.ts'
import { AGENT_ENTRY, sandboxCommand } from './sandbox.ts'

/** From nothing to a browser that answers: 0.6 s alone, 12 s when ten start at once on two cores. */
const START_MS = 90_000

/** Killing all of an instance takes 30-60 ms. */
const END_MS = 20_000

/** What is remembered of an instance in its directory, for the next control plane. */
interface Remembered {
  /** The outermost processes: pasta, and bwrap below it. */
  processes: ProcessName[]
  /** Whether its browser has been up; one that a killed service was still starting is of no use to the next. */
  isReady: boolean
}

/** Makes the local driver. `scope` tells this installation's instances from another's. */
export function localDriver(config: Config, paths: DataPaths, scope: string, log: Log): Driver {
  const limits = findLimits(scope)
  if (limits.finding) log.warn({}, limits.finding)
  if (isRoot()) assertReadable()

  let cache: Promise<string> | undefined
  const compiled = () =>
    (cache ??= agentCache(paths.root).catch((error: unknown) => {
      cache = undefined // the next start tries again
      throw error
    }))
  const open = (id: string, processes: ProcessName[], child?: ChildProcess): LocalInstance =>
    new LocalInstance(id, paths.instance(id), processes, limits, log.child({ browser: id }), child)

  return {
    async start(spec, signal) {
      signal.throwIfAborted()
      const dir = paths.instance(spec.id)
      await using scope = new AsyncDisposableStack()
      mkdirSync(dir, { mode: 0o700 })
      scope.defer(() => removeTree(dir))
      const groups = limits.make(spec.id, { memoryBytes: config.instanceMemoryMb * 1024 * 1024, pids: config.instancePids })
      scope.defer(() => limits.remove(spec.id))
      const child = await launch(config, spec, dir, groups, await compiled())
      const main = nameProcess(child.pid ?? 0)
      if (!main) throw new Error(`instance ${spec.id} could not be started; is everything installed? (cob doctor)`)
      const instance = open(spec.id, [main], child)
      instance.remember(false)
      scope.move() // the instance is the owner of all this now
      return await ready(instance, dir, signal)
    },
    async list() {
      const found = readdirSync(paths.instances).map(async (id) => {
        const dir = paths.instance(id)
        const remembered = recall(dir)
        if (remembered?.isReady && remembered.processes.every(isAlive)) return open(id, remembered.processes)
        // Killed between starting an instance and writing it down, a service leaves processes that only /proc knows of.
        await open(id, [...(remembered?.processes ?? []), ...processesUsing(dir, 'bwrap')])[Symbol.asyncDispose]()
        return undefined
      })
      const live = (await Promise.all(found)).filter((instance) => instance !== undefined)
      for (const id of limits.list()) if (!live.some((instance) => instance.id === id)) await limits.remove(id)
      return live
    },
  }
}

async function ready(instance: LocalInstance, dir: string, signal: AbortSignal): Promise<Instance> {
  try {
    await within('an instance', START_MS, Promise.race([instance.ready, instance.exited.then(({ reason }) => Promise.reject(new Error(reason)))]), signal)
    instance.remember(true)
    return instance
  } catch (error) {
    const tail = readTail(join(dir, 'agent.log'))
    await instance[Symbol.asyncDispose]()
    throw signal.aborted
      ? signal.reason
      : new Error(`instance ${instance.id} did not start: ${(error as Error).message}${tail && `\n${tail}`}`, { cause: error })
  }
}

/** Starts the sandbox with the agent's listening socket as its standard input. */
async function launch(config: Config, spec: InstanceSpec, dir: string, groups: string[], cache: string): Promise<ChildProcess> {
  const user = instanceUser(spec.id)
  const home = join(dir, 'home')
  mkdirSync(home, { mode: 0o700 })
  if (user) chownSync(home, user.uid, user.gid)
  const network = planNetwork(config.allowHostLoopback)
  const etcFiles = writeGuestEtc(join(dir, 'etc'), network)
  const agent = { id: spec.id, viewport: spec.viewport, maxScreen: spec.maxScreen, chromium: config.chromium, logLevel: config.logLevel }
  const command = sandboxCommand({ spec: agent, dir, etcFiles, network, user, groups, cache: { dir: cache, writable: false }, entry: AGENT_ENTRY })
  using listener = await listen(join(dir, 'agent.sock'))
  const logFd = openSync(join(dir, 'agent.log'), 'a', 0o600)
  try {
    const child = spawn(command.file, command.args, { cwd: '/', detached: true, env: { PATH: process.env.PATH }, stdio: [listener.fd, logFd, logFd] })
    child.on('error', () => {})
    child.unref()
    return child
  } finally {
    closeSync(logFd)
  }
}

// The socket is made out here and handed in: what runs in the sandbox can neither replace its file nor point it elsewhere.
async function listen(file: string): Promise<{ fd: number } & Disposable> {
  const server = createServer()
  server.listen(`${file}.new`)
  await once(server, 'listening')
  // Closing our copy unlinks the name it was made under, so it gets another one first.
  renameSync(`${file}.new`, file)
  chmodSync(file, 0o600)
  // Node has no public name for a server's descriptor.
  const { fd } = (server as Server & { _handle: { fd: number } })._handle
  return { fd, [Symbol.dispose]: () => void server.close() }
}

/** One running instance: processes, directory and limits as one thing that ends as one. */
class LocalInstance implements Instance {
  readonly id: string
  readonly agent: { socketPath: string }
  readonly exited: Promise<Exit>
  readonly ready: Promise<void>
  readonly #dir: string
  readonly #limits: Limits
  readonly #watching = new AbortController()
  #processes: ProcessName[]
  #ended: Promise<void> | undefined

  constructor(id: string, dir: string, processes: ProcessName[], limits: Limits, log: Log, child?: ChildProcess) {
    this.id = id
    this.agent = { socketPath: join(dir, 'agent.sock') }
    this.#dir = dir
    this.#limits = limits
    this.#processes = processes
    const lifeline = watchAgent(this.agent, log, this.#watching.signal)
    this.ready = lifeline.ready
    const childGone = child && once(child, 'exit').then(([code, signal]) => `the sandbox ended with ${String(signal ?? code)}`)
    this.exited = Promise.race([lifeline.ended, ...(childGone ? [childGone] : [])]).then((reason) => ({ reason }))
  }

  /** Writes down what runs, so that another control plane can adopt it. */
  remember(isReady: boolean): void {
    this.#processes = this.#live()
    const file = join(this.#dir, 'instance.json')
    writeFileSync(`${file}.new`, JSON.stringify({ processes: this.#processes.slice(0, 2), isReady } satisfies Remembered), { mode: 0o600 })
    renameSync(`${file}.new`, file)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return (this.#ended ??= this.#end())
  }

  // Nothing inside is worth asking politely: what shall outlive the session is saved before it is ended.
  async #end(): Promise<void> {
    // What is killed may have been about to start something, so it is looked again until nothing is found.
    await until(
      'an instance to end',
      END_MS,
      async () => {
        const found = this.#live()
        await killAll(found)
        return found.length === 0
      },
      { everyMs: 1 },
    )
    this.#watching.abort(new Error('the instance was ended'))
    await this.#limits.remove(this.id)
    await removeTree(this.#dir)
  }

  #live(): ProcessName[] {
    const known = this.#processes.filter(isAlive)
    const below = [...known.flatMap(({ pid }) => descendantsOf(pid)), ...this.#limits.members(this.id)]
    return [...new Map([...known, ...below.map(nameProcess).filter((name) => name !== undefined)].map((name) => [name.pid, name])).values()]
  }
}

function recall(dir: string): Remembered | undefined {
  try {
    return JSON.parse(readFileSync(join(dir, 'instance.json'), 'utf8')) as Remembered
  } catch {
    return undefined
  }
}

function readTail(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8').slice(-2000).trim() : ''
}

/** Started by root, instances run as other users, who must be able to read the code. */
function assertReadable(): void {
  for (const file of ['src', 'src/agent/main.ts', 'node_modules', 'package.json'])
    if ((statSync(join(PACKAGE_DIR, file)).mode & 0o004) === 0)
      throw new Error(`${join(PACKAGE_DIR, file)} is readable for root only; instances run unprivileged and need it (chmod -R o+rX)`)
}
