// One running sandbox: processes, directory and limits as one thing that ends as one, and is found again after a crash of the service.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import type { Log } from '../../base/log.ts'
import { descendantsOf, isAlive, killAll, nameProcess, processesUsing, type ProcessName } from '../../base/processes.ts'
import type { Command } from '../../base/unprivileged.ts'
import { until, within } from '../../base/wait.ts'
import type { Exit, Instance } from '../driver.ts'
import { watchAgent, type Lifeline } from '../lifeline.ts'
import type { LaterAddresses } from './close-later.ts'
import { hostRanges } from './host-addresses.ts'
import type { InstanceLimits, Limits } from './limits.ts'
import { removeTree } from './remove-tree.ts'

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

/** A kind of sandboxes: where their directories lie, and how they are limited. */
export interface SandboxKind {
  /** The folder that holds their directories. */
  root: string
  limits: Limits
  /** Closes to them what the machine gains later. */
  addresses: LaterAddresses
  log: Log
}

/** How a sandbox is made: its limits, and what fills its directory and gives its command. */
export interface SandboxPlan {
  id: string
  limits: InstanceLimits
  prepare: (dir: string, groups: string[]) => Promise<Command>
}

/**
 * Starts a sandbox in a directory of its own and resolves when what runs in it answers. Whatever had been started is ended when
 * it does not come up.
 */
export async function startSandbox(kind: SandboxKind, plan: SandboxPlan, signal: AbortSignal): Promise<Instance> {
  signal.throwIfAborted()
  return await (await openSandbox(kind, plan)).up(signal)
}

/** Starts a sandbox without waiting for what runs in it. The next service does not adopt it before it was {@link LocalInstance.up}. */
export async function openSandbox(kind: SandboxKind, { id, limits, prepare }: SandboxPlan): Promise<LocalInstance> {
  const dir = join(kind.root, id)
  await using scope = new AsyncDisposableStack()
  mkdirSync(dir, { mode: 0o700 })
  scope.defer(() => removeTree(dir))
  const groups = kind.limits.make(id, limits)
  scope.defer(() => kind.limits.remove(id))
  const closed = hostRanges()
  const child = await launch(dir, await prepare(dir, groups))
  const main = nameProcess(child.pid ?? 0)
  if (!main) throw new Error(`instance ${id} could not be started; is everything installed? (cob doctor)`)
  const instance = new LocalInstance(kind, id, [main], child)
  instance.remember(false)
  kind.addresses.follow(instance, closed)
  scope.move() // the instance is the owner of all this now
  return instance
}

/** Every sandbox of a kind that still runs; removes what is left of those that do not. */
export async function listSandboxes(kind: SandboxKind): Promise<Instance[]> {
  const found = readdirSync(kind.root).map(async (id) => {
    const dir = join(kind.root, id)
    const remembered = recall(dir)
    if (remembered?.isReady && remembered.processes.every(isAlive)) {
      const instance = new LocalInstance(kind, id, remembered.processes).watch()
      kind.addresses.follow(instance, []) // the machine may have gained some while no service ran
      return instance
    }
    // Killed between starting an instance and writing it down, a service leaves processes that only /proc knows of.
    await new LocalInstance(kind, id, [...(remembered?.processes ?? []), ...processesUsing(dir, 'bwrap')])[Symbol.asyncDispose]()
    return undefined
  })
  const live = (await Promise.all(found)).filter((instance) => instance !== undefined)
  for (const id of kind.limits.list()) if (!live.some((instance) => instance.id === id)) await kind.limits.remove(id)
  return live
}

/** Starts the sandbox with the agent's listening socket as its standard input. */
async function launch(dir: string, command: Command): Promise<ChildProcess> {
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

/** A sandbox that was started. */
export class LocalInstance implements Instance {
  readonly id: string
  readonly dir: string
  readonly agent: { socketPath: string }
  readonly exited: Promise<Exit>
  readonly #exit = Promise.withResolvers<Exit>()
  readonly #limits: Limits
  readonly #addresses: LaterAddresses
  readonly #log: Log
  readonly #watching = new AbortController()
  #processes: ProcessName[]
  #ended: Promise<void> | undefined

  constructor({ root, limits, addresses, log }: SandboxKind, id: string, processes: ProcessName[], child?: ChildProcess) {
    this.id = id
    this.dir = join(root, id)
    this.agent = { socketPath: join(this.dir, 'agent.sock') }
    this.exited = this.#exit.promise
    this.#limits = limits
    this.#addresses = addresses
    this.#log = log.child({ instance: id })
    this.#processes = processes
    child?.once('exit', (code, signal) => this.#exit.resolve({ reason: `the sandbox ended with ${String(signal ?? code)}` }))
  }

  /** Begins to watch what runs in it, whose end is its own. */
  watch(): this {
    this.#watch()
    return this
  }

  /** Resolves when what runs in it answers; ends it when that does not come to pass. */
  async up(signal: AbortSignal): Promise<this> {
    const { ready } = this.#watch()
    try {
      await within('an instance', START_MS, Promise.race([ready, this.exited.then(({ reason }) => Promise.reject(new Error(reason)))]), signal)
      await within('its network', START_MS, this.#addresses.settled(this), signal)
      this.remember(true)
      return this
    } catch (error) {
      const tail = readTail(join(this.dir, 'agent.log'))
      await this[Symbol.asyncDispose]()
      throw signal.aborted ? signal.reason : new Error(`instance ${this.id} did not start: ${(error as Error).message}${tail && `\n${tail}`}`, { cause: error })
    }
  }

  #watch(): Lifeline {
    const lifeline = watchAgent(this.agent, this.#log, this.#watching.signal)
    void lifeline.ended.then((reason) => this.#exit.resolve({ reason }))
    return lifeline
  }

  /** Writes down what runs, so that another control plane can adopt it. */
  remember(isReady: boolean): void {
    this.#processes = this.live()
    const file = join(this.dir, 'instance.json')
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
        const found = this.live()
        await killAll(found)
        return found.length === 0
      },
      { everyMs: 1 },
    )
    this.#addresses.forget(this)
    this.#watching.abort(new Error('the instance was ended'))
    await this.#limits.remove(this.id)
    await removeTree(this.dir)
  }

  /** Whether its end has begun. */
  isEnded(): boolean {
    return this.#ended !== undefined
  }

  live(): ProcessName[] {
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
