// Events of the browser, for services that watch the session.
import { Notifier } from '../../base/notifier.ts'
import { VERSION } from '../../base/version.ts'
import type { Watchdog } from '../../base/watchdog.ts'
import { CAPABILITIES } from '../capabilities.ts'
import type { SessionBrowser } from '../chromium/keeper.ts'
import type { AgentEvent } from './contract.ts'

/** A watcher that receives nothing for three times this long may assume that the agent is dead. */
export const HEARTBEAT_MS = 5_000

/** An agent's description of itself. */
export const ABOUT = { version: VERSION, capabilities: [...CAPABILITIES] }

/** Events of the keeper for watchers, and their names there. */
const TOLD = [
  ['chromium_crashed', 'chromium_crashed'],
  ['chromium_restarted', 'chromium_restarted'],
  ['given_up', 'chromium_given_up'],
] as const

/** The events of the browser until the signal aborts. If the browser never starts, it fails. */
export async function* watchBrowser(
  keeper: Pick<SessionBrowser, 'on' | 'off'>,
  ready: Promise<void>,
  watchdog: Pick<Watchdog, 'watch'>,
  signal: AbortSignal,
): AsyncGenerator<AgentEvent> {
  using scope = new DisposableStack()
  scope.defer(watchdog.watch())
  const pending: AgentEvent[] = []
  const more = new Notifier()
  const tell = (event: AgentEvent) => {
    pending.push(event)
    more.notify()
  }
  for (const [name, event] of TOLD) {
    const listener = (detail: string) => tell({ event, detail })
    keeper.on(name, listener)
    scope.defer(() => keeper.off(name, listener))
  }
  const beat = setInterval(() => tell({ event: 'heartbeat' }), HEARTBEAT_MS)
  scope.defer(() => clearInterval(beat))
  const failed = new AbortController()
  ready.then(
    () => tell({ event: 'ready', ...ABOUT }),
    (error: unknown) => failed.abort(error),
  )
  const over = AbortSignal.any([signal, failed.signal])
  for (;;) {
    yield* pending.splice(0)
    if (pending.length === 0) await more.next(over)
  }
}
