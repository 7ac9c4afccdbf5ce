// The agent's HTTP server: its tools and their routes.
import type { IncomingMessage, Server } from 'node:http'
import { takeCredential, type ServerKeys } from '../base/access.ts'
import { STRANGERS } from '../base/anonymous.ts'
import type { Watchdog } from '../base/watchdog.ts'
import type { Log } from '../base/log.ts'
import { fault } from '../http/fault.ts'
import { mount, routeId } from '../http/mount.ts'
import type { Contract } from '../http/route.ts'
import { makeServer } from '../http/server.ts'
import { mountUpgrades } from '../http/upgrade.ts'
import type { Browser } from './chromium/keeper.ts'
import type { SetTimeZone } from './chromium/time-zone.ts'
import type { PageWindow } from './chromium/window.ts'
import { computer } from './computer/contract.ts'
import { computerHandlers, type Computer } from './computer/handlers.ts'
import { makeInputQueue, type InputQueue } from './computer/input-queue.ts'
import { curl as curlContract } from './curl/contract.ts'
import type { Curl } from './curl/curl.ts'
import { curlHandlers } from './curl/handlers.ts'
import type { BrowserProxy } from './egress/proxy.ts'
import { extensions as extensionsContract, extensionStaging } from './extensions/contract.ts'
import type { ExtensionFolder } from './extensions/folder.ts'
import { extensionHandlers, stagingHandlers } from './extensions/handlers.ts'
import type { ExtensionLoader } from './extensions/loader.ts'
import { filesystem } from './fs/contract.ts'
import { filesystemHandlers, type Files } from './fs/handlers.ts'
import type { Live } from './live/view.ts'
import { liveSockets } from './live/sockets.ts'
import { login as loginContract } from './login/contract.ts'
import { loginHandlers } from './login/handlers.ts'
import type { Login } from './login/login.ts'
import { logs as logsContract } from './logs/contract.ts'
import { logHandlers, type Logs } from './logs/handlers.ts'
import { playwright as playwrightContract } from './playwright/contract.ts'
import { playwrightHandlers } from './playwright/handlers.ts'
import type { Playwright } from './playwright/playwright.ts'
import { processes as processContract } from './process/contract.ts'
import { processHandlers, type ProcessTable } from './process/handlers.ts'
import { profile as profileContract } from './profile/contract.ts'
import { profileHandlers, type Profile } from './profile/handlers.ts'
import { recording } from './recording/contract.ts'
import { recordingHandlers } from './recording/handlers.ts'
import type { Recordings } from './recording/recordings.ts'
import { Clients } from './session/clients.ts'
import { session, SOCKETS } from './session/contract.ts'
import { makeFitting } from './session/fit/fitting.ts'
import { fitSteps } from './session/fit/steps.ts'
import { sessionHandlers } from './session/handlers.ts'
import { sockets } from './session/sockets.ts'
import { telemetry as telemetryContract, telemetryFeed } from './telemetry/contract.ts'
import { telemetryFeedHandlers, telemetryHandlers } from './telemetry/handlers.ts'
import { tellCalls } from './telemetry/calls.ts'
import { crashTeller, tellChromiumCrashes } from './telemetry/crashes.ts'
import { thumbnail } from './thumbnail/contract.ts'
import { thumbnailHandlers } from './thumbnail/handlers.ts'
import type { Secrets } from '../base/redact/redact.ts'
import type { EventBuffer } from './telemetry/event-buffer.ts'

/** How the paths of links begin. */
const LINKS = SOCKETS.links.slice(0, SOCKETS.links.indexOf('{'))

/** What the tools work with: real in an instance, simulated by the fake driver. */
export interface Workplace {
  keeper: Browser
  window: PageWindow
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
  /** What its events must not hold. */
  secrets: Pick<Secrets, 'forget'>
  /** Ends the instance when no service has watched it for too long. */
  watchdog: Watchdog
  /** Settles when the browser has started for the first time. */
  ready: Promise<void>
}

