// Runs of Playwright code in the instance: one at a time, in a worker that is there before the code is.
import type { Log } from '../../base/log.ts'
import { Mutex } from '../../base/mutex.ts'
import { WaitTimeout, within } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import type { Browser } from '../chromium/keeper.ts'
import type { CdpPipe } from '../chromium/pipe.ts'
import type { ChromiumRun } from '../chromium/process.ts'
import { reachBrowser } from '../chromium/reach.ts'
import { QUEUE_MS } from './contract.ts'
import { NotBegun, WorkerProcess, type Executed } from './worker-process.ts'

/** A worker that nobody has used for so long is ended; it takes some 100 MB. */
const IDLE_MS = 120_000

/** What the browser is given to stop what loads, after the time of a run is over. */
const STOP_MS = 300

/** Runs code beside the browser; the fake driver has one that runs nothing. */
export interface Playwright {
  /** @throws a Fault when the code has not begun to run, or the signal's reason */
  execute(code: string, timeoutMs: number, signal: AbortSignal): Promise<Executed>
}

/** Starts nothing until the first run. */
export function makePlaywright(browser: Pick<Browser, 'run'>, log: Log): Playwright {
  const turns = new Mutex()
  let worker: WorkerProcess | undefined
  let timer: NodeJS.Timeout | undefined

  async function end(): Promise<void> {
    const old = worker
    worker = undefined
    await old?.kill().catch((err: unknown) => log.error({ err }, 'a worker did not end'))
  }

  /** A worker fit for a run. */
  async function fresh(): Promise<WorkerProcess> {
    if (worker && !(await worker.ready())) await end()
    return (worker ??= new WorkerProcess())
  }

  async function run({ port, browserPath, pipe }: ChromiumRun, code: string, timeoutMs: number, signal: AbortSignal): Promise<Executed> {
    const mine = await fresh()
    try {
      return await mine.run(code, `ws://127.0.0.1:${port}${browserPath}`, timeoutMs, signal)
    } catch (error) {
      if (!(error instanceof NotBegun && error.late)) throw error
      // Otherwise no run could begin until Chromium itself gives the page up.
      const stopped = within('pages to stop loading', STOP_MS, stopLoading(pipe)).then(
        () => true,
        (err: unknown) => (log.warn({ err }, 'a page that does not answer was not stopped'), false),
      )
      const why = (await stopped)
        ? `a page has not answered for ${timeoutMs / 1000} s. It was loading, which has been stopped now, is busy, or has a dialog open.`
        : `the browser has not answered for ${timeoutMs / 1000} s.`
      return { success: false, error: `the code has not begun: ${why}`, stdout: '', stderr: '' }
    } finally {
      // What is not fit is replaced now, and not when the next caller waits for it.
      void mine
        .ready()
        .then((fit) => (fit ? undefined : turns.run(fresh)))
        .catch((err: unknown) => log.error({ err }, 'no new worker could be started'))
    }
  }

  async function turn(code: string, timeoutMs: number, signal: AbortSignal): Promise<Executed> {
    clearTimeout(timer)
    const began = performance.now()
    // A second attempt has what the first has left of the time, in whole seconds and at least one.
    const left = () => Math.max(1, Math.ceil((timeoutMs - (performance.now() - began)) / 1000)) * 1000
    const attempt = (current: ChromiumRun) => run(current, code, left(), signal)
    const up = () =>
      within('the browser to be up', timeoutMs, browser.run(), signal).catch((error: unknown) => {
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
        if (!begun) throw fault.unavailable(`the code has not begun: runs before it took more than ${QUEUE_MS / 1000} s`)
        if (error instanceof NotBegun) throw fault.unavailable('the code has not begun: its process or its browser did not come up', error)
        throw error
      }
    },
  }
}

// What has begun must not begin again.
const isNotBegun = (error: unknown): boolean => error instanceof NotBegun

async function stopLoading(pipe: CdpPipe): Promise<void> {
  const { targetInfos } = await pipe.send<{ targetInfos: { targetId: string; type: string }[] }>('Target.getTargets')
  const stop = async (targetId: string) => {
    const { sessionId } = await pipe.send<{ sessionId: string }>('Target.attachToTarget', { targetId, flatten: true })
    await pipe.send('Page.stopLoading', {}, sessionId)
    await pipe.send('Target.detachFromTarget', { sessionId })
  }
  // Any of them may be closed meanwhile.
  const done = await Promise.allSettled(targetInfos.filter(({ type }) => type === 'page').map(({ targetId }) => stop(targetId)))
  const failed = done.filter((each) => each.status === 'rejected')
  if (failed.length > 0) throw failed[0]!.reason
}
