// Connecting to a browser that hangs.
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { afterEach, expect, test, vi } from 'vitest'
import { within } from '../../base/wait.ts'
import type { ChromiumRun } from '../chromium/process.ts'
import { Targets } from './targets.ts'

const SOON_MS = 5_000
/** As in cdp-socket.ts. */
const CONNECT_MS = 10_000

afterEach(() => void vi.useRealTimers())

test('a request that a browser has not taken fails at once, and the next one connects anew: it need not wait for an end that does not come', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  const sockets: Socket[] = []
  server.on('connection', (socket) => sockets.push(socket.on('error', () => {}).resume()))
  await once(server, 'listening')
  try {
    const hangs = { port: (server.address() as AddressInfo).port, browserPath: '/devtools', exited: new Promise(() => {}) } as unknown as ChromiumRun
    const targets = new Targets({ run: async () => hangs })
    const { signal } = new AbortController()
    const later = setTimeout
    const soon = async <T>(promise: Promise<T>): Promise<T> =>
      Promise.race([promise, new Promise<never>((_, reject) => later(() => reject(new Error('nothing came')), SOON_MS).unref())])
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const connected = once(server, 'connection')
    const first = targets.take(signal).catch((error: Error) => error.message)
    await soon(connected)
    await vi.advanceTimersByTimeAsync(CONNECT_MS)
    expect(await soon(first)).toContain('a CDP connection')
    const again = once(server, 'connection')
    const second = targets.take(signal).catch((error: Error) => error.message)
    await soon(again)
    await vi.advanceTimersByTimeAsync(CONNECT_MS)
    await soon(second)
  } finally {
    vi.useRealTimers()
    for (const socket of sockets) socket.destroy()
    await within('the server to close', SOON_MS, new Promise((resolve) => server.close(resolve)))
  }
})
