// Tells of one client of the session's CDP WebSocket: that it is connected, which commands it sends, and how its connection ended. It watches bytes that are
// passed on anyway: what it does comes after they have been passed, changes nothing of them, and is nothing while neither is captured.
import { newId } from '../../../base/ids.ts'
import type { FrameBoundary, Witness } from '../../../http/splice.ts'
import { Window } from '../capture/share.ts'
import type { Source } from '../contract.ts'
import type { Telemetry } from '../telemetry.ts'
import { commandData, isReported, type Said } from './commands.ts'
import { Messages } from './messages.ts'
import { COMMAND_BYTES_A_SECOND } from '../limits.ts'

/** Why a connection ended, as the API has it: the browser is a new one now; the browser's side broke; the service ended it. */
export type Ending = 'client_close' | 'upstream_changed' | 'upstream_error' | 'context_cancelled'

const SOURCE: Source = { kind: 'kernel_api' }

const METHOD = /"method"\s*:\s*"([A-Za-z]+\.[A-Za-z]+)"/g
/** Of a message without this, the method comes after what is looked at. */
const HAS_METHOD = /"method"\s*:/

export interface CdpClient extends Pick<Witness, 'sent'> {
  /** Whether the client has said that it closes the connection; undefined when nobody watched. */
  readonly hasClosed: boolean
  /** Tells of its end. `why` is asked only when that is captured, after the time of the end has been taken. */
  end(why: () => Promise<Ending>): Promise<void>
}

/** Begins to tell of a client that has just connected. `answers` counts what it is sent. */
export function cdpClient(telemetry: Telemetry, answers: Pick<FrameBoundary, 'messages'>): CdpClient {
  const id = newId()
  const began = performance.now()
  const { floor } = telemetry
  let isWatching = false
  let isTelling = false
  let hasClosed = false
  /** Messages of the client while it watched, and those of the browser: less what there were when it began to watch. */
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

  /** Whether it may be a command that is told of. */
  function wants(beginning: Buffer, isWhole: boolean): boolean {
    if (!isTelling) return false
    const text = beginning.toString('latin1')
    METHOD.lastIndex = 0
    for (let found = METHOD.exec(text); found; found = METHOD.exec(text)) if (isReported(found[1])) return hasTime()
    if (!isWhole && !HAS_METHOD.test(text)) lose()
    return false
  }

  /** Whether there is time to read one more in this second; else it is lost. */
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
    // The name was found in an argument.
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
    /** Only notes the piece: it is to be passed on first. */
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
