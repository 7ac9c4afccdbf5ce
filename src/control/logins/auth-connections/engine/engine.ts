// Picks up flows and works on a bounded number of them at once. What a flow does: worker.ts.
import { resultWithin, sleep } from '../../../../base/wait.ts'
import type { Tools } from './work.ts'
import { workOn } from './worker.ts'

/** How often flows are looked for that no notice told of or whose worker has given up, and those whose time is over are ended. */
const LOOK_MS = 5000
/** Workers that do not stop within this time are left behind: their claims are taken over when this replica is dead. */
const STOP_MS = 10_000

interface EngineSettings extends Tools {
  /** Most flows at once. */
  most: number
  /** Sessions of flows that have ended, of this service: nobody worked on the flow when it ended. */
  strayBrowsers: () => Promise<string[]>
  everyMs?: number
}

export interface Engine extends AsyncDisposable {
  /** Begins to pick up flows. */
  start(): void
  /** Flows that are worked on now. */
  readonly working: number
}

export function makeEngine({ most, strayBrowsers, everyMs = LOOK_MS, ...tools }: EngineSettings): Engine {
  const { flows, browsers, log } = tools
  const stop = new AbortController()
  const working = new Map<string, Promise<void>>()
  let running: Promise<void> | undefined
  let isPicking = false
  let isNotified = false
  let isForAbandoned = false

  /** One at a time; a notice in between has it look once more. */
  async function pickUp(): Promise<void> {
    if (isPicking) {
      isNotified = true
      return
    }
    isPicking = true
    try {
      do {
        isNotified = false
        if (isForAbandoned) {
          // Not while another claim is made: that one has no worker for a moment.
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
      } while (isNotified && !stop.signal.aborted)
    } finally {
      isPicking = false
    }
  }

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
      // Not before: an engine that nobody has started takes no flow.
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
      await resultWithin(STOP_MS, Promise.all(working.values()))
      await flows.giveBack([])
    },
  }
}
