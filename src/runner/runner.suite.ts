// Runners for tests: real processes as in a sandbox, but without the sandbox. All their files are below one temporary folder.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { makeZip, type ZipEntry } from '../../test/support/zips.ts'
import { PACKAGE_DIR } from '../base/paths.ts'
import { endProcessGroup } from '../base/processes.ts'
import { until, within } from '../base/wait.ts'
import { call, CallFailed, openLines, openStream } from '../http/client.ts'
import type { Endpoint } from '../http/endpoint.ts'
import { makeAgentKeys } from '../instances/agent-keys.ts'
import { environmentFile, runnerScript } from './command.ts'
import { MAX_OUTPUT_BYTES, runner as calls, type Ready, type Run, type RunnerEvent, type RunnerSpec, type Source } from './contract.ts'

const EVENTS_MS = 60_000

/** The folder of a test file; disposing fails when files or processes remain. */
export interface Lab extends AsyncDisposable {
  dir: string
  /** With `keysAfter` the runner is reached over TLS, and gets its keys when that promise resolves. */
  start(spec: Partial<RunnerSpec> & { kind: RunnerSpec['kind'] }, app: string, keysAfter?: Promise<void>): Promise<TestRunner>
  /** Builds an app from these files; returns its folder, its output and the last event. */
  build(files: Record<string, string> | ZipEntry[] | Buffer, entrypoint: string, env?: Record<string, string>): Promise<Built>
  /** Builds the code of `source`. */
  fetch(source: Source, env?: Record<string, string>): Promise<Built>
  /** Runs an action once. */
  run(app: string, action: string, payload?: unknown, options?: { app?: string; env?: Record<string, string> }): Promise<Ended>
}

export interface Ended {
  logs: string[]
  last: RunnerEvent
}
export interface Built extends Ended {
  app: string
}

export interface TestRunner extends AsyncDisposable {
  endpoint: Endpoint
  /** Gives it a run with a timeout of a minute. */
  run(run: Omit<Run, 'timeoutSeconds'>): Promise<void>
  /** Resolves with the status of its answer. */
  archive(zip: Buffer): Promise<number>
  ready(): Promise<Ready>
  /** The packed code. @throws CallFailed */
  packed(): Promise<Buffer>
  /** @throws CallFailed */
  unpack(packed: Buffer): Promise<void>
  /** All events up to the last, acknowledged as they arrive unless disabled. */
  events(options?: { after?: number; acknowledge?: boolean; until?: number }): Promise<RunnerEvent[]>
}

export function openLab(): Lab {
  const dir = mkdtempSync(join(tmpdir(), 'cob-runner-'))
  // In a parent folder of every app, where Node searches for packages last.
  mkdirSync(join(dir, 'node_modules/@onkernel'), { recursive: true })
  symlinkSync(join(PACKAGE_DIR, 'node_modules/@onkernel/sdk'), join(dir, 'node_modules/@onkernel/sdk'))
  let count = 0
  const running = new Set<TestRunner>()
  const lab: Lab = {
    dir,
    async start(spec, app, keysAfter) {
      const runner = await startRunner(join(dir, `run-${++count}`), join(dir, 'cache'), app, spec, keysAfter)
      running.add(runner)
      return runner
    },
    async build(files, entrypoint, env) {
      const zip = Buffer.isBuffer(files) ? files : makeZip(Array.isArray(files) ? files : Object.entries(files).map(([name, content]) => ({ name, content })))
      return built(lab, join(dir, `app-${++count}`), { type: 'archive', entrypoint }, env, zip)
    },
    fetch: (source, env) => built(lab, join(dir, `app-${++count}`), source, env),
    async run(app, action, payload, options = {}) {
      await using runner = await lab.start({ kind: 'run', env: options.env }, app)
      const text = payload === undefined ? null : JSON.stringify(payload)
      await runner.run({ invocation: 'inv_1', app: options.app ?? 'app', action, payload: text })
      return ended(await runner.events())
    },
    async [Symbol.asyncDispose]() {
      for (const runner of running) await runner[Symbol.asyncDispose]()
      await until('the processes of runners to end', 5_000, () => processesOf(dir).length === 0, { everyMs: 20 })
      rmSync(dir, { recursive: true })
    },
  }
  return lab
}

async function built(lab: Lab, app: string, source: Source, env?: Record<string, string>, zip?: Buffer): Promise<Built> {
  mkdirSync(app)
  await using runner = await lab.start({ kind: 'build', source, env }, app)
  if (zip) await runner.archive(zip)
  return { app, ...ended(await runner.events()) }
}

