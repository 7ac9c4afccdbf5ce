// Runs chromium-bidi's mapper for one BiDi client, in a thread that bidi.ts starts. A fault of the mapper ends only this thread.
import { BidiMapper } from 'chromium-bidi'
import { BidiParser } from 'chromium-bidi/out/Default/gen/src/bidiTab/BidiParser.js'
import { MapperCdpConnection } from 'chromium-bidi/out/Default/gen/src/cdp/CdpConnection.js'
import { once } from 'node:events'
import { parentPort, workerData } from 'node:worker_threads'
import { WebSocket } from 'ws'
import { within } from '../../base/wait.ts'
import { mendMapper } from './bidi-mends.ts'
import { openSession, readCommand, type Command } from './bidi-session.ts'
import { windowsInOrder } from './bidi-windows.ts'

/** The thread's start parameters. */
export interface MapperTask {
  /** Chromium's own WebSocket. */
  browserUrl: string
}

/** Messages from the thread to the agent. */
export type FromMapper = { kind: 'send'; text: string } | { kind: 'end'; why: 'ended' | 'browser_ended' | 'failed' } | { kind: 'fault'; text: string }

const CDP_CONNECT_MS = 10_000

const agent = parentPort
// prepare.ts also loads this file, only to compile it.
if (agent && typeof workerData?.browserUrl === 'string') await serve(workerData as MapperTask)

async function serve({ browserUrl }: MapperTask): Promise<void> {
  const tell = (message: FromMapper) => agent!.postMessage(message)
  const fault = (error: unknown) => tell({ kind: 'fault', text: (error as Error | undefined)?.stack ?? String(error) })
  // The mapper is written to run in a page, where an exception in one event's listener does not stop the next event. Chromedriver runs it in this way.
  process.on('uncaughtException', fault)
  process.on('unhandledRejection', fault)

  // An exception inside a WebSocket's reader would stop that reader for good.
  const attempt = (work: () => void) => {
    try {
      work()
    } catch (error) {
      fault(error)
    }
  }
  mendMapper(fault)

  const early: string[] = []
  let onCommand = (text: string): void => void early.push(text)
  agent!.on('message', (text: string) => onCommand(text))
  const cdp = new WebSocket(browserUrl, { perMessageDeflate: false, maxPayload: 0 })
  cdp.on('error', fault)
  try {
    await within('CDP for BiDi', CDP_CONNECT_MS, once(cdp, 'open'))
    cdp.on('close', () => tell({ kind: 'end', why: 'browser_ended' }))
    const connection = new MapperCdpConnection({
      setOnMessage: (handler) => void cdp.on('message', (data) => attempt(() => void handler((data as Buffer).toString()))),
      sendMessage: (message) => cdp.send(message),
      close: () => cdp.close(),
    })
    const browser = await connection.createBrowserSession()
    browser.sendCommand = windowsInOrder(browser.sendCommand.bind(browser) as never) as never
    const session = openSession(await browser.sendCommand('Browser.getVersion'))
    let handle: (command: Command) => unknown = () => {}
    const answer = (message: object) => tell({ kind: 'send', text: JSON.stringify(message) })
    await BidiMapper.BidiServer.createAndStart(
      {
        setOnMessage: (handler) => void (handle = handler as never),
        sendMessage: (message) => answer(session.answered(message)),
        close: () => tell({ kind: 'end', why: 'ended' }),
      },
      connection,
      browser,
      '',
      new BidiParser(),
    )
    onCommand = (text) => {
      const { id, ...read } = readCommand(text)
      if ('refusal' in read) return answer({ type: 'error', id, ...read.refusal })
      const reply = session.asked(read.command)
      if (reply === undefined) return handle(read.command)
      answer({ id, ...reply })
      // Ending a BiDi session must not end the browser: others may use it. The mapper leaves this command to its host.
      if (session.hasEnded()) tell({ kind: 'end', why: 'ended' })
    }
    for (const text of early) onCommand(text)
  } catch (error) {
    fault(error)
    tell({ kind: 'end', why: 'failed' })
  }
}
