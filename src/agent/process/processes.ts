// The programs that callers run in a session: started, waited for, watched, ended.
import { randomUUID } from 'node:crypto'
import type { Log } from '../../base/log.ts'
import { resultWithin } from '../../base/wait.ts'
import { Fault, fault } from '../../http/fault.ts'
import { DISPLAY, programPath } from '../spec.ts'
import { Capture, type Captured } from './capture.ts'
import { commandOf, type Command, type Defaults } from './command.ts'
import type { Exec, ExecReply, OutputEvent, Spawn, Status } from './contract.ts'
import { Input, Waiting } from './input.ts'
import { startOnPipes, type Launched, type OnOutput } from './launch.ts'
import { OutputMemory, type Output } from './output-log.ts'
import { Pipes } from './pipes.ts'
import { marked, Marks, Tree } from './tree.ts'

/** Programs that run at the same time. The instance's own limit bounds their child processes. */
export const MAX_RUNNING = 128
/** Most ended programs that callers can still query; their output is stored as long as there is memory for it (output-log.ts). */
export const MAX_ENDED = 256

/** The folder and variables for programs: the agent's own, without those for Node and for the agent. */
export function openProcesses(pipeDir: string, log: Log): Processes {
  const { NODE_COMPILE_CACHE: _cache, COB_AGENT: _spec, ...env } = process.env
  return new Processes({ env: { ...(env as Record<string, string>), PATH: programPath(env.PATH), DISPLAY }, cwd: process.cwd() }, pipeDir, log)
}

/** How long a program gets between SIGTERM and SIGKILL. */
const GRACE_MS = 1_000

/** The shortest time over which CPU use is measured; the kernel counts in steps of 10 ms. */
const MIN_CPU_WINDOW_MS = 100

/** Timers cannot be longer, in milliseconds: 24 days. No session lives that long. */
const MAX_TIMER_MS = 2 ** 31 - 1

const DEFAULT_SIZE = { rows: 24, cols: 80 }

export type Signal = 'SIGTERM' | 'SIGKILL' | 'SIGINT' | 'SIGHUP'

/** A program that was started by {@link Processes.spawn}. */
interface Spawned {
  launched: Launched
  tree: Tree
  input: Input
  output: Output
  exitCode: number | undefined
  /** The last measurement. */
  cpu: { at: number; seconds: number; percent: number }
}

export class Processes {
  readonly #defaults: Defaults
  readonly #log: Log
  readonly #pipes: Pipes
  readonly #marks = new Marks()
  readonly #memory = new OutputMemory()
  readonly #waiting = new Waiting()
  readonly #captured: Captured = { bytes: 0 }
  /** In the order of their starts. */
  readonly #spawned = new Map<string, Spawned>()
  #running = 0

  /** `pipeDir` is a folder for named pipes, in memory. */
  constructor(defaults: Defaults, pipeDir: string, log: Log) {
    this.#defaults = defaults
    this.#pipes = new Pipes(pipeDir)
    this.#log = log
  }

