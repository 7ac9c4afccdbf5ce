// One running sandbox: its processes, directory and limits form one unit that ends together, and that is found again after a crash of the
// service.
import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { KEYS_VARIABLE } from '../../base/access.ts'
import type { Log } from '../../base/log.ts'
import { isAlive, killAll, nameProcess, processesUsing, signalProcess, type ProcessName } from '../../base/processes.ts'
import type { Command } from '../../base/unprivileged.ts'
import { resultWithin, until, within } from '../../base/wait.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import type { Exit, Found, Instance, Standby } from '../driver.ts'
import { watchAgent, type Lifeline } from '../lifeline.ts'
import { RetriedEnd } from '../retried-end.ts'
import type { LaterAddresses } from './close-later.ts'
import { groupKiller } from './group-kill.ts'
import { hostRanges } from '../../base/own-addresses.ts'
import type { InstanceLimits, Limits } from './limits.ts'
import { makeListener, socketIn, type Listener } from './listener.ts'
import type { OomKills } from './oom.ts'
import { presentProcesses, readIfThere, RECORD, recall, remember, type Remembered } from './remembered.ts'
import type { Bounds } from './sandbox.ts'
import { emptyDisk, keeperOf, makeDisk, makeMemoryFolders, storageLines, type Content, type Quota, type Storage } from './storage.ts'
import type { Trash } from './trash.ts'
import type { Counted, Size, Usage } from './usage.ts'

/** Timeout of a whole start until the browser answers: 0.6 s alone, 12 s when ten start at once on two cores. */
const START_MS = 90_000

/** How long a start of the service waits for an adopted program to say what it can do: it is the first thing that it says. */
const KNOWN_MS = 2_000

/** Timeout for killing all of an instance: it takes 30-60 ms. */
const END_MS = 20_000
/** For so long a start that nobody waits for leaves the CPU to others, and an end. Where sessions use all of it for longer, their limits would pass. */
const YIELDS_MS = 5_000
const ENDS_ASIDE_MS = 1_000

/** Timeout for the release of a disk: it takes 0.1 s. */
const KEEPER_MS = 10_000

/** Where there is no CPU group, sandboxes run at a lower priority than the service and its database. */
const NICE = 5

/** A kind of sandbox: where their directories are, and how they are limited. */
export interface SandboxKind {
  /** The folder that holds their directories. */
  root: string
  limits: Limits
  /** Where instances of this kind can sleep. */
  standby?: Standby | undefined
  /** Removes their directories after they have ended. */
  trash: Trash
  storage: () => Promise<Storage>
  usage: Usage
  /** Tells their agents of programs that the kernel kills for memory. */
  kills?: OomKills | undefined
  /** Blocks addresses for them that the machine gets later. */
  addresses: LaterAddresses
  /** The service that starts them: others must not take what it starts for remains. */
  replica: string
  /** Whether their programs are reached by TCP on loopback, over TLS, as if they were on another machine. */
  overTls: boolean
  log: Log
  /** Aborts when the service stops. Failed ends are then left to the next start. */
  signal: AbortSignal
}

/** What exists of a sandbox before its program is started. */
export interface Place {
  dir: string
  /** cgroup.procs files to enter. */
  groups: string[]
  bounds: Bounds
  /** Shell lines that run at the beginning of its start. */
  before: string
}

/** How a sandbox is made: its limits, the content of its directory, and its command. */
export interface SandboxPlan {
  id: string
  limits: InstanceLimits
  disk: Quota
  /** What is on its disk from the beginning, besides what `prepare` puts there. */
  content?: Content
  /** Folders outside of its own directory that it fills. */
  shared?: string[]
  /** What these hold already. */
  sharedBefore?: Size | undefined
  /** Nobody waits for it until this resolves. */
  wanted?: Promise<void> | undefined
  /** It has no network, so no addresses have to be blocked there. */
  isOffline?: boolean
  prepare: (place: Place) => Promise<Command>
}

/** Starts a sandbox in a directory of its own and resolves when its program answers. On failure, everything that was started is ended. */
export async function startSandbox(kind: SandboxKind, plan: SandboxPlan, signal: AbortSignal): Promise<Instance> {
  signal.throwIfAborted()
  const sandbox = await openSandbox(kind, plan)
  // It gets what callers leave of the CPU, until one waits for it.
  if (plan.wanted) kind.limits.yield(plan.id, true)
  const hurry = () => kind.limits.yield(plan.id, false)
  void plan.wanted?.then(hurry)
  const timer = plan.wanted && setTimeout(hurry, YIELDS_MS)
  return await sandbox.up(signal).finally(() => {
    clearTimeout(timer)
    hurry()
  })
}

