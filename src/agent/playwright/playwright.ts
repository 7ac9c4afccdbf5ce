// Runs Playwright code in the instance, one run at a time, in a worker process that is started ahead.
import type { Log } from '../../base/log.ts'
import { Mutex } from '../../base/mutex.ts'
import { WaitTimeout, within } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import type { Keeper } from '../chromium/keeper.ts'
import type { Cdp } from '../chromium/cdp.ts'
import type { ChromiumRun } from '../chromium/process.ts'
import { reachBrowser } from '../chromium/reach.ts'
import { QUEUE_MS } from './contract.ts'
import { NotBegun, WorkerProcess, type Executed } from './worker-process.ts'

/** A worker is ended after this time without a run. It takes about 100 MB. */
const IDLE_MS = 120_000

/** The time for the browser to stop loading pages after a run has timed out. */
const STOP_MS = 300

/** Runs code beside the browser. The fake driver's version runs nothing. */
export interface Playwright {
  /** @throws a Fault when the code has not begun to run, or the signal's reason */
  execute(code: string, timeoutMs: number, signal: AbortSignal): Promise<Executed>
}

/** Starts the worker at the first run. */
export function makePlaywright(browser: Pick<Keeper, 'runForClient'>, log: Log): Playwright {
  const turns = new Mutex()
  let worker: WorkerProcess | undefined
  let timer: NodeJS.Timeout | undefined

  async function end(): Promise<void> {
    const old = worker
    worker = undefined
    await old?.kill().catch((err: unknown) => log.error({ err }, 'a worker did not end'))
  }

  /** A worker that can take a run. */
  async function fresh(): Promise<WorkerProcess> {
    if (worker && !(await worker.ready())) await end()
    return (worker ??= new WorkerProcess())
  }

  async function run({ port, browserPath, pipe, closePrintPreviews }: ChromiumRun, code: string, timeoutMs: number, signal: AbortSignal): Promise<Executed> {
    const mine = await fresh()
    // A run finds no dialog that was opened before it (link.ts), and no print preview.
    await closePrintPreviews()
    try {
      return await mine.run(code, `ws://127.0.0.1:${port}${browserPath}`, timeoutMs, signal)
    } catch (error) {
      if (!(error instanceof NotBegun && error.late)) throw error
      // Without this, no run could begin until Chromium itself gives up loading the page.
      const stopped = within('pages to stop loading', STOP_MS, stopLoading(pipe)).then(
        () => true,
        (err: unknown) => (log.warn({ err }, 'a page that does not answer was not stopped'), false),
      )
      const why = (await stopped)
        ? `a page did not answer within ${timeoutMs / 1000} s. It was loading, is busy, or has a dialog open. Loading has been stopped.`
        : `the browser did not answer within ${timeoutMs / 1000} s.`
      return { success: false, error: `the code has not begun: ${why}`, stdout: '', stderr: '' }
    } finally {
      // Replace an unfit worker now, so that the next caller does not wait for it.
      void mine
        .ready()
        .then((fit) => (fit ? undefined : turns.run(fresh)))
        .catch((err: unknown) => log.error({ err }, 'no new worker could be started'))
    }
  }

  async function turn(code: string, timeoutMs: number, signal: AbortSignal): Promise<Executed> {
    clearTimeout(timer)
    const began = performance.now()
    // A second attempt gets the rest of the time, in whole seconds, and at least one.
    const left = () => Math.max(1, Math.ceil((timeoutMs - (performance.now() - began)) / 1000)) * 1000
    const attempt = (current: ChromiumRun) => run(current, code, left(), signal)
    const up = () =>
      within('the browser to be up', timeoutMs, browser.runForClient(timeoutMs / 2), signal).catch((error: unknown) => {
        throw error instanceof WaitTimeout ? new NotBegun(error.message) : error
      })
    try {
      return await reachBrowser({ run: up }, attempt, signal, isNotBegun)
    } finally {
      timer = setTimeout(() => void turns.run(end), IDLE_MS).unref()
    }
  }

  return {
    async execute(code, timeoutMs, signal) {
      let begun = false
      const patience = AbortSignal.timeout(QUEUE_MS)
      try {
        return await turns.run(
          () => {
            begun = true
            return turn(code, timeoutMs, signal)
          },
          AbortSignal.any([signal, patience]),
        )
      } catch (error) {
        if (signal.aborted) throw signal.reason
        if (!begun) throw fault.unavailable(`the code has not begun: it waited more than ${QUEUE_MS / 1000} s for earlier runs`)
        if (error instanceof NotBegun) throw fault.unavailable('the code has not begun: its process or its browser did not start', error)
        throw error
      }
    },
  }
}

// Code that has begun must not run a second time.
const isNotBegun = (error: unknown): boolean => error instanceof NotBegun

async function stopLoading(cdp: Cdp): Promise<void> {
  const { targetInfos } = await cdp.send('Target.getTargets', {})
  const stop = async (targetId: string) => {
    await using page = await cdp.session(targetId)
    await page.send('Page.stopLoading', {})
  }
  // Any of the pages may close in the meantime.
  const done = await Promise.allSettled(targetInfos.filter(({ type }) => type === 'page').map(({ targetId }) => stop(targetId)))
  const failed = done.filter((each) => each.status === 'rejected')
  if (failed.length > 0) throw failed[0]!.reason
}
