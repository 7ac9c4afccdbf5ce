// A driver for tests: the agent's real routes over a fake screen and browser, in this process. Starts in milliseconds.
import { EventEmitter, once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { WebSocketServer } from 'ws'
import type { KeeperEvents, SessionBrowser } from '../../agent/chromium/keeper.ts'
import type { Pages } from '../../agent/chromium/pages.ts'
import type { Running } from '../../agent/chromium/process.ts'
import type { PageWindow } from '../../agent/chromium/window.ts'
import type { Computer } from '../../agent/computer/handlers.ts'
import type { Point } from '../../agent/computer/path.ts'
import type { Cursor } from '../../agent/display/display.ts'
import type { Screen } from '../../agent/display/display.ts'
import type { Curl } from '../../agent/curl/curl.ts'
import { ProxyListener } from '../../agent/egress/listener.ts'
import type { BrowserProxy } from '../../agent/egress/proxy.ts'
import { openExtensionFolder } from '../../agent/extensions/folder.ts'
import type { ExtensionLoader } from '../../agent/extensions/loader.ts'
import type { Files } from '../../agent/fs/handlers.ts'
import type { Live } from '../../agent/live/view.ts'
import type { Logs } from '../../agent/logs/handlers.ts'
import type { Playwright } from '../../agent/playwright/playwright.ts'
import type { ProcessTable } from '../../agent/process/handlers.ts'
import { serveAgent } from '../../agent/serve.ts'
import { EventBuffer } from '../../agent/telemetry/event-buffer.ts'
import { makeSecrets } from '../../base/redact/redact.ts'
import type { ServerKeys } from '../../base/access.ts'
import type { Watchdog } from '../../base/watchdog.ts'
import { silentLog } from '../../base/log.ts'
import type { DataPaths } from '../../base/paths.ts'
import { fault } from '../../http/fault.ts'
import { makeAgentKeys } from '../agent-keys.ts'
import type { Driver, Exit, Instance, InstanceSpec } from '../driver.ts'
import { fakeApps } from './apps.ts'
import { CHROMIUM, pretendProfile, type Memory } from './profile.ts'
import { pretendLogin } from './login.ts'
import { pretendRecordings } from './recordings.ts'
import { fakeStandby, forget } from './standby.ts'
import { registry } from './watchers.ts'

const instances = registry<Started>()

/** Makes the fake driver. With `overTls`, its agents are reached by TCP, as on another machine. */
export function fakeDriver(paths: DataPaths, { overTls = false, replica = '' } = {}): Driver {
  const { start, found, adopt } = instances(paths.root, paths.instances, replica)
  return {
    apps: fakeApps(paths, replica),
    standby: fakeStandby,
    async start(spec, signal) {
      signal.throwIfAborted()
      return start(spec.id, (onEnd) =>
        startFake(spec, paths, overTls, () => {
          onEnd()
          forget(spec.id)
        }),
      )
    },
    found,
    adopt,
    loadsPages: false,
    relieve: async () => undefined,
    async [Symbol.asyncDispose]() {},
  }
}

type Started = Omit<Instance, 'unwatch'>

async function startFake(spec: InstanceSpec, paths: DataPaths, overTls: boolean, onEnd: () => void): Promise<Started> {
  await using scope = new AsyncDisposableStack()
  const dir = paths.instance(spec.id)
  mkdirSync(dir, { recursive: true })
  scope.defer(() => rm(dir, { recursive: true, force: true }))
  const keys = overTls ? await makeAgentKeys() : undefined
  const server = await fakeAgent(spec, dir, keys?.server, scope)
  const socketPath = join(dir, 'agent.sock')
  if (keys) server.listen(0, '127.0.0.1')
  else server.listen(socketPath)
  await once(server, 'listening')
  const agent = keys ? { host: '127.0.0.1', port: (server.address() as AddressInfo).port, ...keys.pinned } : { socketPath }
  const exited = Promise.withResolvers<Exit>()
  scope.defer(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    onEnd()
    exited.resolve({ reason: 'ended' })
  })
  const owner = scope.move()
  return { id: spec.id, agent, exited: exited.promise, kill: () => server.closeAllConnections(), [Symbol.asyncDispose]: () => owner.disposeAsync() }
}

/** The server of a fake instance, not yet listening. `dir` is its folder; its other resources end with `scope`. */
export async function fakeAgent(
  spec: Pick<InstanceSpec, 'id' | 'viewport'>,
  dir: string,
  keys: ServerKeys | undefined,
  scope: AsyncDisposableStack,
): Promise<Server> {
  const cdp = await pretendChromium(scope)
  const recordings = scope.use(pretendRecordings(dir))
  const memory: Memory = { text: '' }
  return serveAgent(
    {
      keeper: cdp,
      pages: pretendPages,
      window: pretendWindow,
      becomeFull: async () => {},
      writePolicy() {},
      writePopupPolicy() {},
      proxy: pretendProxy(),
      setTimeZone: async () => {},
      desk: pretendDesk(spec, memory),
      curl: noCurl,
      playwright: noPlaywright,
      files: noFiles,
      extensions: openExtensionFolder(join(dir, 'extensions')),
      loader: pretendLoader,
      processes: noProcesses,
      login: pretendLogin(spec.id, scope),
      logs: noLogs,
      live: pretendLive,
      recordings,
      profile: pretendProfile(memory),
      eventBuffer: new EventBuffer(),
      secrets: makeSecrets(),
      watchdog: pretendWatchdog(),
      ready: Promise.resolve(),
      begin: () => {},
    },
    keys,
    silentLog,
  )
}