/** Starts a sandbox without waiting for its program. The next service does not adopt it before {@link LocalInstance.up} has succeeded. */
export async function openSandbox(
  kind: SandboxKind,
  { id, limits, disk, content, shared = [], sharedBefore, isOffline, prepare }: SandboxPlan,
): Promise<LocalInstance> {
  const dir = join(kind.root, id)
  const { images } = await kind.storage()
  await using scope = new AsyncDisposableStack()
  // Ended like a sandbox that was found at a start, whatever exists of it by then. A failed attempt is logged and retried.
  scope.defer(() => new LocalInstance(kind, id, { processes: [], isReady: false })[Symbol.asyncDispose]().catch(() => {}))
  // Nothing here waits for the disk on the thread that serves callers: with its journal busy, a folder takes milliseconds.
  await mkdir(dir, { mode: 0o700 })
  await writeFile(join(dir, STARTED_BY), kind.replica, { mode: 0o600 })
  const groups = kind.limits.make(id, limits)
  const closed = hostRanges()
  await makeDisk(dir, disk, images)
  await makeMemoryFolders(dir)
  const bounds = {
    memoryBytes: limits.memoryBytes,
    pids: limits.pids,
    fileBytes: images ? undefined : disk.bytes,
    nice: kind.limits.sharesCpu ? 0 : NICE,
  }
  const command = await prepare({ dir, groups, bounds, before: storageLines(dir, disk, content) })
  await using listener = await makeListener(dir, kind.overTls)
  const child = launch(dir, command, listener)
  const main = nameProcess(child.pid ?? 0)
  if (!main) throw new Error(`instance ${id} could not be started; is everything installed? (cob doctor)`)
  const memoryBytes = kind.limits.boundsMemory ? undefined : limits.memoryBytes
  const counted: Counted = { disk, image: images, shared, ...(sharedBefore && { sharedBefore }), memoryBytes }
  const instance = new LocalInstance(kind, id, { processes: [main], isReady: false, counted, agent: listener.agent }, child)
  await instance.remember(false)
  if (!isOffline) kind.addresses.follow(instance, closed)
  scope.move() // the instance is now the owner of all this
  return instance
}

/** The file in a sandbox's directory that names the service that has started it. */
const STARTED_BY = 'replica'
/** A directory without that file is being made, or its service was killed just then. */
const MAKING_MS = 60_000

/** The sandboxes of a kind of which something exists. */
export function foundSandboxes(kind: SandboxKind): Found[] {
  return [...new Set([...readdirSync(kind.root), ...kind.limits.list(), ...(kind.limits.freezer?.list() ?? [])])].flatMap((id) => {
    const dir = join(kind.root, id)
    const replica = readIfThere(join(dir, STARTED_BY))
    const made = replica === undefined ? statSync(dir, { throwIfNoEntry: false })?.mtimeMs : undefined
    return made !== undefined && Date.now() - made < MAKING_MS && !existsSync(join(dir, RECORD)) ? [] : [{ id, replica }]
  })
}

/** Takes over a sandbox that still runs. The remains of another are removed; an end that does not work at once is retried. */
export async function adoptSandbox(kind: SandboxKind, id: string): Promise<LocalInstance | undefined> {
  const dir = join(kind.root, id)
  const remembered = recall(dir)
  if (remembered?.isReady && remembered.processes.every(isAlive)) {
    // The service that let it sleep has ended.
    kind.standby?.wake(id)
    const instance = new LocalInstance(kind, id, remembered).watch()
    await resultWithin(KNOWN_MS, instance.known)
    kind.addresses.follow(instance, []) // the machine may have got new addresses while no service ran
    return instance
  }
  // A service that is killed after it has started an instance and before it has recorded it leaves processes that only /proc shows.
  const processes = [...(remembered?.processes ?? []), ...(await processesUsing(dir, 'bwrap'))]
  const rest = new LocalInstance(kind, id, { processes, isReady: false })
  await rest[Symbol.asyncDispose]().catch(() => {}) // it logs the failure and retries
  return undefined
}

