// The open connection that shows a driver that an agent lives, no matter which service started the agent.
import { AgentEvent } from '../agent/session/contract.ts'
import { LineSplitter } from '../base/lines.ts'
import type { Log } from '../base/log.ts'
import { fetchFrom, type Endpoint } from '../http/endpoint.ts'

/** The agent sends something every 5 s. Twelve missed messages mean a hang, even on a machine that is overloaded. */
const SILENCE_MS = 60_000

/** Limit on the bytes that an agent sends within {@link WINDOW_MS}. It sends some 60 bytes every 5 s, and a few lines when its browser crashes. */
const MAX_BYTES = 64 * 1024
const WINDOW_MS = 60_000

/** Characters of an event's detail that are logged. */
const MAX_DETAIL = 500

export interface Lifeline {
  /** Resolves when the browser is up for the first time. */
  ready: Promise<void>
  /** Resolves with the reason when the connection has ended. */
  ended: Promise<string>
}

/** Watches an agent until it ends or `signal` aborts, and logs the events of its browser. */
export function watchAgent(agent: Endpoint, log: Log, signal: AbortSignal): Lifeline {
  const ready = Promise.withResolvers<void>()
  ready.promise.catch(() => {})
  const hang = new AbortController()
  const heard = () => hang.abort(new Error(`the agent said nothing for ${SILENCE_MS} ms`))
  let timer = setTimeout(heard, SILENCE_MS)
  const watch = async () => {
    const response = await fetchFrom(agent, { method: 'GET', path: '/session/watch' }, AbortSignal.any([signal, hang.signal]))
    if (response.statusCode !== 200) throw new Error(`the agent answered ${response.statusCode}`)
    const lines = new LineSplitter(MAX_BYTES)
    let windowAt = performance.now()
    let bytes = 0
    for await (const chunk of response as AsyncIterable<Buffer>) {
      clearTimeout(timer)
      timer = setTimeout(heard, SILENCE_MS)
      if (performance.now() - windowAt > WINDOW_MS) {
        windowAt = performance.now()
        bytes = 0
      }
      bytes += chunk.length
      // No honest agent sends this much. More would fill the log and slow down the service.
      if (bytes > MAX_BYTES) throw new Error(`the agent said more than ${MAX_BYTES} bytes within ${WINDOW_MS} ms`)
      for (const { bytes: line } of lines.add(chunk)) hear(AgentEvent.parse(JSON.parse(line.toString())))
      if (lines.isTooLong) throw new Error(`an event of the agent is longer than ${MAX_BYTES} bytes`)
    }
  }
  const hear = ({ event, detail: said }: AgentEvent) => {
    const detail = said?.slice(0, MAX_DETAIL)
    if (event === 'ready') ready.resolve()
    else if (event === 'chromium_crashed') log.error({ detail }, 'Chromium crashed; it is being started again in its session')
    else if (event === 'chromium_restarted') log.info({ detail }, 'Chromium runs again')
  }
  const ended = watch()
    .then(
      () => 'the agent ended',
      (error: Error) => error.message,
    )
    .finally(() => {
      clearTimeout(timer)
      ready.reject(new Error('the agent ended before its browser was up'))
    })
  return { ready: ready.promise, ended }
}
