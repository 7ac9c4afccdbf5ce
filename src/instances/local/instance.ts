// One running sandbox: its processes, directory and limits form one unit that ends as a whole, and is found again after a crash of the service.
import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { session } from '../../agent/session/contract.ts'
import { KEYS_VARIABLE } from '../../base/access.ts'
import { isAlive, killAll, nameProcess, processesUsing, signalProcess, type ProcessName } from '../../base/processes.ts'
import type { Command } from '../../base/unprivileged.ts'
import { until, within } from '../../base/wait.ts'
import { call } from '../../http/client.ts'
import type { Exit, Found, Instance, Standby } from '../driver.ts'
import type { Retrying } from '../retried-end.ts'
import { WatchedInstance } from '../watched.ts'
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

/** Timeout for killing all of an instance: it takes 30-60 ms. */
const END_MS = 20_000
/**
 * How long a start that nobody waits for yields the CPU to others; the same for an end. If it yielded longer on a busy machine, its own timeouts would pass.
 */
const YIELDS_MS = 5_000
const ENDS_ASIDE_MS = 1_000

/** Timeout for the release of a disk: it takes 0.1 s. */
const KEEPER_MS = 10_000

/** Where there is no CPU group, sandboxes run at a lower priority than the service and its database. */
const NICE = 5

/** The settings of a kind of sandbox: their directories and limits. */
export interface SandboxKind extends Retrying {
  /** The folder that holds their directories. */
  root: string
  limits: Limits
  /** Where instances of this kind can sleep. */
  standby?: Standby | undefined
  /** Removes their directories after they have ended. */
  trash: Trash
  storage: () => Promise<Storage>
  usage: Usage
  /** Reports programs that the kernel kills for memory to their agents. */
  kills?: OomKills | undefined
  /** Blocks addresses for them that the machine gets later. */
  addresses: LaterAddresses
  /** The service that starts them: other services must not take its sandboxes for remains. */
  replica: string
  /** Whether their programs are reached by TCP on loopback, over TLS, as if they were on another machine. */
  overTls: boolean
}

/** The parts of a sandbox that exist before its program is started. */
export interface Place {
  dir: string
  /** cgroup.procs files to enter. */
  groups: string[]
  bounds: Bounds
  /** Shell lines that run at the beginning of its start. */
  before: string
}

/** The plan of a sandbox: its limits, the content of its directory, and its command. */
export interface SandboxPlan {
  id: string
  limits: InstanceLimits
  disk: Quota
  /** The initial content of its disk, in addition to that of `prepare`. */
  content?: Content
  /** Folders outside its own directory that it fills. */
  shared?: string[]
  /** The initial content of these folders. */
  sharedBefore?: Size | undefined
  /** Nobody waits for it until this resolves. */
  wanted?: Promise<void> | undefined
  /** It has no network, so no addresses have to be blocked there. */
  isOffline?: boolean
  /** Its agent waits until it is told to start its browser. */
  isPrepared?: boolean
  prepare: (place: Place) => Promise<Command>
}

/** Starts a sandbox in a directory of its own and resolves when its program answers. On failure, everything that was started is ended. */
export async function startSandbox(kind: SandboxKind, plan: SandboxPlan, signal: AbortSignal): Promise<Instance> {
  signal.throwIfAborted()
  return bringUp(kind, await openSandbox(kind, plan), plan.wanted, signal)
}

/** Resolves when the program of a sandbox answers; ends the sandbox when it does not. `wanted`: nobody waits for it until this resolves. */
async function bringUp(kind: SandboxKind, sandbox: LocalInstance, wanted: Promise<void> | undefined, signal: AbortSignal): Promise<LocalInstance> {
  const { id } = sandbox
  // It gets only the CPU that callers leave, until a caller waits for it.
  kind.limits.yield(id, wanted !== undefined)
  const hurry = () => kind.limits.yield(id, false)
  void wanted?.then(hurry)
  const timer = wanted && setTimeout(hurry, YIELDS_MS)
  return await sandbox.up(signal).finally(() => {
    clearTimeout(timer)
    hurry()
  })
}

