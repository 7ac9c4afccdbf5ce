// A driver for tests: the agent's real routes over a pretended screen and browser, in this process. Starts in milliseconds.
import { EventEmitter, once } from 'node:events'
import { mkdirSync, readdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { WebSocketServer } from 'ws'
import type { Browser, KeeperEvents } from '../../agent/chromium/keeper.ts'
import { makeHands } from '../../agent/computer/hands.ts'
import { keysymOf } from '../../agent/computer/keyboard.ts'
import type { Screen } from '../../agent/display/screen.ts'
import { serveAgent } from '../../agent/serve.ts'
import { silentLog } from '../../base/log.ts'
import type { DataPaths } from '../../base/paths.ts'
import { fault } from '../../http/fault.ts'
import type { Driver, Exit, Instance, InstanceSpec } from '../driver.ts'

/** Instances of this process by data directory: they outlive a control plane, as real ones do. */
const running = new Map<string, Map<string, Instance>>()

/** Makes the fake driver. */
export function fakeDriver(paths: DataPaths): Driver {
  const mine = running.get(paths.root) ?? new Map<string, Instance>()
  running.set(paths.root, mine)
  return {
    async start(spec, signal) {
      signal.throwIfAborted()
      const instance = await startFake(spec, paths, () => mine.delete(spec.id))
      mine.set(spec.id, instance)
      return instance
    },
    async list() {
      for (const id of readdirSync(paths.instances)) if (!mine.has(id)) await rm(paths.instance(id), { recursive: true, force: true })
      return [...mine.values()]
    },
  }
}

async function startFake(spec: InstanceSpec, paths: DataPaths, onEnd: () => void): Promise<Instance> {
  await using scope = new AsyncDisposableStack()
  const dir = paths.instance(spec.id)
  mkdirSync(dir, { recursive: true })
  scope.defer(() => rm(dir, { recursive: true, force: true }))
  const cdp = await pretendChromium(scope)
  const screen = pretendScreen(spec)
  const input = { xtest: { FakeInput() {}, KeyPress: 2, KeyRelease: 3, ButtonPress: 4, ButtonRelease: 5, MotionNotify: 6 }, root: 1, sync: async () => {} }
  const keyboard = {
    codes: (names: readonly string[], field: string) =>
      names.map((name, index) => {
        const keysym = keysymOf(name)
        if (keysym === undefined) throw fault.field(`${field}.${index}`, `there is no key "${name}"`)
        return keysym
      }),
    press() {},
    release() {},
  }
  const server = await serveAgent({ keeper: cdp, screen, hands: makeHands(input, screen, keyboard), ready: Promise.resolve() }, undefined, silentLog)
  const socketPath = join(dir, 'agent.sock')
  server.listen(socketPath)
  await once(server, 'listening')
  const exited = Promise.withResolvers<Exit>()
  scope.defer(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    onEnd()
    exited.resolve({ reason: 'ended' })
  })
  const owner = scope.move()
  return { id: spec.id, agent: { socketPath }, exited: exited.promise, [Symbol.asyncDispose]: () => owner.disposeAsync() }
}

function pretendScreen(spec: InstanceSpec): Screen {
  let viewport = spec.viewport
  return {
    get viewport() {
      return viewport
    },
    resize: async (wanted) => void (viewport = wanted),
    capture: async ({ width, height }) => ({ data: Buffer.alloc(width * height * 4, 0xff), stride: width * 4, width, height }),
    onResize() {},
  }
}

/** A WebSocket that answers every CDP command with an empty result. */
async function pretendChromium(scope: AsyncDisposableStack): Promise<Browser> {
  const http = createServer()
  const sockets = new WebSocketServer({ server: http })
  sockets.on('connection', (socket) =>
    socket.on('message', (data) => socket.send(JSON.stringify({ id: (JSON.parse((data as Buffer).toString()) as { id: number }).id, result: {} }))),
  )
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  scope.defer(async () => {
    for (const client of sockets.clients) client.terminate()
    http.closeAllConnections()
    await new Promise((resolve) => http.close(resolve))
  })
  const events = new EventEmitter<KeeperEvents>()
  const pipe = { send: async () => ({ sessionId: 'fake', windowId: 1 }) as never, on() {} }
  const run = {
    pid: 0,
    version: 'Pretended/1',
    pipe,
    port: (http.address() as AddressInfo).port,
    browserPath: '/',
    firstPage: 'page',
    exited: new Promise<never>(() => {}),
    close: async () => {},
  }
  return Object.assign(events, { run: async () => run, setPolicy: async () => {}, setFullscreen: async () => {}, restarts: 0 }) as unknown as Browser
}
