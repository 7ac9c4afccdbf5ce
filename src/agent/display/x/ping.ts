// Checks whether the program in front has handled its input: it answers EWMH's _NET_WM_PING in order, after all earlier events.
import { sleep, WaitTimeout, within } from '../../../base/wait.ts'
import type { XConnection, Xid } from './x11.ts'

/** Chromium answers within 1 ms when idle. While it opens a window, 100-200 ms were measured. */
const PING_MS = 10_000
/** The limit for callers that continue without an answer: long enough for a busy machine, short enough for a user who closes a window that hangs. */
const PATIENCE_MS = 2_000
/** The wait for a program that does not support pings. */
const BLIND_MS = 50

export interface Ping {
  /** Resolves when the owner of `window` has handled every event sent to it before, or the window is gone. @throws WaitTimeout when it does not answer */
  handled(window: Xid | undefined): Promise<void>
  /**
   * The same for a caller that continues in any case: resolves with false when the owner does not answer within {@link PATIENCE_MS}. From then on,
   * until it answers, the owner counts as hanging, and calls do not wait for it.
   */
  answers(window: Xid | undefined): Promise<boolean>
}

/** Listens for answers on the root window. They arrive there because the agent is the window manager. */
export async function openPing({ x, root, ask, atom }: XConnection): Promise<Ping> {
  const [protocols, ping] = await Promise.all([atom('WM_PROTOCOLS'), atom('_NET_WM_PING')])
  const waiting = new Map<number, { window: Xid; done: () => void }>()
  /** Windows whose owner did not answer in time, and has not answered since. */
  const hanging = new Set<Xid>()
  let count = 0
  x.on('event', (event: { name: string; wid: Xid; message_type: number; data: number[] }) => {
    if (event.name === 'ClientMessage' && event.wid === root && event.message_type === protocols && event.data[0] === ping) {
      hanging.delete(event.data[2]!)
      waiting.get(event.data[1]!)?.done()
    }
    if (event.name !== 'DestroyNotify') return
    hanging.delete(event.wid)
    for (const { window, done } of waiting.values()) if (window === event.wid) done()
  })

  async function knowsPings(window: Xid): Promise<boolean> {
    // If the window closes meanwhile, there is nothing to wait for.
    const none = { data: Buffer.alloc(0) }
    const { data } = await ask<{ data: Buffer }>((done) => x.GetProperty(0, window, protocols, x.atoms.ATOM!, 0, 64, done)).catch(() => none)
    return Array.from({ length: data.length >> 2 }, (_, index) => data.readUInt32LE(index * 4)).includes(ping)
  }

  async function handled(window: Xid | undefined, ms = PING_MS): Promise<void> {
    if (window === undefined) return sleep(BLIND_MS)
    // The answer contains the same time stamp. Send a counter in its place, to match answers to pings.
    const number = (count = (count % 0x7fff_ffff) + 1)
    const { promise, resolve: done } = Promise.withResolvers<void>()
    // Before any question to the server: the window may close right after its answer.
    waiting.set(number, { window, done })
    try {
      if (!(await knowsPings(window))) return await sleep(BLIND_MS)
      x.SendEvent(window, false, 0, { name: 'ClientMessage', format: 32, wid: window, message_type: protocols, data: [ping, number, window] })
      await within('the window in front', ms, promise)
    } finally {
      waiting.delete(number)
    }
  }

  async function answers(window: Xid | undefined): Promise<boolean> {
    if (window !== undefined && hanging.has(window)) return false
    try {
      await handled(window, PATIENCE_MS)
      return true
    } catch (error) {
      if (!(error instanceof WaitTimeout) || window === undefined) throw error
      hanging.add(window)
      return false
    }
  }

  return { handled, answers }
}
