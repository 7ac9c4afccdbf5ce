// Whether the program in front has handled what was sent to it: EWMH's _NET_WM_PING, which it answers in its turn.
import { sleep, within } from '../../base/wait.ts'
import type { XConnection, Xid } from './x11.ts'

/** Chromium answers within 1 ms when idle; while it opens a window 100-200 ms were seen. */
const PING_MS = 10_000
/** What a program that knows no pings is given. */
const BLIND_MS = 50

/** Resolves when the owner of `window` has handled every event sent to it before, or the window is gone. @throws WaitTimeout when it does not answer */
export type Ping = (window: Xid | undefined) => Promise<void>

/** Listens for answers on the root window, whose manager we are. */
export async function openPing({ x, root, ask, atom }: XConnection): Promise<Ping> {
  const [protocols, ping] = await Promise.all([atom('WM_PROTOCOLS'), atom('_NET_WM_PING')])
  const waiting = new Map<number, { window: Xid; done: () => void }>()
  let count = 0
  x.on('event', (event: { name: string; wid: Xid; message_type: number; data: number[] }) => {
    if (event.name === 'ClientMessage' && event.wid === root && event.message_type === protocols && event.data[0] === ping) waiting.get(event.data[1]!)?.done()
    if (event.name === 'DestroyNotify') for (const { window, done } of waiting.values()) if (window === event.wid) done()
  })

  async function knowsPings(window: Xid): Promise<boolean> {
    // A window may go while we ask; then there is nothing to wait for.
    const none = { data: Buffer.alloc(0) }
    const { data } = await ask<{ data: Buffer }>((done) => x.GetProperty(0, window, protocols, x.atoms.ATOM!, 0, 64, done)).catch(() => none)
    return Array.from({ length: data.length >> 2 }, (_, index) => data.readUInt32LE(index * 4)).includes(ping)
  }

  return async (window) => {
    if (window === undefined || !(await knowsPings(window))) return sleep(BLIND_MS)
    // The time stamp comes back as it was sent; a number of our own in its place tells the answers apart.
    const number = (count = (count % 0x7fff_ffff) + 1)
    const { promise, resolve: done } = Promise.withResolvers<void>()
    waiting.set(number, { window, done })
    try {
      x.SendEvent(window, false, 0, { name: 'ClientMessage', format: 32, wid: window, message_type: protocols, data: [ping, number, window] })
      await within('the window in front', PING_MS, promise)
    } finally {
      waiting.delete(number)
    }
  }
}
