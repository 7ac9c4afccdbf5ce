// The process inside an instance: starts Chromium on the display, serves the tools, and ends everything when it ends. It listens on standard input:
// the driver opened that socket outside the sandbox, so no program in here can replace it. In a container it listens at a port.
import '../base/own-program.ts'
import { flushCompileCache } from 'node:module'
import { setImmediate } from 'node:timers/promises'
import { takeKeys } from '../base/access.ts'
import { openWatchdog } from '../base/watchdog.ts'
import { makeLog } from '../base/log.ts'
import { sleep } from '../base/wait.ts'
import { EXTENSIONS_DIR } from './extensions/contract.ts'
import { displayReady, displaySaid } from './display/xvfb.ts'
import { guard } from './guard.ts'
import { LogRing } from './logs/ring.ts'
import { openSpeakers } from './recording/speakers.ts'
import { DISPLAY, DISPLAY_LOG, FRAMEBUFFER, PIPE_DIR, type AgentSpec } from './spec.ts'
import type { OnCrash } from './telemetry/crashes.ts'

const spec = JSON.parse(process.env.COB_AGENT ?? '{}') as AgentSpec
delete process.env.COB_AGENT
const keys = takeKeys()
const said = { chromium: new LogRing(), agent: new LogRing(), display: DISPLAY_LOG }
const log = makeLog('agent', spec.logLevel, (line) => said.agent.add(line.trimEnd()))
const stop = new AbortController()

// The X server starts at the same time (it is our child: the sandbox's shell became this process). Load the rest of the code meanwhile.
const display = displayReady(stop.signal)
display.catch(() => {})
const [{ connectX }, { openScreen }, { manageWindows }, { Keeper }] = await Promise.all([
  import('./display/x11.ts'),
  import('./display/screen.ts'),
  import('./display/windows.ts'),
  import('./chromium/keeper.ts'),
])
await display
const connection = await connectX(DISPLAY, (err) => log.debug({ err }, 'the X server refused a request'), stop.signal)
const screen = await openScreen(connection, FRAMEBUFFER, spec.viewport)
const windows = await manageWindows(connection, screen, log)
let onCrash: OnCrash = () => {}
const speakers = openSpeakers('/run/cob', log, (crash) => onCrash(crash))
const keeper = new Keeper(spec.chromium, screen, { ...process.env, DISPLAY, PULSE_COOKIE: '/run/cob/pulse/cookie' }, log, stop.signal, (line) =>
  said.chromium.add(line),
)
const up = keeper.run()

