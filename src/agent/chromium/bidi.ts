// WebDriver BiDi on top of the running browser: one thread with chromium-bidi's mapper for each client. Why a thread: docs/decisions/0010.
import { Worker } from 'node:worker_threads'
import { WebSocket } from 'ws'
import type { Log } from '../../base/log.ts'
import type { FromMapper, MapperTask } from './bidi-mapper.ts'
import type { CloseReason } from '../../http/splice.ts'
import { CLOSED, whyEnded } from './crashed.ts'
import type { ChromiumRun } from './process.ts'

/** The mapper holds the contexts, realms and requests of all tabs; one tab took 10 MB. Above this limit the thread ends and closes its client. */
const MAX_HEAP_MB = 512
/** The close code for a client whose mapper failed. The session and its other clients continue. */
const FAILED = { code: 1011, reason: { reason: 'bidi_failed', message: 'the BiDi mapper ended; connect to the same URL' } }
/** Bytes that may wait for a client. A page whose messages a client has subscribed to may write any number. */
const MAX_WAITING_BYTES = 64 * 1024 * 1024
/** At most this many faults of one mapper are logged: a page could cause any number. */
const MAX_FAULTS_LOGGED = 10

/**
 * Serves one BiDi client until it leaves, the browser ends, or its mapper fails. Leaving never ends the browser. `isFinished`: no other browser follows.
 */
export function connectBidi(
  client: WebSocket,
  { port, browserPath, exited }: Pick<ChromiumRun, 'port' | 'browserPath' | 'exited'>,
  isFinished: () => boolean,
  log: Log,
): void {
  const task: MapperTask = { browserUrl: `ws://127.0.0.1:${port}${browserPath}` }
  const mapper = new Worker(new URL('./bidi-mapper.ts', import.meta.url), { workerData: task, resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB } })
  let faults = 0
  const onFault = (fault: unknown) => {
    if (faults++ < MAX_FAULTS_LOGGED) log.warn({ fault }, 'the BiDi mapper had a fault')
  }
  const onBrowserEnd = async () => close(client, await whyEnded(exited, isFinished))
  mapper.on('message', (message: FromMapper) => {
    if (message.kind === 'fault') onFault(message.text)
    else if (client.readyState !== WebSocket.OPEN) return
    else if (message.kind === 'send' && client.bufferedAmount > MAX_WAITING_BYTES) {
      // Close without a close frame: it would wait after all queued data.
      log.warn({}, 'a BiDi client reads too slowly and was disconnected')
      client.terminate()
    } else if (message.kind === 'send') client.send(message.text)
    else if (message.why === 'browser_ended') void onBrowserEnd()
    else close(client, message.why === 'ended' ? CLOSED : FAILED)
  })
  mapper.on('error', onFault)
  mapper.on('exit', () => close(client, FAILED))
  client.on('message', (data) => mapper.postMessage((data as Buffer).toString()))
  client.on('error', (err) => log.debug({ err }, 'a BiDi client broke'))
  client.on('close', () => void mapper.terminate())
  void exited.then(onBrowserEnd)
}

/** Closes the client's WebSocket. The first reason is sent. */
function close(client: WebSocket, { code, reason }: CloseReason): void {
  client.close(code, JSON.stringify(reason))
}
