// Fake sandboxes of apps: the real calls of a runner, in this process. Variables and action names control what an app does. A build: FAKE_LOGS (JSON array) is
// what it prints, FAKE_APPS (JSON, AppsFound) what it finds, FAKE_FAIL why it fails, FAKE_HANG=1 makes it hang, FAKE_WAIT makes it wait so many milliseconds
// after it has printed, FAKE_REFUSE is why it refuses its archive. A run, by the action's name: echo (returns its payload), slow (payload: milliseconds), logs
// (payload: how many lines), fail (payload: the message), hang, crash (the runner ends). FAKE_UNLOADED is why its app does not load.
import { existsSync, mkdirSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { once } from 'node:events'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { DataPaths } from '../../base/paths.ts'
import { sleep } from '../../base/wait.ts'
import { openWatchdog } from '../../base/watchdog.ts'
import type { AppsFound, Run } from '../../runner/contract.ts'
import { Events } from '../../runner/events.ts'
import { Refused, serve, type Work } from '../../runner/serve.ts'
import type { AppCode, AppSandboxes, AppSandboxSpec, AppSandbox, Exit } from '../driver.ts'
import { registry } from './watchers.ts'

const sandboxes = registry<Started>()

const USUAL: AppsFound = [{ name: 'app', actions: ['echo', 'slow', 'logs', 'fail', 'hang', 'crash'].map((name) => ({ name })) }]
/** Time between the last line and a crash. Real crashes mostly leave time for the lines to be sent. */
const LAST_WORDS_MS = 20

export function fakeApps(paths: DataPaths, replica = ''): AppSandboxes {
  const { get, start, found, adopt } = sandboxes(paths.root, paths.appSandboxes, replica)
  return {
    async start(spec, signal) {
      signal.throwIfAborted()
      if (spec.code) await fetched(spec.code, paths, signal)
      // As in real drivers: the id identifies what a failed start removes.
      const before = get(spec.id)
      if (before) {
        await before[Symbol.asyncDispose]()
        throw new Error(`there is a sandbox ${spec.id} already`)
      }
      return start(spec.id, (onEnd) => startFake(spec, paths, onEnd))
    },
    found,
    adopt,
    async [Symbol.asyncDispose]() {},
    forget: (key) => rm(copyOf(key, paths), { recursive: true, force: true }),
  }
}

/** The copy of the code: a folder with the object in it. */
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
  const events = new Events()
  const socketPath = join(dir, 'agent.sock')
  const work = fakeWork(spec, events, stop.signal, () => void end('crashed'))
  const server = await serve(
    work,
    events,
    { path: socketPath },
    openWatchdog(Infinity, () => {}),
    undefined,
  )
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
  return { id: spec.id, runner: { socketPath }, exited: exited.promise, stored: (stored) => void (key = stored), [Symbol.asyncDispose]: () => end('was ended') }
}

function fakeWork({ id, runner: { kind, source, env } }: AppSandboxSpec, events: Events, signal: AbortSignal, crash: () => void): Work {
  const { FAKE_UNLOADED: unloaded, FAKE_REFUSE: refusal } = env
  let hasRun = false
  const underway = (work: Promise<void>): void => void work.catch(() => {}) // it was ended

  async function build(): Promise<void> {
    for (const line of JSON.parse(env.FAKE_LOGS ?? '["installing"]') as string[]) events.log(line)
    if (env.FAKE_HANG === '1') return
    if (env.FAKE_WAIT !== undefined) await sleep(Number(env.FAKE_WAIT), signal)
    if (env.FAKE_FAIL !== undefined) events.end({ type: 'failed', reason: env.FAKE_FAIL })
    else events.end({ type: 'loaded', apps: env.FAKE_APPS === undefined ? USUAL : (JSON.parse(env.FAKE_APPS) as AppsFound) })
  }

  async function act({ action, payload }: Run): Promise<void> {
    if (unloaded !== undefined) return events.end({ type: 'failed', reason: unloaded })
    const value = payload === null ? undefined : (JSON.parse(payload) as unknown)
    const done = (output: string | null) => events.end({ type: 'result', ok: true, output, reason: null })
    switch (action) {
      case 'hang':
        return
      case 'crash':
        events.log('about to crash')
        await sleep(LAST_WORDS_MS, signal)
        return crash()
      case 'fail': {
        const reason = String(value)
        return events.end({ type: 'result', ok: false, output: JSON.stringify({ error: reason }), reason })
      }
      case 'slow':
        await sleep(Number(value), signal)
        return done('"done"')
      case 'logs':
        for (let line = 1; line <= Number(value); line++) events.log(`line ${line}`)
        return done(null)
      default:
        return done(payload)
    }
  }

  if (kind === 'build' && source?.type === 'git') underway(build())
  return {
    ready: Promise.resolve(unloaded === undefined ? { ok: true } : { ok: false, reason: unloaded }),
    async receive(body) {
      for await (const _ of body);
      if (refusal !== undefined) throw new Refused('bad_request', refusal)
      underway(build())
    },
    async packed() {
      const code = Buffer.from(`code of ${id}`)
      return { bytes: code.length, content: Readable.from([code]) }
    },
    async run(run) {
      if (hasRun) throw new Refused('conflict', 'it has had its run')
      hasRun = true
      underway(act(run))
    },
  }
}
