// The agent's own contract: sets up the browser for a session and reports its events.
import type * as z from 'zod'
import type { Watchdog } from '../../base/watchdog.ts'
import type { Handlers } from '../../http/route.ts'
import type { SessionBrowser } from '../chromium/keeper.ts'
import type { Pages } from '../chromium/pages.ts'
import type { Screen } from '../display/display.ts'
import type { Clients } from './clients.ts'
import { CdpProtocol, type session, type SessionActivity } from './contract.ts'
import type { Fitting } from './fit/fitting.ts'
import { ABOUT, watchBrowser } from './watch.ts'

/** Closing connections takes milliseconds. */
const DISMISS_MS = 2_000

/** Whether work of each kind is in progress. */
export type Activities = Record<SessionActivity['running'][number], () => boolean>

/** `ready` settles when the browser has started for the first time; `begin` lets it start. */
export function sessionHandlers(
  keeper: SessionBrowser,
  pages: Pick<Pages, 'list'>,
  screen: Pick<Screen, 'viewport'>,
  fitting: Fitting,
  ready: Promise<void>,
  begin: () => void,
  watchdog: Pick<Watchdog, 'watch'>,
  activities: Activities,
  clients: Clients,
): Handlers<typeof session> {
  return {
    async agentStatus() {
      const { version, pid } = await keeper.run()
      return { ...ABOUT, chromium: { version, pid, restarts: keeper.restarts }, viewport: screen.viewport, uptime_ms: Math.round(process.uptime() * 1000) }
    },
    devTools: () => pages.list(),
    cdpDescription: ({ signal }) => cdpDescription(keeper, signal),
    beginSession: () => begin(),
    sessionActivity: () => ({ running: (Object.keys(activities) as (keyof Activities)[]).filter((kind) => activities[kind]()) }),
    dismissClients: ({ signal }) => clients.dismiss(AbortSignal.any([signal, AbortSignal.timeout(DISMISS_MS)])),
    fitSession: ({ body }) => fitting.fit(body),
    watchSession: ({ signal }) => watchBrowser(keeper, ready, watchdog, signal),
  }
}

/** The description is built into Chromium, and takes milliseconds. */
const DESCRIBED_MS = 10_000

async function cdpDescription(keeper: Pick<SessionBrowser, 'run'>, signal: AbortSignal): Promise<z.infer<typeof CdpProtocol>> {
  const { port } = await keeper.run()
  const answer = await fetch(`http://127.0.0.1:${port}/json/protocol`, { signal: AbortSignal.any([signal, AbortSignal.timeout(DESCRIBED_MS)]) })
  return CdpProtocol.parse(await answer.json())
}
