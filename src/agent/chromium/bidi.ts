// WebDriver BiDi on top of the running browser: chromium-bidi's mapper, in the agent instead of in a hidden tab.
import { BidiMapper } from 'chromium-bidi'
import { BidiParser } from 'chromium-bidi/out/Default/gen/src/bidiTab/BidiParser.js'
import { MapperCdpConnection } from 'chromium-bidi/out/Default/gen/src/cdp/CdpConnection.js'
import { once } from 'node:events'
import { WebSocket } from 'ws'
import type { Log } from '../../base/log.ts'
import { within } from '../../base/wait.ts'
import { CRASHED } from './crashed.ts'

const CDP_CONNECT_MS = 10_000

interface Command {
  id: number
  method: string
  params: Record<string, unknown>
}

/** Serves one BiDi client until it leaves or the browser does. Leaving never ends the browser. */
export async function connectBidi(client: WebSocket, browserUrl: string, log: Log): Promise<void> {
  const early: string[] = []
  let onCommand: (text: string) => void = (text) => early.push(text)
  client.on('message', (data) => onCommand((data as Buffer).toString()))
  const cdp = new WebSocket(browserUrl, { perMessageDeflate: false, maxPayload: 0 })
  cdp.on('error', (err) => log.debug({ err }, 'the BiDi mapper lost the browser'))
  client.on('close', () => cdp.close())
  cdp.on('close', () => client.close(CRASHED.code, JSON.stringify(CRASHED.reason)))
  await within('CDP for BiDi', CDP_CONNECT_MS, once(cdp, 'open'))

  const connection = new MapperCdpConnection({
    setOnMessage: (handler) => void cdp.on('message', (data) => void handler((data as Buffer).toString())),
    sendMessage: (message) => cdp.send(message),
    close: () => cdp.close(),
  })
  const browser = await connection.createBrowserSession()
  let handle: (command: Command) => unknown = () => {}
  const answer = (message: object) => {
    if (client.readyState === WebSocket.OPEN) client.send(JSON.stringify(message))
  }
  const server = await BidiMapper.BidiServer.createAndStart(
    { setOnMessage: (handler) => void (handle = handler as never), sendMessage: answer, close: () => client.close() },
    connection,
    browser,
    '',
    new BidiParser(),
  )
  onCommand = (text) => {
    const command = parse(text)
    if (!command) return answer({ type: 'error', id: null, error: 'invalid argument', message: 'not a BiDi command: an object with id, method and params' })
    // Ending a BiDi session leaves the browser to whoever else uses it; the mapper leaves this command to its host.
    if (command.method === 'session.end') {
      answer({ type: 'success', id: command.id, result: {} })
      return client.close(1000)
    }
    handle(command)
  }
  for (const text of early) onCommand(text)
  client.on('close', () => server.close())
}

function parse(text: string): Command | undefined {
  try {
    const command = JSON.parse(text) as Command
    const isCommand = Number.isSafeInteger(command.id) && typeof command.method === 'string' && typeof command.params === 'object' && command.params !== null
    return isCommand ? command : undefined
  } catch {
    return undefined
  }
}