/** Starts a sandbox whose agent waits. `loaded` resolves when the agent has loaded its code. On failure, everything that was started is ended. */
export async function prepareSandbox(
  kind: SandboxKind,
  plan: SandboxPlan,
  signal: AbortSignal,
): Promise<{ instance: LocalInstance; loaded: Promise<unknown> }> {
  const instance = await openSandbox(kind, plan)
  kind.limits.yield(plan.id, true)
  return { instance, loaded: instance.loaded(signal) }
}

/** Starts the browser of a prepared sandbox and resolves when it answers. On failure, the sandbox is ended. */
export async function beginPrepared(kind: SandboxKind, sandbox: LocalInstance, wanted: Promise<void> | undefined, signal: AbortSignal): Promise<Instance> {
  sandbox.begin()
  return bringUp(kind, sandbox, wanted, signal)
}

/** Starts a sandbox without waiting for its program. The next service does not adopt it before {@link LocalInstance.up} has succeeded. */
export async function openSandbox(
  kind: SandboxKind,
  { id, limits, disk, content, shared = [], sharedBefore, isOffline, isPrepared, prepare }: SandboxPlan,
): Promise<LocalInstance> {
  const dir = join(kind.root, id)
  const { images } = await kind.storage()
  await using scope = new AsyncDisposableStack()
  // Ended like a sandbox that was found at a start, whatever parts exist by then. A failed attempt is logged and retried.
  scope.defer(() => new LocalInstance(kind, id, { processes: [], isReady: false })[Symbol.asyncDispose]().catch(() => {}))
  // Nothing here waits for the disk on the thread that serves callers: while the journal is busy, a folder takes milliseconds.
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
  await instance.remember(false, isPrepared)
  if (!isOffline) kind.addresses.follow(instance, closed)
  scope.move() // the instance is now the owner of all this
  return instance
}

/** The file in a sandbox's directory that names the service that has started it. */
const STARTED_BY = 'replica'
/** Age up to which a directory without that file may still be being made. After that, its service was killed just then. */
const MAKING_MS = 60_000

/** The sandboxes of a kind that exist or have remains. */
export function foundSandboxes(kind: SandboxKind): Found[] {
  return [...new Set([...readdirSync(kind.root), ...kind.limits.list(), ...(kind.limits.freezer?.list() ?? [])])].flatMap((id) => {
    const dir = join(kind.root, id)
    const replica = readIfThere(join(dir, STARTED_BY))
    const made = replica === undefined ? statSync(dir, { throwIfNoEntry: false })?.mtimeMs : undefined
    return made !== undefined && Date.now() - made < MAKING_MS && !existsSync(join(dir, RECORD))
      ? []
      : [{ id, replica, isPrepared: recall(dir)?.isPrepared === true }]
  })
}

