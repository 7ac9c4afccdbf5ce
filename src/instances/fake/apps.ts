// Fake sandboxes of apps: the runner's protocol, spoken in this process. Variables and action names say what an app does.
// A build: FAKE_LOGS (JSON array) is what it prints, FAKE_APPS (JSON, AppsFound) what it finds, FAKE_FAIL why it fails, FAKE_HANG=1 makes it
// hang, FAKE_WAIT makes it wait so many milliseconds after it has printed, FAKE_REFUSE is why it refuses its archive.
// A run, by the action's name: echo (returns its payload), slow (payload: milliseconds), logs (payload: how many lines), fail (payload: the
// message), hang, crash (the runner ends). FAKE_UNLOADED is why its app does not load.
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { basename, join } from 'node:path'
import { Notifier } from '../../base/notifier.ts'
import type { DataPaths } from '../../base/paths.ts'
import { sleep } from '../../base/wait.ts'
import { callOf, type AppsFound, type Run, type RunnerEvent } from '../../runner/contract.ts'
import type { AppCode, AppSandboxes, AppSandboxSpec, AppSandbox, Exit } from '../driver.ts'
import { watched } from './watchers.ts'

/** Sandboxes of this process by data directory. They survive a control plane, as real ones do. */
const running = new Map<string, Map<string, Started>>()

/** The services that have started sandboxes. */
const startedBy = new Map<string, string>()

const USUAL: AppsFound = [{ name: 'app', actions: ['echo', 'slow', 'logs', 'fail', 'hang', 'crash'].map((name) => ({ name })) }]
/** Time between the last line and a crash. Real crashes mostly leave time for the lines to be sent. */
const LAST_WORDS_MS = 20
/** The interval of a real runner. */
const HEARTBEAT_MS = 5_000

type Said = RunnerEvent extends infer E ? (E extends RunnerEvent ? Omit<E, 'seq' | 'at'> : never) : never

export function fakeApps(paths: DataPaths, replica = ''): AppSandboxes {
  const mine = running.get(paths.root) ?? new Map<string, Started>()
  running.set(paths.root, mine)
  return {
    async start(spec, signal) {
      signal.throwIfAborted()
      if (spec.code) await fetched(spec.code, paths, signal)
      // As with real drivers: what a failed start removes is known by its id.
      const before = mine.get(spec.id)
      if (before) {
        await before[Symbol.asyncDispose]()
        throw new Error(`there is a sandbox ${spec.id} already`)
      }
      startedBy.set(spec.id, replica)
      const instance = await startFake(spec, paths, () => {
        mine.delete(spec.id)
        startedBy.delete(spec.id)
      })
      mine.set(spec.id, instance)
      return watched(instance, replica)
    },
    found: async () => [...new Set([...mine.keys(), ...readdirSync(paths.appSandboxes)])].map((id) => ({ id, replica: startedBy.get(id) })),
    async adopt(id) {
      if (!mine.has(id)) rmSync(paths.appSandbox(id), { recursive: true, force: true })
      const instance = mine.get(id)
      return instance && watched(instance, replica)
    },
    async [Symbol.asyncDispose]() {},
    forget: (key) => rm(copyOf(key, paths), { recursive: true, force: true }),
  }
}

/** The copy of code: a folder with the object in it. */
const copyOf = (key: string, paths: DataPaths): string => join(paths.apps, basename(key))

async function fetched(code: AppCode, paths: DataPaths, signal: AbortSignal): Promise<void> {
  const copy = copyOf(code.key, paths)
  if (existsSync(copy)) return
  const content = await buffer(await code.open(signal))
  mkdirSync(copy, { recursive: true })
  await writeFile(join(copy, 'packed'), content)
}

type Started = Omit<AppSandbox, 'unwatch'>

async function startFake(spec: AppSandboxSpec, paths: DataPaths, onEnd: () => void): Promise<Started> {
  const dir = paths.appSandbox(spec.id)
  mkdirSync(dir, { recursive: true })
  const exited = Promise.withResolvers<Exit>()
  const stop = new AbortController()
  const runner = new FakeRunner(spec, stop.signal, () => void end('crashed'))
  const server = createServer((request, response) => void runner.answer(request, response).catch(() => response.destroy()))
  const socketPath = join(dir, 'agent.sock')
  server.listen(socketPath)
  await once(server, 'listening')
  let key: string | undefined
  let ended: Promise<void> | undefined
  const end = (reason: string) =>
    (ended ??= (async () => {
      stop.abort(new Error(reason))
      server.close()
      server.closeAllConnections()
      await rm(dir, { recursive: true, force: true })
      if (key !== undefined) mkdirSync(copyOf(key, paths), { recursive: true })
      onEnd()
      exited.resolve({ reason })
    })())
  if (spec.runner.kind === 'build' && spec.runner.source?.type === 'git') void runner.build().catch(() => {}) // it was ended
  return { id: spec.id, runner: { socketPath }, exited: exited.promise, stored: (stored) => void (key = stored), [Symbol.asyncDispose]: () => end('was ended') }
}

