// Picks up flows and works on a bounded number of them at once. The work on one flow: worker.ts.
import { together } from '../../../../base/together.ts'
import { resultWithin, sleep } from '../../../../base/wait.ts'
import type { Tools } from './work.ts'
import { workOn } from './worker.ts'

/** Interval of looking for flows whose notice was lost or whose worker has failed, and of ending flows whose time is over. */
const LOOK_MS = 5000
/** Workers that do not stop within this time are abandoned: their claims are taken over when this replica is dead. */
const STOP_MS = 10_000

interface EngineSettings extends Tools {
  /** Most flows at once. */
  most: number
  /** Sessions of this service whose flow has ended while nobody worked on it. */
  strayBrowsers: () => Promise<string[]>
  everyMs?: number
}

export interface Engine extends AsyncDisposable {
  /** Starts to pick up flows. */
  start(): void
  /** Number of flows with a worker now. */
  readonly working: number
}

export function makeEngine({ most, strayBrowsers, everyMs = LOOK_MS, ...tools }: EngineSettings): Engine {
  const { flows, browsers, log } = tools
  const stop = new AbortController()
  const working = new Map<string, Promise<void>>()
  let running: Promise<void> | undefined
  let isForAbandoned = false

  const pickUp = together(async () => {
    if (stop.signal.aborted) return
    if (isForAbandoned) {
      // Only when no other claim is being made: a new claim has no worker for a moment.
      isForAbandoned = false
      await flows.giveBack([...working.keys()])
    }
    while (working.size < most && !stop.signal.aborted) {
      const flow = await flows.claimNext()
      if (!flow) break
      const work = workOn(flow, tools, stop.signal).finally(() => {
        working.delete(flow.id)
        notify()
      })
      working.set(flow.id, work)
    }
  })

  const failed = (error: unknown) => log.error({ err: error }, 'logins could not be picked up')
  const notify = () => void (stop.signal.aborted || pickUp().catch(failed))

  async function look(): Promise<void> {
    await flows.expireDue()
    isForAbandoned = true
    await pickUp()
    for (const id of await strayBrowsers()) await browsers.finish(id, { save: false }, stop.signal)
  }

  async function run(): Promise<void> {
    while (!stop.signal.aborted) {
      await look().catch((error: unknown) => stop.signal.aborted || failed(error))
      await sleep(everyMs, stop.signal).catch(() => {})
    }
  }

  let leave = () => {}
  return {
    start() {
      if (running) return
      // Subscribe only now: an engine that was not started takes no flow.
      leave = flows.onNews(notify)
      running = run()
    },
    get working() {
      return working.size
    },
    async [Symbol.asyncDispose]() {
      leave()
      stop.abort(new Error('the service stops'))
      await running
      // A claim that was under way when the engine stopped is given back below.
      await pickUp()
      await resultWithin(STOP_MS, Promise.all(working.values()))
      await flows.giveBack([])
    },
  }
}
