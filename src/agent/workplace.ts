// What the tools of an instance work with, and their server. Loaded while Chromium starts: its code takes longer to load than all that Chromium needs before.
import type { Server } from 'node:http'
import type { ServerKeys } from '../base/access.ts'
import type { Log } from '../base/log.ts'
import { makeSecrets } from '../base/redact/redact.ts'
import type { Watchdog } from '../base/watchdog.ts'
import { pagesHandled } from './chromium/handled.ts'
import type { Keeper } from './chromium/keeper.ts'
import { writeExtensionPolicy, writePopupPolicy, writeProxyPolicy, writeSessionPolicy } from './chromium/policies.ts'
import { openPages } from './chromium/pages.ts'
import { makeSetTimeZone } from './chromium/time-zone.ts'
import { openPageWindow } from './chromium/window.ts'
import type { Computer } from './computer/handlers.ts'
import { makeCurl } from './curl/curl.ts'
import type { Display } from './display/display.ts'
import { makeBrowserProxy } from './egress/proxy.ts'
import { EXTENSIONS_DIR } from './extensions/contract.ts'
import { openExtensionFolder } from './extensions/folder.ts'
import { extensionInstaller } from './extensions/installer.ts'
import { extensionLoader } from './extensions/loader.ts'
import { makeDownloads, openFiles } from './fs/files.ts'
import { openLive } from './live/view.ts'
import { makeLogin } from './login/login.ts'
import { openLogs } from './logs/handlers.ts'
import { makePlaywright } from './playwright/playwright.ts'
import { openProcesses } from './process/processes.ts'
import { openProfile } from './profile/profile.ts'
import { openRecordings } from './recording/recordings.ts'
import type { Speakers } from './recording/speakers.ts'
import { serveAgent, type Workplace } from './serve.ts'
import { listenInside } from './session/inside.ts'
import { sockets } from './session/sockets.ts'
import { PIPE_DIR, type AgentSpec } from './spec.ts'
import { makeCollectors } from './telemetry/capture/collectors.ts'
import { openCapture } from './telemetry/capture/targets.ts'
import { crashTeller, type OnCrash } from './telemetry/crashes.ts'
import { EventBuffer } from './telemetry/event-buffer.ts'

/** What is there before the tools are. */
interface Started {
  spec: AgentSpec
  keys: ServerKeys | undefined
  display: Display
  /** Replaces a lean browser by the full one. Resolves at once where it is that already. @throws 503; then the lean one goes on */
  becomeFull: () => Promise<void>
  speakers: Speakers
  keeper: Keeper
  /** Settles when Chromium has started for the first time. */
  up: Promise<unknown>
  /** Lets the browser of a prepared instance start. */
  begin: () => void
  watchdog: Watchdog
  /** What the programs of the instance print. */
  said: Parameters<typeof openLogs>[0]
  log: Log
  signal: AbortSignal
}

type OpenFiles = ReturnType<typeof openFiles>

/** The tools of the instance. */
export interface Tools {
  eventBuffer: EventBuffer
  files: OpenFiles
  onCrash: OnCrash
  /** Their server, not yet listening. */
  server: Server
  /** Serves the session's own URLs inside. */
  listenInside(): void
}

export async function openTools(started: Started): Promise<Tools> {
  const { spec, keys, keeper, log } = started
  const workplace = await openWorkplace(started)
  const { eventBuffer, files, proxy } = workplace
  const server = await serveAgent(workplace, keys, log)
  return {
    eventBuffer,
    files,
    onCrash: crashTeller(eventBuffer),
    server,
    listenInside: () => listenInside(spec.id, spec.apiPorts, sockets(keeper, proxy, eventBuffer, log), log),
  }
}

async function openWorkplace(started: Started): Promise<Workplace & { files: OpenFiles }> {
  const { spec, display, becomeFull, speakers, keeper, up, begin, watchdog, said, log, signal } = started
  const { screen, windows } = display
  const desk = await openDesk(started)
  makeDownloads()
  const eventBuffer = new EventBuffer()
  const secrets = makeSecrets()
  const passwords = new Set<string>()
  const folder = openExtensionFolder(EXTENSIONS_DIR)
  openCapture({ browser: keeper, telemetry: eventBuffer, collectors: makeCollectors({ secrets, log }), secrets, log, signal })
  return {
    keeper,
    pages: openPages(keeper, log),
    window: openPageWindow(keeper, screen, windows, log, signal),
    writePolicy: writeSessionPolicy,
    writePopupPolicy,
    proxy: makeBrowserProxy({ browser: keeper, writePolicy: writeProxyPolicy, apiPorts: spec.apiPorts, log }),
    setTimeZone: makeSetTimeZone(keeper),
    desk,
    curl: makeCurl(keeper),
    playwright: makePlaywright(keeper, log),
    files: openFiles('/home/kernel', log),
    extensions: folder,
    becomeFull,
    loader: extensionLoader({ browser: keeper, dir: EXTENSIONS_DIR, folder, installer: extensionInstaller(keeper, writeExtensionPolicy), log }),
    processes: openProcesses(PIPE_DIR, log),
    login: makeLogin({ browser: keeper, secrets, eventBuffer, passwords, log }),
    logs: openLogs(said),
    live: (inputQueue) => openLive(desk, display.openPicture(crashTeller(eventBuffer)), inputQueue, eventBuffer, log),
    recordings: openRecordings(screen, speakers, '/home/kernel', log, { onCrash: crashTeller(eventBuffer), clock: () => eventBuffer.now() }),
    profile: openProfile(keeper, passwords),
    eventBuffer,
    secrets,
    watchdog,
    ready: up.then(() => {}),
    begin,
  }
}

async function openDesk({ display, keeper, log }: Started): Promise<Computer> {
  const handled = pagesHandled(keeper, log)
  const { screen, windows } = display
  return {
    screen,
    ...(await display.openControls()),
    caughtUp: windows.caughtUp,
    answers: windows.answers,
    asPerson: () => keeper.asPerson,
    async settled() {
      // Three waits: the windows have received the input, the pages have handled it, and Chromium's own windows have changed.
      // A browser that hangs has received its input all the same.
      if (!(await windows.answers())) return
      await handled()
      await windows.answers()
    },
  }
}
