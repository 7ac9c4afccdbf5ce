// The agent's own contract: sets up the browser for a session and reports its events.
import { addAbortListener } from 'node:events'
import { PassThrough } from 'node:stream'
import type { Lease } from '../../base/lease.ts'
import { Mutex } from '../../base/mutex.ts'
import { VERSION } from '../../base/version.ts'
import type { Handlers } from '../../http/route.ts'
import { CAPABILITIES } from '../capabilities.ts'
import type { Browser } from '../chromium/keeper.ts'
import type { Screen } from '../display/screen.ts'
import type { AgentEvent, DevTools, Fit, session } from './contract.ts'

/** A watcher that receives nothing for three times this long may assume that the agent is dead. */
export const HEARTBEAT_MS = 5_000

const ABOUT = { version: VERSION, capabilities: [...CAPABILITIES] }

/** `ready` settles when the browser has started for the first time. */
export function sessionHandlers(keeper: Browser, screen: Screen, ready: Promise<void>, lease: Lease): Handlers<typeof session> {
  const resizes = new Mutex()
  return {
    async agentStatus() {
      const { version, pid } = await keeper.run()
      return { ...ABOUT, chromium: { version, pid, restarts: keeper.restarts }, viewport: screen.viewport, uptime_ms: Math.round(process.uptime() * 1000) }
    },
    devTools: () => devTools(keeper),
    fitSession({ body }) {
      if (body.timeout_seconds !== undefined) lease.allow(body.timeout_seconds * 1000)
      return fit(keeper, screen, resizes, body)
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
      const aborted = addAbortListener(signal, () => out.destroy())
      out.on('close', () => {
        aborted[Symbol.dispose]()
        keeper.off('chromium_crashed', crashed)
        keeper.off('chromium_restarted', restarted)
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

/**
 * Sets up the running browser: policy first, because it restarts the browser; then screen, window and page. Each step resolves when it has taken
 * effect, or throws.
 */
async function fit(keeper: Browser, screen: Screen, resizes: Mutex, wanted: Fit): Promise<void> {
  if (wanted.chrome_policy) await keeper.setPolicy(wanted.chrome_policy)
  const { viewport } = wanted
  if (viewport)
    await resizes.run(async () => {
      await screen.resize(viewport)
      await keeper.fillScreen()
    })
  // Only a new session has a timeout to be told. A later page may hang, or be zoomed, and says nothing about its window.
  const isNew = wanted.timeout_seconds !== undefined
  if (isNew && (wanted.viewport || wanted.fullscreen || wanted.start_url !== undefined)) await keeper.fillPage(wanted.fullscreen === true)
  else if (wanted.fullscreen !== undefined) await keeper.setFullscreen(wanted.fullscreen)
  // Whether the page loads does not matter here.
  if (wanted.start_url !== undefined) await keeper.open(wanted.start_url)
  else if (wanted.fullscreen) await keeper.focusPage()
}