// Tests must not run programs or read files of this machine, so all of them are reported as missing.
const absent = (kind: string, id = '') => {
  throw fault.notFound(kind, id)
}
const noFiles: Files = {
  createDirectory: (path) => absent('directory', path),
  deleteDirectory: (path) => absent('directory', path),
  deleteFile: (path) => absent('file', path),
  info: (path) => absent('file or directory', path),
  list: (path) => absent('directory', path),
  move: (path) => absent('file or directory', path),
  read: (path) => absent('file', path),
  setPermissions: (path) => absent('file or directory', path),
  upload: () => absent('directory'),
  uploadZip: () => absent('directory'),
  isWatching: false,
  watch: (path) => absent('directory', path),
  watchEvents: (id) => absent('watch', id),
  stopWatch: (id) => absent('watch', id),
  write: (path) => absent('directory', path),
  zip: (path) => absent('directory', path),
}
/** Nothing is loaded; the folder is real, below the instance's own. */
const pretendLoader: ExtensionLoader = { load: async () => async () => {}, again: async () => async () => {} }
const noProcesses: ProcessTable = {
  isRunning: false,
  exec: ({ command }) => absent('program', command),
  spawn: ({ command }) => absent('program', command),
  status: (id) => absent('process', id),
  write: (id) => absent('process', id),
  output: (id) => absent('process', id),
  kill: (id) => absent('process', id),
  resize: (id) => absent('process', id),
}
const noPlaywright: Playwright = { execute: async () => absent('worker') }
const noCurl: Curl = { send: async ({ url }) => absent('host', url) }
/** Viewers receive their rights, and an echo of their messages. */
const pretendLive = (): Live => ({
  async join(client, control) {
    client.send(JSON.stringify({ type: 'hello', control }))
    client.on('message', (data, binary) => client.send(data, { binary }))
    await once(client, 'close')
  },
})
/** Accepts links like a real proxy. Its browser uses no proxy. */
function pretendProxy(): BrowserProxy {
  const listener = new ProxyListener()
  let isOn = false
  return {
    get isOn() {
      return isOn
    },
    async use({ on, links }) {
      isOn = on
      if (on) await listener.open(links!)
      else listener.close()
    },
    async confirmed() {},
    link: (key, socket, accept) => listener.link(key, socket, accept),
  }
}
const noLogs: Logs = { file: (path) => absent('file', path), program: (name) => absent('log', name) }

/** Fake input devices: a pointer that stays where it is put, a keyboard that has every key, a clipboard that keeps its text. */
function pretendDesk(spec: Pick<InstanceSpec, 'viewport'>, memory: Memory): Computer {
  let pointer: Point = [0, 0]
  return {
    screen: pretendScreen(spec),
    input: { move: (x, y) => void (pointer = [x, y]), key() {}, button() {}, pointer: async () => pointer, held: async () => ({ keys: [], buttons: [] }) },
    keyboard: {
      spares: 64,
      refresh: async () => {},
      has: () => true,
      strokes: async (keysyms) => keysyms.map((code) => ({ code, shift: false })),
      capsLock: async () => false,
      setCapsLock() {},
    },
    clipboard: { read: async () => memory.text, write: async (text) => void (memory.text = text), changed: async () => true },
    caughtUp: async () => {},
    answers: async () => true,
    drags: { isOn: false, cursors: 0, ended: async () => {} },
    settled: async () => {},
  }
}

function pretendScreen(spec: Pick<InstanceSpec, 'viewport'>): Screen {
  let viewport = spec.viewport
  let version = 0
  let hidden = false
  const cursor: Cursor = {
    get hidden() {
      return hidden
    },
    hide: (wanted) => void (hidden = wanted),
  }
  return {
    get viewport() {
      return viewport
    },
    cursor,
    resize: async (wanted) => void (viewport = wanted),
    version: async () => version,
    capture: async ({ width, height }) => ({
      pixels: { data: Buffer.alloc(width * height * 4, 0xff), stride: width * 4, width, height },
      version: ++version,
    }),
    copy: async (room) => (room(viewport).fill(0xff), { ...viewport, version }),
    watch: () => () => {},
    onResize() {},
  }
}

const pretendPages: Pages = {
  list: async () => ({
    version: { product: 'Pretended/1', protocolVersion: '1.3', userAgent: 'Pretended', jsVersion: '1', revision: '1' },
    targets: [{ id: 'page', type: 'page', title: '', url: 'about:blank' }],
  }),
  focus: async () => {},
  open: async () => async () => {},
}

const pretendWindow: PageWindow = {
  setFullscreen: async () => async () => {},
  fillsScreen: async () => {},
  pageFills: async () => {},
  holdFullscreen: async () => {},
}

/** A watchdog that never ends anything. */
function pretendWatchdog(): Watchdog {
  let allowedMs = 0
  return {
    watch: () => () => {},
    allow: (ms) => void (allowedMs = ms),
    get allowedMs() {
      return allowedMs
    },
  }
}

/** A WebSocket that answers every CDP command with an empty result; over HTTP, a protocol without commands. */
async function pretendChromium(scope: AsyncDisposableStack): Promise<SessionBrowser> {
  const http = createServer((_request, response) => response.end(JSON.stringify({ version: { major: '1', minor: '3' }, domains: [] })))
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
  const run: Running = {
    pid: process.pid,
    startedAt: performance.now(),
    version: `Pretended/${CHROMIUM}`,
    port: (http.address() as AddressInfo).port,
    browserPath: '/',
    exited: new Promise<never>(() => {}),
  }
  return Object.assign(new EventEmitter<KeeperEvents>(), {
    run: async () => run,
    runForClient: async () => run,
    restart: async () => void (run.startedAt = performance.now()),
    onRestart() {},
    isCurrent: () => true,
    painted: async () => {},
    restarts: 0,
    isDownloading: false,
    isRecovering: false,
    isFinished: false,
  })
}
