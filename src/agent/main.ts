// The process inside an instance: starts Chromium on the display, serves the tools, and ends everything when it ends. It listens on standard input:
// the driver opened that socket outside the sandbox, so no program in here can replace it. In a container it listens at a port.
import '../base/own-program.ts'
import { setImmediate } from 'node:timers/promises'
import { takeKeys } from '../base/access.ts'
import { openWatchdog } from '../base/watchdog.ts'
import { makeLog } from '../base/log.ts'
import { sleep } from '../base/wait.ts'
import { Keeper } from './chromium/keeper.ts'
import type { Display } from './display/display.ts'
import { guard } from './guard.ts'
import { LogRing } from './logs/ring.ts'
import { openSpeakers } from './recording/speakers.ts'
import { DISPLAY_LOG, type AgentSpec } from './spec.ts'
import type { OnCrash } from './telemetry/crashes.ts'
import type { Tools } from './workplace.ts'

/** For those who follow its telemetry or watch it to read why it ends. */
const LAST_WORDS_MS = 100

/** Starts the agent. Resolves with whether this was a trial, which has then used it (compiled.ts). */
export const isTried = run()

async function run(): Promise<boolean> {
  const spec = JSON.parse(process.env.COB_AGENT ?? '{}') as AgentSpec
  delete process.env.COB_AGENT
  const keys = takeKeys()
  const said = { chromium: new LogRing(), agent: new LogRing(), display: DISPLAY_LOG }
  const log = makeLog('agent', spec.logLevel, (line) => said.agent.add(line.trimEnd()))
  const stop = new AbortController()

  const { display, becomeFull } = await openDisplay()
  let onCrash: OnCrash = () => {}
  const begun = Promise.withResolvers<void>()
  if (!spec.waits) begun.resolve()
  const speakers = openSpeakers('/run/cob', log, (crash) => onCrash(crash))
  const isLean = spec.lean !== undefined
  const keeper: Keeper = new Keeper({
    launch: { program: spec.lean?.program ?? spec.chromium, env: environment(display), ...(spec.lean && { lean: spec.lean }) },
    full: spec.chromium,
    screen: display.screen,
    log,
    signal: stop.signal,
    said: (line) => said.chromium.add(line),
    begun: begun.promise,
  })
  const up = keeper.run()

  // The code of the tools is loaded while Chromium starts, or, in a prepared instance, before.
  const { openTools } = await import('./workplace.ts')
  let tools: Tools | undefined
  // A trial ends after its rehearsal.
  const watchdog = openWatchdog(spec.isTrial ? Infinity : spec.graceSeconds * 1000, () => void end('no service has come back', 0))
  tools = await openTools({ spec, keys, display, becomeFull, speakers, keeper, up, begin: begun.resolve, watchdog, said, log, signal: stop.signal })
  onCrash = tools.onCrash
  if (!spec.isTrial) tools.server.listen(listenAt())
  tools.listenInside()

  /** Loads the code of the display that this instance has. */
  async function openDisplay(): Promise<{ display: Display; becomeFull: () => Promise<void> }> {
    if (spec.lean) return (await import('./lean.ts')).openLean({ spec, keeper: () => keeper, environment, log, signal: stop.signal })
    const { openXDisplay } = await import('./display/x/display.ts')
    // The X server starts beside this process, as its child: the shell of the sandbox became this process.
    return { display: await openXDisplay(spec.viewport, log, stop.signal), becomeFull: async () => {} }
  }

  /** The environment of a browser. */
  function environment({ env }: Pick<Display, 'env'>): NodeJS.ProcessEnv {
    return { ...process.env, ...env, PULSE_COOKIE: '/run/cob/pulse/cookie' }
  }

  /** Without keys anybody who reaches the port could use it. */
  function listenAt(): { fd: number } | { port: number } {
    if (spec.port === undefined) return { fd: 0 }
    if (!keys) throw new Error('the agent got no keys, and listens to nobody')
    return { port: spec.port }
  }

  async function end(why: string, code: number): Promise<never> {
    log.info({ why }, 'the agent ends')
    stop.abort(new Error(why))
    tools?.eventBuffer.close()
    // Readers of its streams get the last events.
    await (code !== 0 ? sleep(LAST_WORDS_MS) : setImmediate())
    tools?.server.closeAllConnections()
    await keeper.close().catch((err: unknown) => log.warn({ err }, 'Chromium did not close'))
    await Promise.resolve(tools?.files[Symbol.asyncDispose]()).catch((err: unknown) => log.warn({ err }, 'a watch did not end'))
    display.close()
    process.exit(code)
  }
  // From here on the agent survives exceptions. Before this line an exception means that it cannot start.
  guard(log, (why) => void end(why, 1))
  process.on('SIGTERM', () => void end('asked to', 0))
  process.on('SIGINT', () => void end('asked to', 0))
  keeper.on('given_up', (detail) => void end(detail, 1))
  void display.ended.then(() => {
    if (!stop.signal.aborted) {
      log.error({ said: display.said() }, 'the X server ended')
      onCrash({ service: 'xvfb', phase: 'running' })
    }
    return end('the X server ended', 1)
  })
  up.catch((err: unknown) => {
    log.error({ err }, 'Chromium did not start')
    void end('Chromium did not start', 1)
  })
  if (spec.isTrial) {
    const { rehearse } = await import('./rehearsal.ts')
    try {
      await up
      await rehearse(tools.server, isLean, stop.signal)
      // What the full browser uses is compiled, too.
      if (isLean) {
        await becomeFull()
        await rehearse(tools.server, isLean, stop.signal)
      }
    } catch (err) {
      log.error({ err }, 'the trial failed')
      await end('the trial failed', 1)
    }
  }
  return spec.isTrial === true
}