export const ended = (events: RunnerEvent[]): Ended => ({ logs: logsOf(events), last: events.at(-1)! })
export const logsOf = (events: RunnerEvent[]): string[] => events.flatMap((event) => (event.type === 'log' ? [event.line] : []))

async function startRunner(
  dir: string,
  cache: string,
  app: string,
  given: Partial<RunnerSpec> & { kind: RunnerSpec['kind'] },
  keysAfter?: Promise<void>,
): Promise<TestRunner> {
  for (const folder of [dir, cache]) mkdirSync(folder, { recursive: true })
  const env = { KERNEL_API_KEY: 'sk_test', KERNEL_BASE_URL: 'http://127.0.0.1:9', ...given.env }
  const spec: RunnerSpec = { id: 'run_1', memoryMb: 512, logLevel: 'silent', ...given, env }
  const paths = { spec: join(dir, 'runner.json'), app, cache, packed: join(dir, 'code.tar.zst') }
  writeFileSync(paths.spec, JSON.stringify(spec))
  writeFileSync(join(dir, 'environment'), environmentFile(env))
  const keys = keysAfter && (await makeAgentKeys())
  const server = createServer()
  if (keys) server.listen(0, '127.0.0.1')
  else server.listen(join(dir, 'new.sock'))
  await once(server, 'listening')
  const socketPath = join(dir, 'agent.sock')
  if (!keys) renameSync(join(dir, 'new.sock'), socketPath)
  const endpoint: Endpoint = keys ? { host: '127.0.0.1', port: (server.address() as AddressInfo).port, ...keys.pinned } : { socketPath }
  const { fd } = (server as Server & { _handle: { fd: number } })._handle
  const script = runnerScript(given.kind, { node: process.execPath, own: [process.execPath], runner: import.meta.dirname }, paths)
  const child = spawn('/bin/sh', ['-c', script], {
    cwd: dir,
    detached: true,
    stdio: [fd, 'ignore', 'pipe', ...(keys ? (['pipe'] as const) : [])],
    env: { PATH: process.env.PATH, HOME: dir, COB_RUNNER_PATHS: JSON.stringify(paths) },
  })
  let said = ''
  child.stderr!.on('data', (chunk: Buffer) => (said += chunk.toString()))
  const exited = once(child, 'exit')
  server.close()
  if (keys) {
    const pipe = child.stdio[3] as Writable
    pipe.on('error', () => {}) // killed before
    void keysAfter.then(() => pipe.end(`${JSON.stringify(keys.server)}\n`))
  }
  const stop = new AbortController()
  return {
    endpoint,
    run: (run) => call(endpoint, calls.run, { body: { ...run, timeoutSeconds: 60 } }, { signal: stop.signal }),
    async archive(zip) {
      try {
        await call(endpoint, calls.sendArchive, { body: zip }, { signal: stop.signal })
        return calls.sendArchive.reply.status
      } catch (error) {
        if (error instanceof CallFailed && error.status !== undefined) return error.status
        throw error
      }
    },
    packed: async () => buffer(await openStream(endpoint, calls.packedCode, {}, stop.signal)),
    unpack: (packed) => call(endpoint, calls.unpackCode, { body: packed }, { signal: stop.signal }),
    ready: () => call(endpoint, calls.ready, {}, { signal: stop.signal }),
    async events({ after = 0, acknowledge = true, until: enough = Infinity } = {}) {
      const found: RunnerEvent[] = []
      const read = async () => {
        const options = { signal: stop.signal, maxLineBytes: 7 * MAX_OUTPUT_BYTES, maxValues: 1_000_000 }
        for await (const batch of await openLines(endpoint, calls.events, { query: { after } }, options)) {
          found.push(...batch)
          if (acknowledge) await call(endpoint, calls.acknowledge, { body: { seq: found.at(-1)!.seq } }, { signal: stop.signal })
          if (found.length >= enough) break
        }
        return found
      }
      return within('the events of a runner', EVENTS_MS, read()).catch((error: Error) => {
        throw new Error(`${error.message}; it said: ${said}; events: ${JSON.stringify(found.slice(-5))}`, { cause: error })
      })
    },
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the test is over'))
      await endProcessGroup('a runner', child, exited)
    },
  }
}

/** Processes whose command line, working folder or environment is in `dir`. */
export function processesOf(dir: string): number[] {
  const mentions = (pid: string) => {
    try {
      return ['cmdline', 'environ'].some((file) => readFileSync(`/proc/${pid}/${file}`, 'utf8').includes(dir))
    } catch {
      return false
    }
  }
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && name !== String(process.pid) && mentions(name))
    .map(Number)
}
