// Connects one viewer's WebSocket to the picture. Binary messages are RFB; text messages are JSON, for functions that RFB lacks.
import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import type { Log } from '../../base/log.ts'
import { ClientMessages, ProtocolError } from './messages.ts'
import type { ViewerInput } from './viewer-input.ts'

/** A ping of 8 bytes keeps proxies from closing an idle connection, and finds dead ones. */
const PING_MS = 20_000
/** A living client answers within one round trip. */
const PONG_MS = 5_000
/** Most bytes buffered for a slow connection; beyond that the picture pauses. */
const MAX_BUFFERED = 512 * 1024
/** Longest text that is copied or pasted, in characters; the same as for `clipboard/write`. */
export const MAX_TEXT = 8_000_000

/** Messages to a viewer's page. */
export type Sent =
  | { type: 'hello'; control: boolean }
  | { type: 'viewers'; count: number }
  | { type: 'waiting'; waiting: boolean }
  | { type: 'clipboard'; text: string; initial: boolean }

/** Messages from a viewer's page. */
type Tells = { type: 'clipboard'; text: string } | { type: 'hidden'; hidden: boolean }

/** WebSocket close codes: the picture server ended (try again), the message was not RFB, this page may not write. */
export const PICTURE_ENDED = 1012
const NOT_UNDERSTOOD = 1002

export interface Viewer {
  tell(what: Sent): void
  isThere(): Promise<boolean>
  /** Resolves when it has disconnected. */
  ended: Promise<void>
}

/** Connects a viewer to `picture`. Without `input` it only watches: its input is dropped here. */
export function joinViewer(client: WebSocket, picture: Duplex, input: ViewerInput | undefined, log: Log): Viewer {
  const { promise: ended, resolve: onEnd } = Promise.withResolvers<void>()
  const messages = new ClientMessages()
  let hidden = false

  const flow = () => (hidden || client.bufferedAmount > MAX_BUFFERED ? picture.pause() : picture.resume())
  picture.on('data', (chunk: Buffer) => {
    client.send(chunk, { binary: true }, () => picture.isPaused() && flow())
    if (client.bufferedAmount > MAX_BUFFERED) picture.pause()
  })
  picture.on('drain', () => client.resume())
  picture.on('error', (err) => log.debug({ err }, 'the picture broke off'))
  picture.on('close', () => {
    client.resume()
    client.close(PICTURE_ENDED, JSON.stringify({ reason: 'picture_ended' }))
  })

  const take = (data: Buffer) => {
    const passed: Buffer[] = []
    for (const message of messages.push(data)) {
      if ('pass' in message) passed.push(message.pass)
      if (message.kind === 'key') input?.key(message.keysym, message.down)
      else if (message.kind === 'pointer') input?.pointer(message.x, message.y, message.buttons)
    }
    // While the picture server waits for its reader, it reads nothing. Without this pause, a viewer that only sends requests would fill the agent's memory.
    if (passed.length > 0 && picture.writable && !picture.write(Buffer.concat(passed))) client.pause()
  }
  const hear = (tells: Tells | null) => {
    if (tells?.type === 'clipboard' && typeof tells.text === 'string' && tells.text.length <= MAX_TEXT) input?.text(tells.text)
    else if (tells?.type === 'hidden') {
      // The page is hidden: pause the picture, and with it the server. When it is visible again, all changes come at once.
      hidden = tells.hidden === true
      flow()
    }
  }
  client.on('message', (data, isBinary) => {
    try {
      if (isBinary) take(data as Buffer)
      else hear(JSON.parse((data as Buffer).toString()) as Tells | null)
    } catch (error) {
      if (!(error instanceof ProtocolError || error instanceof SyntaxError)) log.warn({ err: error }, 'a message of a viewer failed')
      client.close(NOT_UNDERSTOOD, JSON.stringify({ reason: 'not_understood' }))
    }
  })

  let answered = true
  const onPong: (() => void)[] = []
  client.on('pong', () => {
    answered = true
    for (const done of onPong.splice(0)) done()
  })
  const beat = setInterval(() => {
    if (!answered) return client.terminate()
    answered = false
    client.ping()
  }, PING_MS)
  beat.unref()

  client.on('error', (err) => log.debug({ err }, "a viewer's WebSocket broke"))
  client.on('close', () => {
    clearInterval(beat)
    picture.destroy()
    for (const done of onPong.splice(0)) done()
    onEnd()
  })
  const send = (what: Sent, onSent?: () => void) => {
    if (client.readyState === client.OPEN) client.send(JSON.stringify(what), onSent)
  }
  // Sends one copied text at a time, because each may have megabytes. A slow viewer gets the last one.
  let copying = false
  let late: Sent | undefined
  const tellCopied = (what: Sent) => {
    if (copying) {
      late = what
      return
    }
    copying = true
    send(what, () => {
      copying = false
      const next = late
      late = undefined
      if (next) tellCopied(next)
    })
  }
  return {
    ended,
    tell: (what) => (what.type === 'clipboard' ? tellCopied(what) : send(what)),
    isThere() {
      const { promise, resolve } = Promise.withResolvers<boolean>()
      const timer = setTimeout(() => resolve(false), PONG_MS)
      onPong.push(() => (clearTimeout(timer), resolve(true)))
      client.ping()
      return promise
    },
  }
}