/** Makes the agent's server, not yet listening. With `keys` it speaks TLS, and answers nobody without their credential. A new tool is one line here and one in the control plane's list of what is public. */
export async function serveAgent(
  {
    keeper,
    window,
    writePolicy,
    writePopupPolicy,
    proxy,
    setTimeZone,
    desk,
    curl,
    playwright,
    files,
    extensions,
    loader,
    processes,
    login,
    logs,
    live,
    recordings,
    profile,
    eventBuffer,
    secrets,
    watchdog,
    ready,
  }: Workplace,
  keys: ServerKeys | undefined,
  log: Log,
): Promise<Server> {
  const context = makeServer({ log, authenticate: async () => undefined, ...(keys && { tls: keys, anonymous: STRANGERS }) })
  const admit = (request: IncomingMessage) => {
    if (keys && !takeCredential(request, keys)) throw fault.unauthorized("the agent's credential is missing or wrong")
    context.known(request.socket)
  }
  context.app.addHook('onRequest', async ({ raw }, reply) => {
    try {
      admit(raw)
    } catch (error) {
      // A stranger does not keep its connection.
      void reply.header('connection', 'close')
      throw error
    }
  })
  const clients = new Clients()
  // Links carry the traffic of the browser itself.
  context.app.server.on('upgrade', ({ url = '' }, socket) => {
    if (!url.startsWith(LINKS)) clients.add(socket)
  })
  const inputQueue = makeInputQueue(desk.input, desk.keyboard, (signal) => keeper.painted(signal))
  const fitting = makeFitting(
    fitSteps({
      browser: keeper,
      screen: desk.screen,
      window,
      writePolicy,
      writePopupPolicy,
      proxy,
      setTimeZone,
      loader,
      watchdog,
      inputQueue,
      eventBuffer,
      secrets,
      log,
    }),
    log,
  )
  keeper.onRestart(() => fitting.afterRestart())
  const activities = {
    process: () => processes.isRunning,
    recording: () => recordings.isRunning,
    file_watch: () => files.isWatching,
    download: () => keeper.isDownloading,
    recovery: () => keeper.isRecovering,
  }
  mount(context, session, sessionHandlers(keeper, desk.screen, fitting, ready, watchdog, activities, clients))
  const ofClients = Object.values<Contract>({
    computer,
    curlContract,
    playwrightContract,
    filesystem,
    extensionsContract,
    processContract,
    logsContract,
    telemetryContract,
  })
  const tools = new Set(ofClients.flatMap((contract) => Object.values(contract).map(({ id }) => id)))
  context.app.addHook('onRequest', async (request, reply) => {
    if (tools.has(routeId(request))) clients.add(reply.raw)
  })
  tellCalls(context.app, eventBuffer)
  tellChromiumCrashes(keeper, crashTeller(eventBuffer))
  mount(context, computer, computerHandlers(desk, Math.random, inputQueue))
  mount(context, curlContract, curlHandlers(curl))
  mount(context, playwrightContract, playwrightHandlers(playwright))
  mount(context, filesystem, filesystemHandlers(files))
  mount(context, extensionsContract, extensionHandlers(extensions, fitting))
  mount(context, extensionStaging, stagingHandlers(extensions))
  mount(context, processContract, processHandlers(processes))
  mount(context, loginContract, loginHandlers(login))
  mount(context, logsContract, logHandlers(logs))
  mount(context, telemetryContract, telemetryHandlers(eventBuffer))
  mount(context, telemetryFeed, telemetryFeedHandlers(eventBuffer))
  mount(context, recording, recordingHandlers(recordings))
  mount(context, thumbnail, thumbnailHandlers(desk.screen))
  mount(context, profileContract, profileHandlers(profile, fitting))
  mountUpgrades(context.app.server, log, { ...sockets(keeper, proxy, eventBuffer, log), ...liveSockets(live(inputQueue), log) }, { admit })
  await context.app.ready()
  return context.app.server
}
