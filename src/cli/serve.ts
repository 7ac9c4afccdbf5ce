// `cob serve`: the service in the foreground, until Ctrl-C.
import type { Config } from '../base/config.ts'
import { surviveExceptions } from '../base/guard.ts'
import { makeLog } from '../base/log.ts'
import { startControlPlane, type ControlPlane } from '../control/main.ts'

/** A second Ctrl-C, or this time after the first, ends the process at once. Instances and Postgres are found again at the next start. */
const STOP_MS = 30_000

/** `drive` makes the driver, as for {@link startControlPlane}. */
export async function serve(config: Config, drive?: Parameters<typeof startControlPlane>[3]): Promise<void> {
  const began = performance.now()
  const log = makeLog('control', config.logLevel)
  if (config.unknownSettings.length > 0)
    log.warn({ variables: config.unknownSettings }, 'these variables are no settings of Cob (docs/settings.md), so they have no effect')
  const stop = new AbortController()
  const signalled = new Promise<NodeJS.Signals>((resolve) => {
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
      process.on(name, () => {
        if (stop.signal.aborted) process.exit(130)
        stop.abort(new Error('asked to stop'))
        resolve(name)
      })
  })
  const plane = await startControlPlane(config, log, stop.signal, drive).catch((error: unknown) => {
    if (!stop.signal.aborted) throw error
    log.info({ why: (error as Error).message }, 'stopped before the start was complete')
    return undefined
  })
  if (!plane) return
  surviveExceptions(log)
  log.info({ url: plane.url, ms: Math.round(performance.now() - began) }, 'listening')
  if (config.greeting) process.stderr.write(greeting(plane.url, plane.key, process.stderr.isTTY))
  const { lost } = plane
  const taken = new Promise<void>((resolve) => (lost.aborted ? resolve() : lost.addEventListener('abort', () => resolve(), { once: true })))
  const name = await Promise.race([signalled, taken])
  if (name) log.info({ signal: name }, 'stopping: ending the sessions')
  else log.error({ err: lost.reason as Error }, 'stopping: the scope was lost to another process, and what runs is left to it')
  setTimeout(() => {
    log.error({ ms: STOP_MS, open: process.getActiveResourcesInfo() }, 'could not stop in time')
    process.exit(1)
  }, STOP_MS).unref()
  await plane[Symbol.asyncDispose]()
  if (lost.aborted) process.exitCode = 1
  log.info({}, lost.aborted ? 'stopped; the scope belongs to another process, so no session was ended' : 'stopped')
}

/** A key is printed on a terminal only: other outputs are kept, such as the logs of containers. */
function greeting(url: string, { value, isNew, file }: ControlPlane['key'], isTerminal: boolean): string {
  const isShown = isNew && isTerminal
  const shown = isShown ? value : file ? `$(cat ${file})` : '$COB_API_KEY'
  const where =
    file === undefined ? 'the one in COB_API_KEY' : isShown ? `${value}   (shown this once; kept in ${file})` : `${isNew ? 'new' : 'as before'}, in ${file}`
  const lines = [
    '',
    `  Cob answers at  ${url}   (in a web browser: the dashboard; docs: ${url}/docs)`,
    `  API key         ${where}`,
    '',
    `  SDK    export KERNEL_BASE_URL=${url} KERNEL_API_KEY=${shown}`,
    `  curl   curl -X POST -H "Authorization: Bearer ${shown}" ${url}/browsers`,
    '  demo   script/demo   (after the line for the SDK)',
    '',
  ]
  return `${lines.join('\n')}\n`
}
