// The agent's own contract: fitting the browser to a session, and telling what happens to it.
import { PassThrough } from 'node:stream'
import type { Lease } from '../../base/lease.ts'
import type { Log } from '../../base/log.ts'
import type { Handlers } from '../../http/route.ts'
import type { Browser } from '../chromium/keeper.ts'
import type { Screen } from '../display/screen.ts'
import type { AgentEvent, Fit, session } from './contract.ts'

/** A watcher that hears nothing for three of these may take the agent for dead. */
export const HEARTBEAT_MS = 5_000

/** `ready` settles when the browser is up for the first time. */
export function sessionHandlers(keeper: Browser, screen: Screen, ready: Promise<void>, lease: Lease, log: Log): Handlers<typeof session> {
  return {
    async agentStatus() {
      const { version, pid } = await keeper.run()
      return { chromium: { version, pid, restarts: keeper.restarts }, viewport: screen.viewport, uptime_ms: Math.round(process.uptime() * 1000) }
    },
    fitSession({ body }) {
      if (body.timeout_seconds !== undefined) lease.allow(body.timeout_seconds * 1000)
      return fit(keeper, screen, body, log)
    },
    watchSession({ signal }) {
      const out = new PassThrough()
      const leave = lease.watch()
      const tell = (event: AgentEvent) => out.write(`${JSON.stringify(event)}\n`)
      const crashed = (detail: string) => tell({ event: 'chromium_crashed', detail })
      const restarted = (detail: string) => tell({ event: 'chromium_restarted', detail })
      keeper.on('chromium_crashed', crashed)
      keeper.on('chromium_restarted', restarted)
      const beat = setInterval(() => tell({ event: 'heartbeat' }), HEARTBEAT_MS)
      signal.addEventListener('abort', () => {
        keeper.off('chromium_crashed', crashed)
        keeper.off('chromium_restarted', restarted)
        clearInterval(beat)
        leave()
        out.destroy()
      })
      ready.then(
        () => tell({ event: 'ready' }),
        () => out.destroy(),
      )
      return out
    },
  }
}

/** Fits the running browser: policy first, for it restarts the browser; then screen, window and page. */
async function fit(keeper: Browser, screen: Screen, wanted: Fit, log: Log): Promise<void> {
  if (wanted.chrome_policy) await keeper.setPolicy(wanted.chrome_policy)
  if (wanted.viewport) await screen.resize(wanted.viewport)
  if (wanted.fullscreen !== undefined) await keeper.setFullscreen(wanted.fullscreen)
  // Best effort by contract: a page that does not load is the page's affair.
  if (wanted.start_url !== undefined) void navigate(keeper, wanted.start_url).catch((err: unknown) => log.info({ err }, 'start_url did not open'))
  else if (wanted.fullscreen) await keeper.focusPage()
}

/** Opens an address as a user does who typed it: the page has the keyboard then. */
async function navigate(keeper: Browser, url: string): Promise<void> {
  await keeper.focusPage()
  await keeper.withFirstPage((pipe, sessionId) => pipe.send('Page.navigate', { url }, sessionId))
}
