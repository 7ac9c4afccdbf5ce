// The clipboard: X's CLIPBOARD selection, shared by pages and callers.
import { Mutex } from '../../../base/mutex.ts'
import { resultWithin, within } from '../../../base/wait.ts'
import { fault } from '../../../http/fault.ts'
import type { Clipboard } from '../display.ts'
import { serveSelection, type Held, type SelectionRequest } from './selection.ts'
import { eventMask, type XConnection, type Xid } from './x11.ts'

/** How long the owner may take to answer, and for each part of a long text. Chromium answers within 5 ms. */
const OWNER_MS = 5_000
/** The most that is read, in bytes of UTF-8. */
const MAX_READ_BYTES = 64 * 1024 * 1024
/** The answer to a request that timed out may still arrive in the property that it named, so the next requests name others. */
const PROPERTIES = 8

const NEW_VALUE = 0
/** The length that asks GetProperty for everything, in units of 4 bytes. */
const ALL = 0x1fff_ffff
/** XFixes: a new owner, the owner's window destroyed, the owner's connection closed. */
const EVERY_CHANGE = 7

interface XEvent extends SelectionRequest {
  name: string
  wid: Xid
  atom: number
  state: number
  /** Only in XFixes' SelectionNotify: how the owner changed, and since when. */
  subtype?: number
  selectionTimestamp: number
}

/** Opens the clipboard of a display, for as long as the connection lives. */
export async function openClipboard(connection: XConnection): Promise<Clipboard> {
  const { x, root, ask, atom, fixes } = connection
  const [clipboard, utf8, plain, incr] = (await Promise.all(['CLIPBOARD', 'UTF8_STRING', 'text/plain;charset=utf-8', 'INCR'].map(atom))) as [
    number,
    number,
    number,
    number,
  ]
  const properties = await Promise.all(Array.from({ length: PROPERTIES }, (_, index) => atom(`COB_CLIPBOARD_${index}`)))
  const serve = await serveSelection(connection)
  const window = x.AllocID()
  x.CreateWindow(window, root, -1, -1, 1, 1, 0, 0, 0, 0, { eventMask: eventMask.PropertyChange })
  fixes.SelectSelectionInput(window, clipboard, EVERY_CHANGE)

  const turns = new Mutex()
  const listeners = new Set<(event: XEvent) => void>()
  /** `held` is our text while we own the selection; `next` replaces it when the server confirms. */
  let held: Held | undefined
  let next: string | undefined
  let lastChange = -Infinity
  let reads = 0

  const changedHands = ({ name, subtype, selection }: XEvent) => name === 'SelectionNotify' && subtype !== undefined && selection === clipboard
  x.on('event', (event: XEvent) => {
    if (changedHands(event)) {
      held = event.owner === window && next !== undefined ? { text: next, time: event.selectionTimestamp } : undefined
      lastChange = performance.now()
    } else if (event.name === 'SelectionRequest' && event.owner === window && event.selection === clipboard) serve(event, held)
    for (const listener of listeners) listener(event)
  })

  /** Sends a request and waits for the first event that `answers` it. */
  async function received(answers: (event: XEvent) => boolean, ask: () => void, signal: AbortSignal): Promise<XEvent> {
    const { promise, resolve } = Promise.withResolvers<XEvent>()
    const listener = (event: XEvent) => answers(event) && resolve(event)
    listeners.add(listener)
    try {
      ask()
      return await within('the owner of the clipboard', OWNER_MS, promise, signal)
    } finally {
      listeners.delete(listener)
    }
  }

  /** Asks the owner for its content as `target`; undefined when it has none of that type. */
  async function convert(target: number, signal: AbortSignal): Promise<Buffer | undefined> {
    const property = properties[reads++ % PROPERTIES]!
    x.DeleteProperty(window, property)
    // An owner that has nothing names no property; one that answers a request that has timed out names another.
    const names = (event: XEvent) => event.property === property || event.property === 0
    const answer = await received(
      (event) => event.name === 'SelectionNotify' && event.subtype === undefined && event.requestor === window && event.target === target && names(event),
      () => x.ConvertSelection(window, clipboard, target, property, 0),
      signal,
    )
    return answer.property === 0 ? undefined : collect(property, signal)
  }

  /** Reads a whole property: at once, or in parts (INCR). The owner writes the next part after we have taken the previous one. */
  async function collect(property: number, signal: AbortSignal): Promise<Buffer> {
    const take = () => ask<{ type: number; data: Buffer }>((done) => x.GetProperty(1, window, property, 0, 0, ALL, done))
    let arrived = 0
    let wake = () => {}
    const listener = (event: XEvent) => {
      if (event.name !== 'PropertyNotify' || event.wid !== window || event.atom !== property || event.state !== NEW_VALUE) return
      arrived++
      wake()
    }
    listeners.add(listener)
    try {
      const first = await take()
      if (first.type !== incr) return first.data
      const parts: Buffer[] = []
      for (let length = 0; length <= MAX_READ_BYTES;) {
        const { promise, resolve } = Promise.withResolvers<void>()
        wake = resolve
        if (arrived > parts.length) resolve()
        await within('the owner of the clipboard', OWNER_MS, promise, signal)
        const { data } = await take()
        if (data.length === 0) return Buffer.concat(parts)
        parts.push(data)
        length += data.length
      }
      throw fault.broken(`the clipboard holds more than ${MAX_READ_BYTES} bytes`)
    } finally {
      listeners.delete(listener)
    }
  }

  async function read(signal: AbortSignal): Promise<string> {
    if (held) return held.text
    if ((await ask<number>((done) => x.GetSelectionOwner(clipboard, done))) === 0) return ''
    const found = (await convert(utf8, signal)) ?? (await convert(plain, signal))
    return found?.toString('utf8') ?? ''
  }

  return {
    read: (signal) => turns.run(() => read(signal), signal),
    write: (text, signal) =>
      turns.run(async () => {
        next = text
        const ours = (event: XEvent) => changedHands(event) && event.owner === window
        await received(ours, () => x.SetSelectionOwner(window, clipboard, 0), signal)
      }, signal),
    async changed(since, until) {
      const left = until - performance.now()
      if (lastChange >= since || left <= 0) return lastChange >= since
      const { promise, resolve } = Promise.withResolvers<void>()
      const listener = (event: XEvent) => changedHands(event) && resolve()
      listeners.add(listener)
      await resultWithin(left, promise)
      listeners.delete(listener)
      return lastChange >= since
    },
  }
}
