// One run of Chromium: start, ready, end. keeper.ts restarts it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import type { Log } from '../../base/log.ts'
import { nameProcess, terminate } from '../../base/processes.ts'
import { until, within } from '../../base/wait.ts'
import type { Cdp } from './cdp.ts'
import { cdpOverPipe } from './cdp-pipe.ts'
import { watchPrintPreviews } from './print-previews.ts'

/** A start takes 0.3-1.0 s alone; ten at once on two cores took 12 s. */
const START_MS = 60_000
/** Browser.close writes the profile, which took up to 200 ms for 50 MB. */
const CLOSE_MS = 5_000

export interface ChromiumRun {
  pid: number
  /** When it was started, in milliseconds of `performance.now()`. */
  startedAt: number
  version: string
  /** CDP over Chromium's pipe, which no client can close. */
  pipe: Cdp
  /** The debugging port inside the sandbox, and the path of the browser's own target there. */
  port: number
  browserPath: string
  /** The target of the first page; after a change of the profile, of a page in the new one. */
  firstPage: string
  exited: Promise<{ code: number | null; signal: string | null }>
  /** Closes the open print previews. Each blocks the tab that prints. */
  closePrintPreviews(): Promise<void>
  /** Closes it as a user would, and after `limitMs` with increasing force. Resolves with whether it has ended as after a user's close. */
  close(limitMs?: number): Promise<boolean>
}

/** The facts about a run for a session and its clients. */
export type Running = Pick<ChromiumRun, 'pid' | 'startedAt' | 'version' | 'port' | 'browserPath' | 'exited'>

/** Starts Chromium and resolves when it answers on the pipe and the port and has its first page. */
export async function startChromium(
  program: string,
  flags: readonly string[],
  env: NodeJS.ProcessEnv,
  log: Log,
  signal: AbortSignal,
  said: (line: string) => void,
): Promise<ChromiumRun> {
  const startedAt = performance.now()
  const child = spawn(program, flags, { stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'], env, detached: true })
  const exited = once(child, 'close').then(([code, signalName]) => ({ code: code as number | null, signal: signalName as string | null }))
  const name = nameProcess(child.pid ?? 0)
  if (!name) throw new Error(`${program} could not be started`)
  const pipe = cdpOverPipe(child.stdio[3] as Writable, child.stdio[4] as Readable)
  tellLostEvents(pipe, log)
  const closePrintPreviews = watchPrintPreviews(pipe)
  const listening = Promise.withResolvers<RegExpExecArray>()
  listening.promise.catch(() => {})
  // Chromium's stderr is useful only when it fails to start; otherwise it is noise.
  createInterface({ input: child.stderr! }).on('line', (line) => {
    said(line)
    const found = /DevTools listening on ws:\/\/[^:]+:(\d+)(\/\S+)/.exec(line)
    if (found) listening.resolve(found)
    else if (line.trim() !== '') log.debug({ line }, 'chromium')
  })
  const gone = exited.then(({ code, signal: by }) => {
    throw new Error(`Chromium ended while starting (${by ?? code})`)
  })
  gone.catch(() => {})
  const close = async (limitMs = CLOSE_MS) => {
    const closed = pipe.send('Browser.close', {}).catch(() => {})
    try {
      await within('Chromium to close', limitMs, Promise.all([closed, exited]))
      return (await exited).code === 0
    } catch {
      await terminate(name, CLOSE_MS)
      return false
    }
  }
  try {
    const ready = async () => {
      const [{ product }, address] = await Promise.all([pipe.send('Browser.getVersion', {}), listening.promise])
      const firstPage = await until(
        'the first page',
        START_MS,
        async () => (await pipe.send('Target.getTargets', {})).targetInfos.find(({ type }) => type === 'page')?.targetId,
        { everyMs: 3 },
      )
      return {
        pid: name.pid,
        startedAt,
        version: product,
        pipe,
        port: Number(address[1]),
        browserPath: address[2]!,
        firstPage,
        exited,
        closePrintPreviews,
        close,
      }
    }
    return await within('Chromium', START_MS, Promise.race([ready(), gone]), signal)
  } catch (error) {
    await terminate(name, 0)
    throw error
  }
}

/** A page can cause many of them. */
const LOST_LOGGED_EVERY_MS = 1_000

/** Logs events that were too large to read. */
function tellLostEvents(pipe: Cdp, log: Log): void {
  let loggedAt = -Infinity
  let events = 0
  pipe.onLostEvent((method) => {
    events++
    const now = performance.now()
    if (now - loggedAt < LOST_LOGGED_EVERY_MS) return
    loggedAt = now
    log.warn({ method, events }, 'Chromium sent events that are too large to be read')
    events = 0
  })
}