/** Sandboxes of a kind that an earlier service has left and that have not been adopted yet. */
export function unlisted(kind: SandboxKind): { sandbox: LocalInstance; counted: Counted }[] {
  return readdirSync(kind.root).flatMap((id) => {
    const remembered = recall(join(kind.root, id))
    if (kind.usage.has(id) || remembered?.counted === undefined) return []
    return [{ sandbox: new LocalInstance(kind, id, { ...remembered, counted: undefined }), counted: remembered.counted }]
  })
}

/** Starts the sandbox with the agent's listening socket as its standard input. Keys travel in the environment, which no command line shows (enclose.pl). */
function launch(dir: string, command: Command, { fd, keys }: Listener): ChildProcess {
  const logFd = openSync(join(dir, 'agent.log'), 'a', 0o600)
  try {
    const env = { PATH: process.env.PATH, ...(keys && { [KEYS_VARIABLE]: JSON.stringify(keys) }) }
    const child = spawn(command.file, command.args, { cwd: '/', detached: true, env, stdio: [fd, logFd, logFd] })
    child.on('error', () => {})
    child.unref()
    return child
  } finally {
    closeSync(logFd)
  }
}

/** A sandbox that was started. */
export class LocalInstance implements Instance {
  readonly id: string
  readonly dir: string
  agent: Endpoint
  /** Resolves when its program has said what it can do, or has ended. */
  known: Promise<void> = Promise.resolve()
  readonly exited: Promise<Exit>
  readonly #exit = Promise.withResolvers<Exit>()
  readonly #kind: SandboxKind
  readonly #log: Log
  readonly #watching = new AbortController()
  readonly #counted: Counted | undefined
  #processes: ProcessName[]
  /** Its program has answered. Until then its processes may be starting others, also while they are killed. */
  #isUp: boolean
  readonly #ending: RetriedEnd
  #isUnwatched = false
  readonly #killGroup: () => boolean

  constructor(kind: SandboxKind, id: string, { processes, isReady, counted, agent }: Remembered, child?: ChildProcess) {
    this.id = id
    this.dir = join(kind.root, id)
    this.agent = agent ?? socketIn(this.dir)
    this.exited = this.#exit.promise
    this.#kind = kind
    this.#log = kind.log.child({ instance: id })
    this.#ending = new RetriedEnd(() => this.#end(), this.#log, kind.signal)
    this.#processes = processes
    this.#isUp = isReady
    this.#counted = counted
    this.#killGroup = groupKiller(
      () => kind.limits.members(id),
      () => this.#processes,
    )
    if (counted) kind.usage.count(this, counted)
    child?.once('exit', (code, signal) => this.#endedByItself({ reason: `the sandbox ended with ${String(signal ?? code)}` }))
  }

  /** Where a sandbox of an app has its runner; it is the same kind of socket. */
  get runner(): Endpoint {
    const { older: _, ...endpoint } = this.agent
    return endpoint
  }

  /** Begins to watch its program. When the program ends, the sandbox ends. */
  watch(): this {
    this.#watch()
    return this
  }

  unwatch(): void {
    this.#isUnwatched = true
    this.#watching.abort(new Error('another service watches the instance'))
    this.#kind.addresses.forget(this)
    this.#kind.usage.forget(this)
    this.#kind.kills?.forget(this)
  }

