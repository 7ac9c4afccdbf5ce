// The agent's HTTP server: its tools and their routes.
import type { IncomingMessage, Server } from 'node:http'
import { takeCredential, type ServerKeys } from '../base/access.ts'
import { STRANGERS } from '../base/anonymous.ts'
import type { Watchdog } from '../base/watchdog.ts'
import type { Log } from '../base/log.ts'
import { fault } from '../http/fault.ts'
import { mount, routeId } from '../http/mount.ts'
import type { Handlers } from '../http/route.ts'
import { makeServer } from '../http/server.ts'
import { mountUpgrades } from '../http/upgrade.ts'
import type { SessionBrowser } from './chromium/keeper.ts'
import type { SetTimeZone } from './chromium/time-zone.ts'
import type { Pages } from './chromium/pages.ts'
import type { PageWindow } from './chromium/window.ts'
import { computerHandlers, type Computer } from './computer/handlers.ts'
import { makeInputQueue, type InputQueue } from './computer/input-queue.ts'
import type { Curl } from './curl/curl.ts'
import { curlHandlers } from './curl/handlers.ts'
import type { BrowserProxy } from './egress/proxy.ts'
import type { ExtensionFolder } from './extensions/folder.ts'
import { extensionHandlers, stagingHandlers } from './extensions/handlers.ts'
import type { ExtensionLoader } from './extensions/loader.ts'
import { filesystemHandlers, type Files } from './fs/handlers.ts'
import type { Live } from './live/view.ts'
import { liveSockets } from './live/sockets.ts'
import { loginHandlers } from './login/handlers.ts'
import type { Login } from './login/login.ts'
import { logHandlers, type Logs } from './logs/handlers.ts'
import { playwrightHandlers } from './playwright/handlers.ts'
import type { Playwright } from './playwright/playwright.ts'
import { processHandlers, type ProcessTable } from './process/handlers.ts'
import { profileHandlers, type Profile } from './profile/handlers.ts'
import { recordingHandlers } from './recording/handlers.ts'
import type { Recordings } from './recording/recordings.ts'
import { Clients } from './session/clients.ts'
import { SOCKETS } from './session/contract.ts'
import { makeFitting } from './session/fit/fitting.ts'
import { fitSteps } from './session/fit/steps.ts'
import { sessionHandlers } from './session/handlers.ts'
import { sockets } from './session/sockets.ts'
import { telemetryFeedHandlers, telemetryHandlers } from './telemetry/handlers.ts'
import { tellCalls } from './telemetry/calls.ts'
import { crashTeller, tellChromiumCrashes } from './telemetry/crashes.ts'
import { thumbnailHandlers } from './thumbnail/handlers.ts'
import { makeThumbnails } from './thumbnail/thumbnail.ts'
import { contractsOf, idsOf, TOOLS } from './contract.ts'
import type { Secrets } from '../base/redact/redact.ts'
import type { EventBuffer } from './telemetry/event-buffer.ts'

/** The prefix of the paths of links. */
const LINKS = SOCKETS.links.slice(0, SOCKETS.links.indexOf('{'))

/** The parts that the tools use: real in an instance, simulated by the fake driver. */
export interface Workplace {
  keeper: SessionBrowser
  pages: Pages
  window: PageWindow
  /** Replaces a lean browser by the full one. Resolves at once where it is that already. @throws 503; then the lean one goes on */
  becomeFull: () => Promise<void>
  /** Writes the session's own managed policies. */
  writePolicy: (policy: Record<string, unknown>) => void
  /** Writes the policy of sessions with stealth. */
  writePopupPolicy: () => void
  /** The proxy of the browser. */
  proxy: BrowserProxy
  setTimeZone: SetTimeZone
  desk: Computer
  curl: Curl
  playwright: Playwright
  files: Files
  extensions: ExtensionFolder
  loader: ExtensionLoader
  processes: ProcessTable
  /** Logging in, for the service itself. */
  login: Login
  logs: Logs
  /** The live view; viewers that control share `inputQueue` with callers' actions. */
  live: (inputQueue: InputQueue) => Live
  recordings: Recordings
  profile: Profile
  /** The telemetry of the session. */
  eventBuffer: EventBuffer
  /** Secrets that its events must not contain. */
  secrets: Pick<Secrets, 'forget'>
  /** Ends the instance when no service has watched it for too long. */
  watchdog: Watchdog
  /** Settles when the browser has started for the first time. */
  ready: Promise<void>
  /** Lets the browser of a prepared instance start. Without effect at others, and when called again. */
  begin: () => void
}

