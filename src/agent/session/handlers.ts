// The agent's own contract: sets up the browser for a session and reports its events.
import { addAbortListener } from 'node:events'
import { PassThrough } from 'node:stream'
import type { z } from 'zod'
import type { Watchdog } from '../../base/watchdog.ts'
import { VERSION } from '../../base/version.ts'
import type { Handlers } from '../../http/route.ts'
import { CAPABILITIES } from '../capabilities.ts'
import type { Browser } from '../chromium/keeper.ts'
import type { Screen } from '../display/screen.ts'
import type { Clients } from './clients.ts'
import { CdpProtocol, type AgentEvent, type DevTools, type session, type SessionActivity } from './contract.ts'
import type { Fitting } from './fit/fitting.ts'

/** A watcher that receives nothing for three times this long may assume that the agent is dead. */
export const HEARTBEAT_MS = 5_000

/** Closing connections takes milliseconds. */
const DISMISS_MS = 2_000

const ABOUT = { version: VERSION, capabilities: [...CAPABILITIES] }

/** Whether something of each kind goes on. */
export type Activities = Record<SessionActivity['running'][number], () => boolean>

/** `ready` settles when the browser has started for the first time. */
export function sessionHandlers(
  keeper: Browser,
  screen: Pick<Screen, 'viewport'>,
  fitting: Fitting,
  ready: Promise<void>,
  watchdog: Pick<Watchdog, 'watch'>,
  activities: Activities,
  clients: Clients,
): Handlers<typeof session> {
  return {
    async agentStatus() {
      const { version, pid } = await keeper.run()
      return { ...ABOUT, chromium: { version, pid, restarts: keeper.restarts }, viewport: screen.viewport, uptime_ms: Math.round(process.uptime() * 1000) }
    },
    devTools: () => devTools(keeper),
    cdpDescription: ({ signal }) => cdpDescription(keeper, signal),
    sessionActivity: () => ({ running: (Object.keys(activities) as (keyof Activities)[]).filter((kind) => activities[kind]()) }),
    dismissClients: ({ signal }) => clients.dismiss(AbortSignal.any([signal, AbortSignal.timeout(DISMISS_MS)])),
    fitSession: ({ body }) => fitting.fit(body),
    watchSession({ signal }) {
      const out = new PassThrough()
      const leave = watchdog.watch()
      const tell = (event: AgentEvent) => out.write(`${JSON.stringify(event)}\n`)
      const crashed = (detail: string) => tell({ event: 'chromium_crashed', detail })
      const restarted = (detail: string) => tell({ event: 'chromium_restarted', detail })
      const givenUp = (detail: string) => tell({ event: 'chromium_given_up', detail })
      keeper.on('chromium_crashed', crashed)
      keeper.on('chromium_restarted', restarted)
      keeper.on('given_up', givenUp)
      const beat = setInterval(() => tell({ event: 'heartbeat' }), HEARTBEAT_MS)
      const aborted = addAbortListener(signal, () => out.destroy())
      out.on('close', () => {
        aborted[Symbol.dispose]()
        keeper.off('chromium_crashed', crashed)
        keeper.off('chromium_restarted', restarted)
        keeper.off('given_up', givenUp)
        clearInterval(beat)
        leave()
      })
      ready.then(
        () => tell({ event: 'ready', ...ABOUT }),
        () => out.destroy(),
      )
      return out
    },
  }
}

async function devTools(keeper: Browser): Promise<DevTools> {
  const { pipe } = await keeper.run()
  const [version, { targetInfos }] = await Promise.all([pipe.send('Browser.getVersion', {}), pipe.send('Target.getTargets', {})])
  const targets = targetInfos.filter(({ type }) => type === 'page').slice(0, 1000)
  return { version, targets: targets.map(({ targetId, type, title, url }) => ({ id: targetId, type, title: title.slice(0, 1024), url: url.slice(0, 8192) })) }
}

/** It is built into Chromium, and takes milliseconds. */
const DESCRIBED_MS = 10_000

async function cdpDescription(keeper: Browser, signal: AbortSignal): Promise<z.infer<typeof CdpProtocol>> {
  const { port } = await keeper.run()
  const answer = await fetch(`http://127.0.0.1:${port}/json/protocol`, { signal: AbortSignal.any([signal, AbortSignal.timeout(DESCRIBED_MS)]) })
  return CdpProtocol.parse(await answer.json())
}
