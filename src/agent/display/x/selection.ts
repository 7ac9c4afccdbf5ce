// Sends a selection's text to programs that paste it (ICCCM 2.2-2.6): at once, or in parts when it is long.
import { resultWithin } from '../../../base/wait.ts'
import { eventMask, type XConnection, type Xid } from './x11.ts'

/** Longer texts are sent in parts of this size, in bytes. A request without the BIG-REQUESTS extension holds at most 262,140. */
const PART_BYTES = 128 * 1024
/** A program that has not read a part for this long has given up. */
const PART_MS = 10_000

const REPLACE = 0
const DELETED = 1

export interface SelectionRequest {
  owner: Xid
  requestor: Xid
  selection: number
  target: number
  property: number
  time: number
}

/** A text that we own, and the server time at which we took the selection. */
export interface Held {
  text: string
  time: number
}

/** Answers requests for our text; while we own none, every request is refused. */
export async function serveSelection({ x, atom }: XConnection): Promise<(request: SelectionRequest, held: Held | undefined) => void> {
  const [targets, timestamp, incr, utf8, latin1, text, plain, plainUtf8] = (await Promise.all(
    ['TARGETS', 'TIMESTAMP', 'INCR', 'UTF8_STRING', 'STRING', 'TEXT', 'text/plain', 'text/plain;charset=utf-8'].map(atom),
  )) as [number, number, number, number, number, number, number, number]
  /** Long transfers in progress: the callback for "the last part was read". */
  const taken = new Map<string, () => void>()
  x.on('event', (event: { name: string; wid: Xid; atom: number; state: number }) => {
    if (event.name === 'PropertyNotify' && event.state === DELETED) taken.get(`${event.wid}:${event.atom}`)?.()
  })

  async function inParts(requestor: Xid, property: number, type: number, data: Buffer, tell: () => void): Promise<void> {
    const key = `${requestor}:${property}`
    const part = () => {
      const { promise, resolve } = Promise.withResolvers<boolean>()
      taken.set(key, () => resolve(true))
      return resultWithin(PART_MS, promise)
    }
    try {
      x.ChangeWindowAttributes(requestor, { eventMask: eventMask.PropertyChange! })
      let ready = part()
      x.ChangeProperty(REPLACE, requestor, property, incr, 32, [data.length])
      tell()
      // One more than the number of parts: an empty part marks the end.
      for (let at = 0; at <= data.length + PART_BYTES - 1; at += PART_BYTES) {
        if (!(await ready)) return
        ready = part()
        x.ChangeProperty(REPLACE, requestor, property, type, 8, data.subarray(at, at + PART_BYTES))
      }
      await ready
    } finally {
      taken.delete(key)
    }
  }

  function encode(content: string, target: number): Buffer | undefined {
    if ([utf8, plainUtf8, plain, text].includes(target)) return Buffer.from(content)
    // Refuse Latin-1 when the text holds other characters, because the conversion would lose them.
    return target === latin1 && !/[^\0-\xff]/.test(content) ? Buffer.from(content, 'latin1') : undefined
  }

  return ({ requestor, selection, target, property: wanted, time }, held) => {
    // Obsolete clients name no property; then the target's name is used (ICCCM 2.2).
    const property = wanted === 0 ? target : wanted
    const tell = (where: number) => x.SendEvent(requestor, false, 0, { name: 'SelectionNotify', seq: 0, time, requestor, selection, target, property: where })
    if (!held) return tell(0)
    if (target === targets) {
      x.ChangeProperty(REPLACE, requestor, property, x.atoms.ATOM!, 32, [targets, timestamp, utf8, plainUtf8, plain, text, latin1])
      return tell(property)
    }
    if (target === timestamp) {
      x.ChangeProperty(REPLACE, requestor, property, x.atoms.INTEGER!, 32, [held.time])
      return tell(property)
    }
    const data = encode(held.text, target)
    if (!data) return tell(0)
    const type = target === text ? utf8 : target
    if (data.length > PART_BYTES) return void inParts(requestor, property, type, data, () => tell(property))
    x.ChangeProperty(REPLACE, requestor, property, type, 8, data)
    tell(property)
  }
}