const [
  { pagesHandled },
  { writeExtensionPolicy, writePopupPolicy, writeProxyPolicy, writeSessionPolicy },
  { makeSetTimeZone },
  { openPageWindow },
  { openKeyboard },
  { openInput },
  { openClipboard },
  { watchDrags },
  { makeCurl },
  { makeBrowserProxy },
  { makeDownloads, openFiles },
  { openExtensionFolder },
  { extensionInstaller },
  { extensionLoader },
  { makePlaywright },
  { openProcesses },
  { openProfile },
  { openLive },
  { makeLogin },
  { openLogs },
  { keepSmall },
  { openRecordings },
  { makeCollectors },
  { openCapture },
  { crashTeller },
  { EventBuffer },
  { makeSecrets },
  { serveAgent },
  { sockets },
  { listenInside },
] = await Promise.all([
  import('./chromium/handled.ts'),
  import('./chromium/policies.ts'),
  import('./chromium/time-zone.ts'),
  import('./chromium/window.ts'),
  import('./computer/keyboard.ts'),
  import('./computer/held-input.ts'),
  import('./display/clipboard.ts'),
  import('./display/drags.ts'),
  import('./curl/curl.ts'),
  import('./egress/proxy.ts'),
  import('./fs/files.ts'),
  import('./extensions/folder.ts'),
  import('./extensions/installer.ts'),
  import('./extensions/loader.ts'),
  import('./playwright/playwright.ts'),
  import('./process/processes.ts'),
  import('./profile/profile.ts'),
  import('./live/view.ts'),
  import('./login/login.ts'),
  import('./logs/handlers.ts'),
  import('./logs/small.ts'),
  import('./recording/recordings.ts'),
  import('./telemetry/capture/collectors.ts'),
  import('./telemetry/capture/targets.ts'),
  import('./telemetry/crashes.ts'),
  import('./telemetry/event-buffer.ts'),
  import('../base/redact/redact.ts'),
  import('./serve.ts'),
  import('./session/sockets.ts'),
  import('./session/inside.ts'),
])
const handled = pagesHandled(keeper, log)
const desk = {
  screen,
  input: openInput(connection),
  keyboard: await openKeyboard(connection, windows.caughtUp),
  clipboard: await openClipboard(connection),
  caughtUp: windows.caughtUp,
  answers: windows.answers,
  drags: await watchDrags(connection),
  asPerson: () => keeper.asPerson,
  async settled() {
    // Three waits: the windows have received the input, the pages have handled it, and Chromium's own windows have changed.
    // A browser that hangs has received its input all the same.
    if (!(await windows.answers())) return
    await handled()
    await windows.answers()
  },
}
keepSmall(DISPLAY_LOG, log)
makeDownloads()
const files = openFiles('/home/kernel', log)
const processes = openProcesses(PIPE_DIR, log)
const logs = openLogs(said)
const eventBuffer = new EventBuffer()
onCrash = crashTeller(eventBuffer)
const recordings = openRecordings(screen, speakers, '/home/kernel', log, { onCrash, clock: () => eventBuffer.now() })
const proxy = makeBrowserProxy({ browser: keeper, writePolicy: writeProxyPolicy, apiPorts: spec.apiPorts, log })
const extensions = openExtensionFolder(EXTENSIONS_DIR)
const secrets = makeSecrets()
const passwords = new Set<string>()
openCapture({ browser: keeper, telemetry: eventBuffer, collectors: makeCollectors({ secrets, log }), secrets, log, signal: stop.signal })
const server = await serveAgent(
  {
    keeper,
    window: openPageWindow(keeper, screen, windows, log, stop.signal),
    writePolicy: writeSessionPolicy,
    writePopupPolicy,
    proxy,
    setTimeZone: makeSetTimeZone(keeper),
    desk,
    curl: makeCurl(keeper),
    playwright: makePlaywright(keeper, log),
    files,
    extensions,
    loader: extensionLoader({
      browser: keeper,
      dir: EXTENSIONS_DIR,
      folder: extensions,
      installer: extensionInstaller(keeper, writeExtensionPolicy),
      log,
    }),
    processes,
    login: makeLogin({ browser: keeper, secrets, eventBuffer, passwords, log }),
    logs,
    live: (inputQueue) => openLive(desk, inputQueue, eventBuffer, log),
    recordings,
    profile: openProfile(keeper, passwords),
    eventBuffer,
    secrets,
    watchdog: openWatchdog(spec.graceSeconds * 1000, () => void end('no service has come back', 0)),
    ready: up.then(() => {}),
  },
  keys,
  log,
)
if (!spec.isTrial) server.listen(listenAt())
listenInside(spec.id, spec.apiPorts, sockets(keeper, proxy, eventBuffer, log), log)

/** Without keys anybody who reaches the port could use it. */
function listenAt(): { fd: number } | { port: number } {
  if (spec.port === undefined) return { fd: 0 }
  if (!keys) throw new Error('the agent got no keys, and listens to nobody')
  return { port: spec.port }
}

/** For those who follow its telemetry or watch it to read why it ends. */
const LAST_WORDS_MS = 100

async function end(why: string, code: number): Promise<never> {
  log.info({ why }, 'the agent ends')
  stop.abort(new Error(why))
  eventBuffer.close()
  // Readers of its streams get the last events.
  await (code !== 0 ? sleep(LAST_WORDS_MS) : setImmediate())
  server.closeAllConnections()
  await keeper.close().catch((err: unknown) => log.warn({ err }, 'Chromium did not close'))
  await Promise.resolve(files[Symbol.asyncDispose]()).catch((err: unknown) => log.warn({ err }, 'a watch did not end'))
  connection.close()
  process.exit(code)
}
// From here on the agent survives exceptions. Before this line an exception means that it cannot start.
guard(log, (why) => void end(why, 1))
process.on('SIGTERM', () => void end('asked to', 0))
process.on('SIGINT', () => void end('asked to', 0))
keeper.on('given_up', (detail) => void end(detail, 1))
void connection.ended.then(() => {
  if (!stop.signal.aborted) {
    log.error({ said: displaySaid() }, 'the X server ended')
    onCrash({ service: 'xvfb', phase: 'running' })
  }
  return end('the X server ended', 1)
})
up.catch((err: unknown) => {
  log.error({ err }, 'Chromium did not start')
  void end('Chromium did not start', 1)
})
if (spec.isTrial) {
  await up
  flushCompileCache()
  await end('its code is compiled', 0)
}
