// Events of one client of the session's CDP WebSocket: its connection, its commands, and the end of its connection. It only watches bytes that are forwarded
// anyway: its work comes after they are forwarded, does not change them, and does nothing while neither is captured.
import { newId } from '../../../base/ids.ts'
import type { FrameBoundary, Witness } from '../../../http/splice.ts'
import { Window } from '../capture/share.ts'
import type { Source } from '../contract.ts'
import type { Telemetry } from '../telemetry.ts'
import { commandData, isReported, type Said } from './commands.ts'
import { Messages } from './messages.ts'
import { COMMAND_BYTES_A_SECOND } from '../limits.ts'

/** The reason of a connection's end in the API's terms: the browser is a new one now; the browser's side broke; the service ended it. */
export type Ending = 'client_close' | 'upstream_changed' | 'upstream_error' | 'context_cancelled'

const SOURCE: Source = { kind: 'kernel_api' }

const METHOD = /"method"\s*:\s*"([A-Za-z]+\.[A-Za-z]+)"/g
/** If a message does not match this, its method comes after the part that is read. */
const HAS_METHOD = /"method"\s*:/

export interface CdpClient extends Pick<Witness, 'sent'> {
  /** Whether the client has sent a close frame; undefined when nobody watched. */
  readonly hasClosed: boolean
  /** Emits the event of its end. `why` is called only when that is captured, after the time of the end was taken. */
  end(why: () => Promise<Ending>): Promise<void>
}

/** Starts the events of a client that has just connected. `answers` counts the messages to it. */
export function cdpClient(telemetry: Telemetry, answers: Pick<FrameBoundary, 'messages'>): CdpClient {
  const id = newId()
  const began = performance.now()
  const { floor } = telemetry
  let isWatching = false
  let isTelling = false
  let hasClosed = false
  /** Messages of the client and of the browser while they were watched. */
  let asked = 0
  let answered = 0
  let dropped = 0
  let excluded = 0
  const window = new Window({ bytes: COMMAND_BYTES_A_SECOND })
  const messages = new Messages()
  let waiting: Uint8Array[] = []

  const lose = () => {
    if (isTelling) dropped++
  }

  /** Whether a message may be a command that makes events. */
  function wants(beginning: Buffer, isWhole: boolean): boolean {
    if (!isTelling) return false
    const text = beginning.toString('latin1')
    METHOD.lastIndex = 0
    for (let found = METHOD.exec(text); found; found = METHOD.exec(text)) if (isReported(found[1])) return hasTime()
    if (!isWhole && !HAS_METHOD.test(text)) lose()
    return false
  }

  /** Whether there is time to read one more in this second; otherwise it is lost. */
  function hasTime(): boolean {
    const hasSome = window.fits('bytes', 0)
    if (!hasSome) lose()
    return hasSome
  }

  function got(text: Buffer): void {
    window.fits('bytes', text.length)
    const said = parsed(text)
    if (said === undefined) return lose()
    const { method } = said
    // The name was found in an argument and is no command.
    if (!isReported(method)) return
    if (telemetry.excluded.has(method)) return void excluded++
    const data = commandData(method, said, id)
    if (!data) return lose()
    if (telemetry.floor !== floor) return
    telemetry.emit({ type: 'cdp_command', source: { ...SOURCE, event: method }, data })
  }

  const reader = { wants, got, lost: lose, passed: () => void asked++, closes: () => void (hasClosed = true) }
  function work(): void {
    const chunks = waiting
    waiting = []
    for (const chunk of chunks) messages.push(chunk)
  }

  function follow(): void {
    isTelling = telemetry.captures('control')
    const watches = isTelling || telemetry.captures('connection')
    if (watches === isWatching) return
    isWatching = watches
    work()
    answered += watches ? -answers.messages : answers.messages
    messages.reader = watches ? reader : undefined
  }
  const stop = telemetry.onChange(follow)
  follow()
  if (telemetry.captures('connection')) telemetry.emit({ type: 'cdp_connect', source: SOURCE, data: { connection_id: id } })

  return {
    /** Only stores the piece: it must be forwarded first. */
    sent(chunk) {
      if (waiting.push(chunk) === 1) queueMicrotask(work)
    },
    get hasClosed() {
      return hasClosed
    },
    async end(why) {
      work()
      const duration = performance.now() - began
      const captured = telemetry.captures('connection')
      stop()
      if (!captured) return
      const data = {
        connection_id: id,
        duration_ms: Math.round(duration * 1000) / 1000,
        message_count: asked + answered + answers.messages,
        reason: await why(),
        telemetry_dropped: dropped,
        telemetry_excluded: excluded,
      }
      if (telemetry.floor === floor) telemetry.emit({ type: 'cdp_disconnect', source: SOURCE, data })
    },
  }
}

function parsed(text: Buffer): Said | undefined {
  try {
    const said: unknown = JSON.parse(text.toString())
    return typeof said === 'object' && said !== null ? said : undefined
  } catch {
    return undefined
  }
}
