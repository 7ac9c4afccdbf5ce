// The live view inside an instance: its viewers, their rights, and the clipboard between them and the session.
import type { WebSocket } from 'ws'
import { newId } from '../../base/ids.ts'
import type { Log } from '../../base/log.ts'
import type { Computer } from '../computer/handlers.ts'
import type { InputQueue } from '../computer/input-queue.ts'
import type { Picture } from '../display/display.ts'
import type { Source } from '../telemetry/contract.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import { joinViewer, MAX_TEXT, PICTURE_ENDED, type Viewer } from './viewer.ts'
import { ViewerInput } from './viewer-input.ts'

/** Most viewers of a session at the same time; each costs memory and the sending of pictures. */
const MAX_VIEWERS = 32
/** WebSocket close code: try again later. */
const TOO_MANY = 1013
/** Longest single wait for a clipboard change, so that the loop ends soon after the last viewer has left. */
const CLIPBOARD_WAIT_MS = 30_000

const SOURCE: Source = { kind: 'kernel_api' }

export interface Live {
  /** Adds a viewer, whose WebSocket is open. Resolves when it has left. */
  join(client: WebSocket, control: boolean): Promise<void>
}

/** The live view of a desk, with the picture of its display. Viewers share `inputQueue`, and so their turns, with callers' actions. */
export function openLive(desk: Computer, picture: Picture, inputQueue: InputQueue, telemetry: Telemetry, log: Log): Live {
  const viewers = new Set<Viewer>()
  /** Viewers that may control. Only they receive the clipboard. */
  const actors = new Set<Viewer>()
  let text = ''
  let watching = false

  const tellCount = () => viewers.forEach((viewer) => viewer.tell({ type: 'viewers', count: viewers.size }))

  async function readClipboard(): Promise<string> {
    const found = await desk.clipboard.read(AbortSignal.timeout(CLIPBOARD_WAIT_MS)).catch((err: unknown) => log.debug({ err }, 'the clipboard was not read'))
    return found === undefined || found.length > MAX_TEXT ? '' : found
  }

  async function watchClipboard(): Promise<void> {
    if (watching) return
    watching = true
    try {
      let since = performance.now()
      while (actors.size > 0) {
        const changed = await desk.clipboard.changed(since, performance.now() + CLIPBOARD_WAIT_MS)
        since = performance.now()
        if (!changed || actors.size === 0) continue
        const found = await readClipboard()
        if (found === text || found === '') continue
        text = found
        actors.forEach((viewer) => viewer.tell({ type: 'clipboard', text, initial: false }))
      }
    } finally {
      watching = false
    }
  }

  async function greet(viewer: Viewer): Promise<void> {
    text = await readClipboard()
    if (text !== '') viewer.tell({ type: 'clipboard', text, initial: true })
    await watchClipboard()
  }

  return {
    async join(client, control) {
      if (viewers.size >= MAX_VIEWERS) return client.close(TOO_MANY, JSON.stringify({ reason: 'too_many_viewers' }))
      const left = new AbortController()
      const onClose = () => left.abort(new Error('the viewer left'))
      client.once('close', onClose)
      client.pause()
      const socket = await picture.connect(left.signal).catch((err: unknown) => {
        if (!left.signal.aborted) log.warn({ err }, 'the picture server did not start')
        client.resume()
        client.close(PICTURE_ENDED, JSON.stringify({ reason: 'no_picture' }))
      })
      if (!socket) return
      if (client.readyState !== client.OPEN) return void socket.destroy()
      const actor: ViewerInput | undefined = control
        ? new ViewerInput({
            desk,
            inputQueue,
            log,
            onWaiting: (waiting) => viewer.tell({ type: 'waiting', waiting }),
            isThere: () => viewer.isThere(),
          })
        : undefined
      const viewer: Viewer = joinViewer(client, socket, actor, log)
      client.resume()
      viewers.add(viewer)
      viewer.tell({ type: 'hello', control })
      tellCount()
      const began = performance.now()
      const { floor } = telemetry
      const id = newId()
      telemetry.emit({ type: 'live_view_connect', source: SOURCE, data: { session_id: id } })
      if (control) {
        actors.add(viewer)
        greet(viewer).catch((err: unknown) => log.warn({ err }, 'the clipboard cannot be watched'))
      }
      await viewer.ended
      const duration = Math.round((performance.now() - began) * 1000) / 1000
      if (telemetry.floor === floor) telemetry.emit({ type: 'live_view_disconnect', source: SOURCE, data: { session_id: id, duration_ms: duration } })
      viewers.delete(viewer)
      actors.delete(viewer)
      tellCount()
      await actor?.leave()
    },
  }
}
