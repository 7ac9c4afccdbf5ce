// The open connection that shows a driver that an agent runs, whichever service has started the agent.
import { lacking } from '../agent/capabilities.ts'
import { session, type AgentEvent } from '../agent/session/contract.ts'
import type { Log } from '../base/log.ts'
import { openLines } from '../http/client.ts'
import type { Endpoint } from '../http/endpoint.ts'
import type { Exit } from './driver.ts'

/** The agent sends something every 5 s. Twelve missed messages mean a hang, even on a machine that is overloaded. */
const SILENCE_MS = 60_000

/** Limit on the bytes that an agent sends within {@link WINDOW_MS}. It sends some 60 bytes every 5 s, and a few lines when its browser crashes. */
const MAX_BYTES = 64 * 1024
const WINDOW_MS = 60_000

/** Characters of an event's detail that are logged. */
const MAX_DETAIL = 500

export interface AgentVersion {
  /** Undefined for the first versions, which did not send it. */
  version: string | undefined
  /** The missing capabilities of the agent, of those that this version of the service may use (agent/capabilities.ts). */
  lacks: string[]
}

export interface Lifeline {
  /** Resolves when the browser is up for the first time. */
  ready: Promise<AgentVersion>
  /** Resolves with the reason when the connection has ended. */
  ended: Promise<Exit>
}

/** Watches an agent until it ends or `signal` aborts, and logs the events of its browser. `onCrash` is called when its browser has crashed. */
export function watchAgent(agent: Endpoint, log: Log, signal: AbortSignal, onCrash = () => {}): Lifeline {
  const ready = Promise.withResolvers<AgentVersion>()
  ready.promise.catch(() => {})
  const hang = new AbortController()
  const hangs = () => hang.abort(new Error(`the agent said nothing for ${SILENCE_MS} ms`))
  let timer = setTimeout(hangs, SILENCE_MS)
  let givenUp: string | undefined
  let windowAt = performance.now()
  let bytes = 0
  const count = (more: number) => {
    clearTimeout(timer)
    timer = setTimeout(hangs, SILENCE_MS)
    if (performance.now() - windowAt > WINDOW_MS) {
      windowAt = performance.now()
      bytes = 0
    }
    bytes += more
    // No honest agent sends this much. More would fill the log and slow down the service.
    if (bytes > MAX_BYTES) throw new Error(`the agent said more than ${MAX_BYTES} bytes within ${WINDOW_MS} ms`)
  }
  const watch = async () => {
    const options = { signal: AbortSignal.any([signal, hang.signal]), maxLineBytes: MAX_BYTES, maxValues: MAX_BYTES, onBytes: count }
    for await (const events of await openLines(agent, session.watchSession, {}, options)) for (const event of events) hear(event)
  }
  const hear = ({ event, detail: said, version, capabilities }: AgentEvent) => {
    const detail = said?.slice(0, MAX_DETAIL)
    if (event === 'ready') ready.resolve({ version, lacks: lacking(capabilities) })
    else if (event === 'chromium_crashed') {
      log.error({ detail }, 'Chromium crashed; it is being started again in its session')
      onCrash()
    } else if (event === 'chromium_restarted') log.info({ detail }, 'Chromium runs again')
    else if (event === 'chromium_given_up') givenUp = detail ?? 'Chromium crashed too often'
  }
  const ended = watch()
    .then(
      () => 'the agent ended',
      (error: Error) => error.message,
    )
    .then((reason): Exit => (givenUp === undefined ? { reason } : { reason: givenUp, cause: 'browser_failed' }))
    .finally(() => {
      clearTimeout(timer)
      ready.reject(new Error('the agent ended before its browser was up'))
    })
  return { ready: ready.promise, ended }
}