class FakeRunner {
  readonly #spec: AppSandboxSpec
  readonly #signal: AbortSignal
  readonly #crash: () => void
  readonly #notifier = new Notifier()
  #events: RunnerEvent[] = []
  #seq = 0
  #isDone = false
  #hasRun = false

  constructor(spec: AppSandboxSpec, signal: AbortSignal, crash: () => void) {
    this.#spec = spec
    this.#signal = signal
    this.#crash = crash
  }

  get #unloaded(): string | undefined {
    return this.#spec.runner.env.FAKE_UNLOADED
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://runner')
    switch (callOf(request.method, url.pathname)) {
      case 'watch':
        response.writeHead(200).write('{"event":"ready"}\n')
        while (!response.destroyed) {
          await sleep(HEARTBEAT_MS, this.#signal)
          response.write('{"event":"heartbeat"}\n')
        }
        return
      case 'sendArchive':
        for await (const _ of request);
        if (this.#spec.runner.env.FAKE_REFUSE !== undefined)
          return void response.writeHead(400).end(JSON.stringify({ message: this.#spec.runner.env.FAKE_REFUSE }))
        response.writeHead(204).end()
        return this.build().catch(() => {}) // it was ended
      case 'packedCode':
        return void response.end(`code of ${this.#spec.id}`)
      case 'ready':
        return void response.end(JSON.stringify(this.#unloaded === undefined ? { ok: true } : { ok: false, reason: this.#unloaded }))
      case 'run':
        if (this.#hasRun) return void response.writeHead(409).end('{"message":"it has had its run"}')
        this.#hasRun = true
        response.writeHead(202).end()
        return this.#run(JSON.parse(await text(request)) as Run)
      case 'acknowledge': {
        const { seq } = JSON.parse(await text(request)) as { seq: number }
        this.#events = this.#events.filter((event) => event.seq > seq)
        return void response.writeHead(204).end()
      }
      case 'events':
        return this.#send(Number(url.searchParams.get('after') ?? 0), response)
      default:
        response.writeHead(404).end()
    }
  }

  async build(): Promise<void> {
    const { env } = this.#spec.runner
    for (const line of JSON.parse(env.FAKE_LOGS ?? '["installing"]') as string[]) this.#say({ type: 'log', line })
    if (env.FAKE_HANG === '1') return
    if (env.FAKE_WAIT !== undefined) await sleep(Number(env.FAKE_WAIT), this.#signal)
    if (env.FAKE_FAIL !== undefined) this.#say({ type: 'failed', reason: env.FAKE_FAIL })
    else this.#say({ type: 'loaded', apps: env.FAKE_APPS === undefined ? USUAL : (JSON.parse(env.FAKE_APPS) as AppsFound) })
  }

  async #run({ action, payload }: Run): Promise<void> {
    if (this.#unloaded !== undefined) return this.#say({ type: 'failed', reason: this.#unloaded })
    const value = payload === null ? undefined : (JSON.parse(payload) as unknown)
    const done = (output: string | null) => this.#say({ type: 'result', ok: true, output, reason: null })
    switch (action) {
      case 'hang':
        return
      case 'crash':
        this.#say({ type: 'log', line: 'about to crash' })
        await sleep(LAST_WORDS_MS, this.#signal)
        return this.#crash()
      case 'fail': {
        const reason = String(value)
        return this.#say({ type: 'result', ok: false, output: JSON.stringify({ error: reason }), reason })
      }
      case 'slow':
        await sleep(Number(value), this.#signal)
        return done('"done"')
      case 'logs':
        for (let line = 1; line <= Number(value); line++) this.#say({ type: 'log', line: `line ${line}` })
        return done(null)
      default:
        return done(payload)
    }
  }

  #say(event: Said): void {
    this.#events.push({ ...event, seq: ++this.#seq, at: new Date().toISOString() })
    this.#isDone ||= event.type !== 'log'
    this.#notifier.notify()
  }

  async #send(after: number, response: ServerResponse): Promise<void> {
    response.writeHead(200, { 'content-type': 'application/x-ndjson' }).flushHeaders()
    for (let at = after; !response.destroyed;) {
      for (const event of this.#events.filter(({ seq }) => seq > at)) response.write(`${JSON.stringify(event)}\n`)
      at = Math.max(at, this.#seq)
      if (this.#isDone) return void response.end()
      await this.#notifier.next(this.#signal)
    }
  }
}

async function text(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}
