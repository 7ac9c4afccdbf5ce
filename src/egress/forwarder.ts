// The service's side of the forwarder. It starts the program when the first session needs it, and restarts it after its end. It tells the program which exit
// each session uses.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Log } from '../base/log.ts'
import { PACKAGE_DIR } from '../base/paths.ts'
import { within } from '../base/wait.ts'
import type { Exit, FromForwarder, ToForwarder } from './messages.ts'
import type { Routing } from './routing.ts'

/** Starting it and dialling the first link takes 0.1-0.3 s. */
const USE_MS = 10_000

/** The program applies a list at once, unless it is very busy with the bytes of sessions. */
const ALLOW_MS = 10_000

/** The program has nothing to finish: it ends at once when the pipe to it closes. */
const END_MS = 2_000

/** Wait before the program is restarted after it has ended by itself. */
const AGAIN_MS = 100

export interface Forwarder extends AsyncDisposable {
  /** Sends a session's traffic by this routing from now on; its earlier connections end. Resolves when its agent has a link. */
  use(exit: Exit, signal: AbortSignal): Promise<void>
  /** The exit that a session uses, if its agent has had a link for it. */
  used(id: string): Exit | undefined
  /**
   * Lets a session reach these hosts only; all when absent. Resolves when the list applies, with whether any traffic of the session goes through the forwarder.
   * Connections to hosts that may still be reached stay.
   */
  allow(id: string, hosts: Routing['allowedHosts'], signal: AbortSignal): Promise<boolean>
  /** Ends the session's connections and links; with `path`: only if they have this path. */
  forget(id: string, path?: string): void
  /** The program's process, if it runs. */
  pid(): number | undefined
}

export function makeForwarder({ allowHostLoopback, logLevel, log }: { allowHostLoopback: boolean; logLevel: string; log: Log }): Forwarder {
  /** What is sent again after a restart: the program may end at any time. */
  const exits = new Map<string, { exit: Exit; isLinked: boolean }>()
  /** Callers that wait for a link, by its path. */
  const waiting = new Map<string, () => void>()
  /** Callers that wait until a list applies, by the number of the call. */
  const allowing = new Map<number, () => void>()
  let calls = 0
  let child: ChildProcess | undefined
  let again: NodeJS.Timeout | undefined
  let isOver = false

  const tell = (message: ToForwarder): void => {
    // A program that has just ended receives nothing. Everything is sent to the next one.
    if (child?.connected) child.send(message, () => {})
  }
  function start(): void {
    if (child || isOver) return
    clearTimeout(again)
    const { PATH, TZ, NODE_EXTRA_CA_CERTS } = process.env
    // Threads resolve names. A slow name must not delay the others.
    const env = { PATH, TZ, NODE_EXTRA_CA_CERTS, UV_THREADPOOL_SIZE: '16' }
    const started = spawn(
      process.execPath,
      [
        ...process.execArgv.filter((flag) => flag.startsWith('--max-semi-space-size')),
        '--disable-warning=ExperimentalWarning',
        join(PACKAGE_DIR, 'src/egress/main.ts'),
      ],
      {
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
        env: Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined)),
      },
    )
    child = started
    started.on('message', (message: FromForwarder) => {
      if (message.type === 'allowed') return allowing.get(message.call)?.()
      const known = exits.get(message.id)
      const isCurrent = known?.exit.path === message.path
      if (message.type === 'replaced') return void (isCurrent && exits.delete(message.id))
      if (isCurrent) known.isLinked = true
      waiting.get(message.path)?.()
    })
    const ended = (why: object) => {
      if (child !== started) return
      child = undefined
      for (const done of allowing.values()) done()
      if (isOver) return
      log.error(why, 'the forwarder of proxies ended by itself; starting it again')
      again = setTimeout(() => {
        if (exits.size > 0) start()
      }, AGAIN_MS)
    }
    started.once('error', (err) => ended({ err }))
    started.once('exit', (code, signal) => ended({ code, signal }))
    tell({ type: 'begin', allowHostLoopback, logLevel })
    for (const { exit } of exits.values()) tell({ type: 'use', exit })
  }

  return {
    used(id) {
      const known = exits.get(id)
      return known?.isLinked ? known.exit : undefined
    },
    async allow(id, hosts, signal) {
      const known = exits.get(id)
      if (!known) return false
      known.exit = { ...known.exit, routing: { ...known.exit.routing, allowedHosts: hosts } }
      // A program that has ended sends nothing, and the next one starts with this list.
      if (!child?.connected) return true
      const { promise, resolve } = Promise.withResolvers<void>()
      const own = ++calls
      allowing.set(own, resolve)
      try {
        tell({ type: 'allow', id, path: known.exit.path, hosts, call: own })
        await within('the forwarder of proxies to take a list of hosts', ALLOW_MS, promise, signal)
        return true
      } finally {
        allowing.delete(own)
      }
    },
    async use(exit, signal) {
      exits.set(exit.id, { exit, isLinked: false })
      const { promise, resolve } = Promise.withResolvers<void>()
      waiting.set(exit.path, resolve)
      try {
        if (child) tell({ type: 'use', exit })
        else start()
        await within('a link to the forwarder of proxies', USE_MS, promise, signal)
      } finally {
        waiting.delete(exit.path)
      }
    },
    forget(id, path) {
      if (path !== undefined && exits.get(id)?.exit.path !== path) return
      exits.delete(id)
      tell({ type: 'forget', id, ...(path !== undefined && { path }) })
    },
    pid: () => child?.pid,
    async [Symbol.asyncDispose]() {
      isOver = true
      clearTimeout(again)
      const running = child
      if (!running || running.exitCode !== null || running.signalCode !== null) return
      const exited = once(running, 'exit')
      if (running.connected) running.disconnect()
      await within('the forwarder of proxies to end', END_MS, exited).catch(() => running.kill('SIGKILL'))
    },
  }
}