  /**
   * Runs a program until it exits. Child processes in the background continue. When it takes longer than `timeout_sec`, or its caller leaves, the
   * program and all its child processes are ended. @throws 504, which must not be retried, with the end of its output
   */
  async exec(asked: Exec, signal: AbortSignal): Promise<ExecReply> {
    using capture = new Capture(this.#captured)
    const began = performance.now()
    const { launched, tree } = await this.#start(asked, signal, (command) =>
      startOnPipes(command, (stream, data) => capture.add(stream, data), this.#pipes, false),
    )
    const timeoutMs = limitOf(asked)
    const ended = await resultWithin(timeoutMs, launched.exited, signal)
    if (typeof ended === 'number') return { exit_code: ended, ...capture.reply(), duration_ms: Math.round(performance.now() - began) }
    await this.#end(tree)
    signal.throwIfAborted()
    const { code, message, headers } = fault.deadline(timeoutMs!)
    throw new Fault(code, `${message}; "${asked.command}" and all that it started were ended. ${capture.summary()}`, { headers, details: capture.tails() })
  }

  async spawn(asked: Spawn, signal: AbortSignal): Promise<{ process_id: string; pid: number; started_at: string }> {
    const output = this.#memory.open()
    const onOutput: OnOutput = (stream, data) => output.add(stream, data)
    try {
      // Load this before the start, so that nothing is awaited after it.
      const terminal = asked.allocate_tty ? await import('./pty.ts') : undefined
      const size = { rows: asked.rows ?? DEFAULT_SIZE.rows, cols: asked.cols ?? DEFAULT_SIZE.cols }
      const { launched, tree } = await this.#start(asked, signal, (command) =>
        terminal ? terminal.startOnTerminal(command, onOutput, size) : startOnPipes(command, onOutput, this.#pipes, true),
      )
      const id = randomUUID()
      const input = new Input(launched.sink!, this.#waiting)
      const spawned: Spawned = { launched, tree, input, output, exitCode: undefined, cpu: { at: performance.now(), seconds: 0, percent: 0 } }
      this.#spawned.set(id, spawned)
      void this.#follow(spawned, limitOf(asked))
      return { process_id: id, pid: launched.pid, started_at: new Date().toISOString() }
    } catch (error) {
      this.#memory.close(output)
      throw error
    }
  }

  /** Whether a program runs that {@link spawn} has started. */
  get isRunning(): boolean {
    return [...this.#spawned.values()].some(({ exitCode }) => exitCode === undefined)
  }

  /** CPU use and memory of the program and all its child processes, while it runs. */
  status(id: string): Status {
    const spawned = this.#find(id)
    if (spawned.exitCode !== undefined) return { state: 'exited', exit_code: spawned.exitCode, cpu_pct: 0, mem_bytes: 0 }
    const { cpuSeconds, memoryBytes } = spawned.tree.usage()
    const now = performance.now()
    const { at, seconds } = spawned.cpu
    if (now - at >= MIN_CPU_WINDOW_MS)
      // The sum falls when a detached child process ends, because its count goes with it.
      spawned.cpu = { at: now, seconds: cpuSeconds, percent: Math.max(0, Math.round(((cpuSeconds - seconds) / (now - at)) * 1_000_000) / 10) }
    return { state: 'running', exit_code: null, cpu_pct: spawned.cpu.percent, mem_bytes: memoryBytes }
  }

  /** @throws 409 when the program has ended, closed its input, or does not read it */
  async write(id: string, data: Buffer, signal: AbortSignal): Promise<void> {
    await this.#find(id).input.write(data, signal)
  }

  /** The kept output, then new output, then the exit. */
  output(id: string, signal: AbortSignal): AsyncIterable<OutputEvent> {
    return this.#find(id).output.read(signal)
  }

  /** Signals a program and all its child processes. An ended program is not an error: the caller cannot know that it has just ended. */
  async kill(id: string, signal: Signal): Promise<void> {
    const { tree } = this.#find(id)
    // Repeat until none are left: a killed process may just have started another.
    if (signal === 'SIGKILL') await this.#end(tree, 0)
    else tree.signal(signal)
  }

  /** @throws 400 for a program without a terminal, 409 for one that has ended */
  resize(id: string, size: { rows: number; cols: number }): void {
    const { launched, exitCode } = this.#find(id)
    if (!launched.resize) throw fault.field('process_id', 'has no terminal: it was started without allocate_tty')
    if (exitCode !== undefined) throw fault.conflict('the program has ended')
    launched.resize(size)
  }

  #find(id: string): Spawned {
    const found = this.#spawned.get(id)
    if (!found) throw fault.notFound('process', id)
    return found
  }

  /** Starts a program, counts it until it has ended, and collects its output. */
  async #start(
    asked: Exec | Spawn,
    signal: AbortSignal,
    launch: (command: Command) => Launched | Promise<Launched>,
  ): Promise<{ launched: Launched; tree: Tree }> {
    signal.throwIfAborted()
    const command = commandOf(asked, this.#defaults)
    if (this.#running >= MAX_RUNNING) throw fault.tooMany(`${this.#running} programs run in this session, which is the limit`, 1)
    this.#running++
    const mark = this.#marks.next()
    let launched: Launched
    try {
      launched = await launch({ ...command, line: marked(mark, command.line) })
    } catch (error) {
      this.#running--
      throw error
    }
    void launched.exited.finally(() => this.#running--)
    const tree = new Tree(launched.pid, mark)
    if (signal.aborted) {
      await this.#end(tree)
      throw signal.reason
    }
    return { launched, tree }
  }

  async #follow(spawned: Spawned, timeoutMs: number | undefined): Promise<void> {
    const { launched, tree, input, output } = spawned
    if ((await resultWithin(timeoutMs, launched.exited)) === undefined) await this.#end(tree)
    spawned.exitCode = await launched.exited
    input.close('the program has ended')
    output.end(spawned.exitCode)
    this.#forgetOldest()
  }

  async #end(tree: Tree, graceMs = GRACE_MS): Promise<void> {
    await tree.end(graceMs).catch((err: unknown) => this.#log.error({ err }, 'a program could not be ended'))
  }

  #forgetOldest(): void {
    const ended = [...this.#spawned].filter(([, { exitCode }]) => exitCode !== undefined)
    for (const [id, { output }] of ended.slice(0, Math.max(0, ended.length - MAX_ENDED))) {
      this.#spawned.delete(id)
      this.#memory.close(output)
    }
  }
}

const limitOf = ({ timeout_sec: seconds }: Exec): number | undefined => (seconds && seconds * 1000 <= MAX_TIMER_MS ? seconds * 1000 : undefined)