/** Takes over a sandbox that still runs. The remains of an ended one are removed; a failed removal is retried. */
export async function adoptSandbox(kind: SandboxKind, id: string): Promise<LocalInstance | undefined> {
  const dir = join(kind.root, id)
  const remembered = recall(dir)
  if (remembered?.isReady && remembered.processes.every(isAlive)) {
    // The service that put it to sleep has ended.
    kind.standby?.wake(id)
    const instance = await new LocalInstance(kind, id, remembered).adopted()
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
export class LocalInstance extends WatchedInstance {
  readonly dir: string
  readonly #kind: SandboxKind
  readonly #counted: Counted | undefined
  #processes: ProcessName[]
  /** Its program has answered. Until then its processes may be starting others, even while they are killed. */
  #isUp: boolean
  readonly #killGroup: () => boolean

  constructor(kind: SandboxKind, id: string, { processes, isReady, counted, agent }: Remembered, child?: ChildProcess) {
    super(id, agent ?? socketIn(join(kind.root, id)), kind)
    this.dir = join(kind.root, id)
    this.#kind = kind
    this.#processes = processes
    this.#isUp = isReady
    this.#counted = counted
    this.#killGroup = groupKiller(
      () => kind.limits.members(id),
      () => this.#processes,
    )
    if (counted) kind.usage.count(this, counted)
    child?.once('exit', (code, signal) => this.resolveExit(this.whyEnded({ reason: `the sandbox ended with ${String(signal ?? code)}` })))
  }

  override unwatch(): void {
    super.unwatch()
    this.#kind.addresses.forget(this)
    this.#kind.usage.forget(this)
    this.#kind.kills?.forget(this)
  }

  /** The kernel kills the largest program of a group that has no memory left. The other programs then end without a reason. */
  protected whyEnded(exit: Exit): Exit {
    const isOfMemory = exit.cause === undefined && this.#kind.limits.killedForMemory(this.id) > 0
    return isOfMemory ? { reason: `${exit.reason}; the kernel has killed programs of it, which had used up its memory`, limit: 'memory' } : exit
  }

  /** Begins to watch a prepared sandbox. Resolves when its agent has loaded its code; ends the sandbox when that takes too long. */
  loaded(signal: AbortSignal): Promise<this> {
    this.answers().catch(() => {}) // `up` and `exited` tell
    return this.started(async () => {
      const loaded = call(this.agent, session.sessionActivity, {}, { signal: AbortSignal.any([signal, AbortSignal.timeout(START_MS)]) })
      await Promise.race([loaded, this.exited.then(({ reason }) => Promise.reject(new Error(reason)))])
    }, signal)
  }

  /** Tells the agent to start its browser. {@link up} waits for that, and fails if the agent did not hear it. */
  begin(): void {
    const told = call(this.agent, session.beginSession, {}, { signal: AbortSignal.timeout(START_MS) })
    told.catch((error: Error) => this.resolveExit({ reason: `its agent could not be told to start the browser: ${error.message}` }))
  }

  /** Resolves when its program answers; ends the sandbox when it does not. */
  up(signal: AbortSignal): Promise<this> {
    this.#kind.kills?.follow(this)
    return this.started(async () => {
      await within('an instance', START_MS, this.answers(), signal)
      await within('its network', START_MS, this.#kind.addresses.settled(this), signal)
      await this.remember(true)
      this.#isUp = true
    }, signal)
  }

  override adopted(): Promise<this> {
    this.#kind.kills?.follow(this)
    return super.adopted()
  }

  /** A sleeping session needs its X server to start Chromium again. */
  protected override onCrash(): void {
    this.#kind.standby?.wake(this.id)
  }

  protected said(): string {
    return readTail(join(this.dir, 'agent.log'))
  }

  /** Records the running sandbox, so that another control plane can adopt it. */
  async remember(isReady: boolean, isPrepared = false): Promise<void> {
    this.#processes = this.live()
    await remember(this.dir, { processes: this.#processes.slice(0, 2), isReady, isPrepared, counted: this.#counted, agent: this.agent })
  }

  /**
   * Ends its processes at once, because it exceeded a limit. With the limit `disk` its files are removed as well: its owner may wait for a database that waits
   * for room. The owner removes the rest.
   */
  async stopFor(exit: Exit): Promise<void> {
    this.log.error({ reason: exit.reason }, 'a sandbox is ended')
    this.resolveExit(exit)
    this.#kind.limits.freezer?.thaw(this.id)
    await killAll(this.live())
    await this.#keeperGone()
    if (exit.limit === 'disk') await emptyDisk(this.dir, this.#kind.trash)
  }

  /** Signals its processes to end. It yields the CPU to callers from then on: the rest of its end is not urgent. */
  kill(): void {
    this.#kind.limits.yield(this.id, true)
    this.#kind.limits.freezer?.thaw(this.id)
    if (!this.#killGroup()) for (const name of this.live()) signalProcess(name, 'SIGKILL')
  }

  // SIGKILL at once: everything that must outlive the session was saved before.
  protected async end(): Promise<void> {
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
    this.watching.abort(new Error('the instance was ended'))
    await this.#keeperGone()
    await this.#kind.limits.freezer?.remove(this.id)
    await this.#kind.limits.remove(this.id)
    await this.#kind.trash.discard(this.dir)
  }

  /** Whether its end has begun. */
  isEnded(): boolean {
    return this.ending.hasBegun
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