type ToolName = keyof typeof TOOLS
/** The handlers of every tool. */
type ToolHandlers = { [N in ToolName]: Handlers<(typeof TOOLS)[N]['contract']> }

/** Makes the agent's server, not yet listening. With `keys` it uses TLS, and answers only requests with their credential. */
export async function serveAgent(workplace: Workplace, keys: ServerKeys | undefined, log: Log): Promise<Server> {
  const { keeper, desk, eventBuffer, proxy } = workplace
  const context = makeServer({ log, authenticate: async () => undefined, ...(keys && { tls: keys, anonymous: STRANGERS }) })
  const { app } = context
  const admit = (request: IncomingMessage) => {
    if (keys && !takeCredential(request, keys)) throw fault.unauthorized("the agent's credential is missing or wrong")
    context.known(request.socket)
  }
  app.addHook('onRequest', async ({ raw }, reply) => {
    try {
      admit(raw)
    } catch (error) {
      // A client without the credential loses its connection.
      void reply.header('connection', 'close')
      throw error
    }
  })
  const clients = new Clients()
  // Links carry the traffic of the browser itself.
  app.server.on('upgrade', ({ url = '' }, socket) => {
    if (!url.startsWith(LINKS)) clients.add(socket)
  })
  const ofClients = new Set(idsOf(contractsOf(({ isForClients }) => isForClients === true)))
  app.addHook('onRequest', async (request, reply) => {
    if (ofClients.has(routeId(request))) clients.add(reply.raw)
  })
  tellCalls(app, eventBuffer)
  tellChromiumCrashes(keeper, crashTeller(eventBuffer))
  const inputQueue = makeInputQueue(desk.input, desk.keyboard, (signal) => keeper.painted(signal))
  const handlers = handlersOf(workplace, inputQueue, clients, log)
  const mountTool = <N extends ToolName>(name: N) => mount(context, TOOLS[name].contract, handlers[name])
  for (const name of Object.keys(TOOLS) as ToolName[]) mountTool(name)
  const ofLive = liveSockets(workplace.live(inputQueue), log)
  mountUpgrades(app.server, log, { ...sockets(keeper, proxy, eventBuffer, log), ...ofLive }, { admit })
  await app.ready()
  return app.server
}

function handlersOf(workplace: Workplace, inputQueue: InputQueue, clients: Clients, log: Log): ToolHandlers {
  const { keeper, desk, extensions, processes, recordings, files, eventBuffer } = workplace
  const fitting = makeFitting(fitSteps({ ...workplace, browser: keeper, screen: desk.screen, inputQueue, log }), workplace.becomeFull, log)
  keeper.onRestart(() => fitting.afterRestart())
  const activities = {
    process: () => processes.isRunning,
    recording: () => recordings.isRunning,
    file_watch: () => files.isWatching,
    download: () => keeper.isDownloading,
    recovery: () => keeper.isRecovering,
  }
  return {
    session: sessionHandlers(keeper, workplace.pages, desk.screen, fitting, workplace.ready, workplace.begin, workplace.watchdog, activities, clients),
    computer: computerHandlers(desk, Math.random, inputQueue),
    curl: curlHandlers(workplace.curl),
    playwright: playwrightHandlers(workplace.playwright),
    filesystem: filesystemHandlers(files),
    processes: processHandlers(processes),
    login: loginHandlers(workplace.login),
    logs: logHandlers(workplace.logs),
    recording: recordingHandlers(recordings),
    extensions: extensionHandlers(extensions, fitting),
    extensionStaging: stagingHandlers(extensions),
    profile: profileHandlers(workplace.profile, fitting),
    telemetry: telemetryHandlers(eventBuffer),
    telemetryFeed: telemetryFeedHandlers(eventBuffer),
    thumbnail: thumbnailHandlers(makeThumbnails(desk.screen)),
  }
}