  /** The kernel kills the largest program of a group that has no memory left. Its other programs do not say why they end then. */
  #endedByItself(exit: Exit): void {
    const isOfMemory = exit.cause === undefined && this.#kind.limits.killedForMemory(this.id) > 0
    this.#resolveExit(isOfMemory ? { reason: `${exit.reason}; the kernel has killed programs of it, which had used up its memory`, limit: 'memory' } : exit)
  }

  #resolveExit(exit: Exit): void {
    if (!this.#isUnwatched) this.#exit.resolve(exit)
  }

  /** Resolves when its program answers; ends the sandbox when it does not. */
  async up(signal: AbortSignal): Promise<this> {
    const { ready } = this.#watch()
    try {
      await within('an instance', START_MS, Promise.race([ready, this.exited.then(({ reason }) => Promise.reject(new Error(reason)))]), signal)
      await within('its network', START_MS, this.#kind.addresses.settled(this), signal)
      await this.remember(true)
      this.#isUp = true
      return this
    } catch (error) {
      const tail = readTail(join(this.dir, 'agent.log'))
      await this[Symbol.asyncDispose]().catch(() => {}) // it logs the failure and retries
      throw signal.aborted ? signal.reason : new Error(`instance ${this.id} did not start: ${(error as Error).message}${tail && `\n${tail}`}`, { cause: error })
    }
  }

  #watch(): Lifeline {
    this.#kind.kills?.follow(this)
    // When the service stops, what goes on belongs to another one: it has not ended.
    // A sleeping session needs its X server to start Chromium again.
    const wake = () => this.#kind.standby?.wake(this.id)
    const lifeline = watchAgent(this.agent, this.#log, AbortSignal.any([this.#watching.signal, this.#kind.signal]), wake)
    this.known = lifeline.ready.then(
      ({ version, lacks }) => {
        const { older: _, ...endpoint } = this.agent
        this.agent = lacks.length === 0 ? endpoint : { ...endpoint, older: { version: version ?? 'an early version', lacks } }
      },
      () => {}, // `ended` says why
    )
    void lifeline.ended.then((exit) => this.#kind.signal.aborted || this.#endedByItself(exit))
    return lifeline
  }

  /** Records what runs, so that another control plane can adopt it. */
  async remember(isReady: boolean): Promise<void> {
    this.#processes = this.live()
    await remember(this.dir, { processes: this.#processes.slice(0, 2), isReady, counted: this.#counted, agent: this.agent })
  }

  /**
   * Ends its processes at once, because it exceeded a limit. With the limit `disk` its files are removed as well: its owner may wait for a
   * database that waits for room. The owner removes the rest.
   */
  async stopFor(exit: Exit): Promise<void> {
    this.#log.error({ reason: exit.reason }, 'a sandbox is ended')
    this.#resolveExit(exit)
    this.#kind.limits.freezer?.thaw(this.id)
    await killAll(this.live())
    await this.#keeperGone()
    if (exit.limit === 'disk') await emptyDisk(this.dir, this.#kind.trash)
  }

  /** Signals what runs to end. It gives the CPU to callers from then on: what is left to do for it is not urgent. */
  kill(): void {
    this.#kind.limits.yield(this.id, true)
    this.#kind.limits.freezer?.thaw(this.id)
    if (!this.#killGroup()) for (const name of this.live()) signalProcess(name, 'SIGKILL')
  }

  /** Ends it. @throws when that does not work now; it is then retried until it succeeds, without a further call */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#ending.run()
  }

  // SIGKILL at once: whatever must outlive the session has been saved before the end.
  async #end(): Promise<void> {
    // A killed process may have been about to start another, so this repeats until no process is found.
    const timer = setTimeout(() => this.#kind.limits.yield(this.id, false), ENDS_ASIDE_MS)
    this.#kind.limits.freezer?.thaw(this.id)
    await until(
      'an instance to end',
      END_MS,
      async () => {
        if (this.#killGroup()) return false
        const found = this.#isUp ? this.live() : [...this.live(), ...(await processesUsing(this.dir, 'bwrap'))]
        await killAll(found)
        return found.length === 0
      },
      { everyMs: 2 },
    ).finally(() => clearTimeout(timer))
    this.#kind.addresses.forget(this)
    this.#kind.kills?.forget(this)
    this.#watching.abort(new Error('the instance was ended'))
    await this.#keeperGone()
    await this.#kind.limits.freezer?.remove(this.id)
    await this.#kind.limits.remove(this.id)
    await this.#kind.trash.discard(this.dir)
  }

  /** Whether its end has begun. */
  isEnded(): boolean {
    return this.#ending.hasBegun
  }

  /** The keeper exits when the last process has exited. Until then the disk is in use. */
  async #keeperGone(): Promise<void> {
    const keeper = keeperOf(this.dir)
    if (keeper === undefined) return
    const gone = until('the keeper of a sandbox to leave', KEEPER_MS, () => !isAlive(keeper), { everyMs: 2 })
    await gone.catch(() => killAll([keeper]))
  }

  /** Its present processes. */
  live(): ProcessName[] {
    return presentProcesses(this.#processes, this.#kind.limits.members(this.id))
  }
}

function readTail(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8').slice(-2000).trim() : ''
}
