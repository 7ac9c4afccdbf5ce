// The agent's side of a worker: a child process in its own process group, its outputs, and one run at a time.
import { spawn, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import type { Duplex, Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { readLines } from '../../base/lines.ts'
import { endProcessGroup, killProcessGroup } from '../../base/processes.ts'
import { WaitTimeout, within } from '../../base/wait.ts'
import { programPath } from '../spec.ts'
import { Output } from './printed.ts'
import { MAX_RESULT_BYTES, type RunOrder, type WorkerMessage } from './protocol.ts'

/** Node with Playwright starts in 0.3 s. While ten browsers start, it takes seconds. */
const START_MS = 60_000

/** A worker reports a browser that does not answer. If no report comes within this extra time, the worker itself hangs. */
const TELL_MS = 500

/** The wait for the end of the outputs. They are pipes, so everything written before the end of a run is already in them. */
const OUTPUT_MS = 2_000

/** The check for side effects takes 0.7 s at most, unless code that still runs keeps the process busy. */
const SETTLE_MS = 2_000

/**
 * Memory limits of the code, in MB. Code that exceeds them ends its own process, not others of the session. The heap holds objects and
 * text. `DATA` limits all writable memory of the process and of its children, including Buffers, which the heap limit does not count.
 */
const MAX_HEAP_MB = 1024
const MAX_DATA_MB = 2048

/** What Node prints when it runs out of memory. */
const OUT_OF_MEMORY = /(JavaScript heap|process) out of memory/

const WORKER = fileURLToPath(new URL('worker.ts', import.meta.url))

/** The variables of the agent's environment that a run gets. */
const SEEN = ['HOME', 'USER', 'LANG', 'PATH', 'TMPDIR', 'TZ', 'NODE_COMPILE_CACHE']

export interface Executed {
  success: boolean
  result?: unknown
  error?: string
  stdout: string
  stderr: string
}

/** The code did not begin to run. `late` means that the browser, or a page in it, did not answer in time. */
export class NotBegun extends Error {
  readonly late: boolean
  constructor(message: string, late = false) {
    super(message)
    this.late = late
  }
}

export class WorkerProcess {
  readonly #child: ChildProcess
  readonly #channel: Duplex
  readonly #stdout: Output
  readonly #stderr: Output
  readonly #exited: Promise<string>
  #hear: (message: WorkerMessage) => void = () => {}
  #settled: Promise<boolean> = Promise.resolve(true)

  constructor() {
    const env: Record<string, string | undefined> = Object.fromEntries(
      SEEN.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
    )
    env.PATH = programPath(process.env.PATH)
    const limited = [`--data=${MAX_DATA_MB * 1024 * 1024}`, '--', process.execPath]
    this.#child = spawn('/usr/bin/prlimit', [...limited, '--disable-warning=ExperimentalWarning', `--max-old-space-size=${MAX_HEAP_MB}`, WORKER], {
      env,
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      // A process group of its own, so that a kill also ends the processes that the code has started.
      detached: true,
    })
    this.#channel = this.#child.stdio[3] as Duplex
    this.#stdout = new Output(this.#child.stdout as Readable)
    this.#stderr = new Output(this.#child.stderr as Readable)
    this.#exited = new Promise((resolve) => {
      this.#child.on('exit', (code, signal) => {
        // End the processes that the code has started, also when the worker exits by itself.
        killProcessGroup(this.#child)
        resolve(signal ? `by ${signal}` : `with exit code ${code}`)
      })
      this.#child.on('error', (error) => resolve(`before it began (${error.message})`))
    })
    this.#channel.on('error', () => {}) // the exit of the process is handled
    // The caller's code can forge these messages. So check their form, and trust nothing else.
    readLines(this.#channel, MAX_RESULT_BYTES + 64 * 1024, (line) => {
      const message = line === undefined ? undefined : parse(line)
      if (message) this.#hear(message)
      else killProcessGroup(this.#child)
    })
  }

  /** Resolves after the check of the last run: whether the worker can take another. */
  ready(): Promise<boolean> {
    return this.#settled
  }

  /**
   * Runs `code`. Resolves also if the code fails, exits or times out. Aborting `signal` kills the process. So does the end of `timeoutMs`, which
   * covers the connection to the browser and the code, and begins when the process is up.
   * @throws NotBegun, or the signal's reason
   */
  async run(code: string, browser: string, timeoutMs: number, signal: AbortSignal): Promise<Executed> {
    const order: RunOrder = { code, browser, connectMs: timeoutMs, mark: `\n${randomUUID()}\n` }
    const taken = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    const ended = Promise.withResolvers<Extract<WorkerMessage, { is: 'ended' }>>()
    const settled = Promise.withResolvers<boolean>()
    this.#settled = settled.promise
    // It may exit before it has reported whether it can take another run.
    void this.#exited.then(() => settled.resolve(false))
    this.#hear = (message) => {
      if (message.is === 'taken') taken.resolve()
      else if (message.is === 'begun') begun.resolve()
      else if (message.is === 'ended') ended.resolve(message)
      else if (message.is === 'idle') settled.resolve(message.fit)
      else begun.reject(new NotBegun(message.why, message.late))
    }
    for (const { promise } of [begun, ended]) promise.catch(() => {})
    this.#stdout.begin(order.mark)
    this.#stderr.begin(order.mark)
    this.#channel.write(`${JSON.stringify(order)}\n`)
    let is: Extract<WorkerMessage, { is: 'ended' }> | string
    try {
      const gone = this.#exited.then((how) => `the process that ran the code ended ${how}`)
      let early = await within('the worker', START_MS, Promise.race([taken.promise, gone]), signal)
      const end = performance.now() + timeoutMs
      early ??= await within('the browser', timeoutMs + TELL_MS, Promise.race([begun.promise, gone]), signal)
      if (early !== undefined) {
        settled.resolve(false)
        throw new NotBegun(`${early}: ${this.#stderr.take().slice(-1000)}`)
      }
      is = await within('the code', Math.max(0, end - performance.now()), Promise.race([ended.promise, gone]), signal)
    } catch (error) {
      // The worker is alive, and reports itself whether it can take another run.
      if (error instanceof NotBegun) {
        void within('a look at what is left', SETTLE_MS, settled.promise).catch(() => settled.resolve(false))
        throw error
      }
      settled.resolve(false)
      await this.kill()
      if (!(error instanceof WaitTimeout)) throw error
      if (error.what !== 'the code') throw new NotBegun(error.message, error.what === 'the browser')
      is = `the code did not finish within ${timeoutMs / 1000} s and was stopped`
    }
    if (typeof is === 'string') {
      settled.resolve(false)
      await this.#outputs(this.#stdout.ended, this.#stderr.ended)
      const [stdout, stderr] = [this.#stdout.take(), this.#stderr.take()]
      const error = OUT_OF_MEMORY.test(stderr) ? `the code used more than ${MAX_HEAP_MB} MB of memory, and its process was ended` : is
      return { success: false, error, stdout, stderr }
    }
    void within('a look at what is left', SETTLE_MS, settled.promise).catch(() => settled.resolve(false))
    // Without a mark, the code has closed its outputs. Then the worker is not fit for another run.
    if (!(await this.#outputs(this.#stdout.marked, this.#stderr.marked))) this.#settled = Promise.resolve(false)
    const { success, result, error } = is
    return { success, ...(result !== undefined && { result }), ...(error !== undefined && { error }), stdout: this.#stdout.take(), stderr: this.#stderr.take() }
  }

  /** Kills the process and everything it has started. Resolves when the process has ended. */
  async kill(): Promise<void> {
    await endProcessGroup('a killed worker', this.#child, this.#exited)
  }

  // A process that the code has started may hold the outputs open, so the wait is limited.
  #outputs(...both: Promise<void>[]): Promise<boolean> {
    return within('the outputs', OUTPUT_MS, Promise.all(both)).then(
      () => true,
      () => false,
    )
  }
}

function parse(line: string): WorkerMessage | undefined {
  try {
    const message = JSON.parse(line) as Record<string, unknown> | null
    switch (message?.is) {
      case 'taken':
        return { is: 'taken' }
      case 'begun':
        return { is: 'begun' }
      case 'unconnected':
        return { is: 'unconnected', why: String(message.why), late: message.late === true }
      case 'ended':
        return { is: 'ended', success: message.success === true, result: message.result, ...(typeof message.error === 'string' && { error: message.error }) }
      case 'idle':
        return { is: 'idle', fit: message.fit === true }
    }
  } catch {}
  return undefined
}
