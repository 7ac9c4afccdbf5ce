// The runner: the process in an app's sandbox that serves its contract. It builds the app, unpacks its code, or supervises one run of it.
// Every import here delays a run, so imports that only builds need are loaded on demand.
import '../base/own-program.ts'
import { readFileSync } from 'node:fs'
import { takeKeys } from '../base/access.ts'
import { openWatchdog } from '../base/watchdog.ts'
import { letAppStart } from './command.ts'
import type { RunnerSpec } from './contract.ts'
import { Events } from './events.ts'
import { RUNNER_PATHS, type RunnerPaths } from './limits.ts'
import { serve, type Work } from './serve.ts'

// prepare.ts imports this file only to compile it.
if (import.meta.main) {
  const keys = takeKeys()
  const paths = process.env.COB_RUNNER_PATHS ? (JSON.parse(process.env.COB_RUNNER_PATHS) as RunnerPaths) : RUNNER_PATHS
  const spec = JSON.parse(readFileSync(paths.spec, 'utf8')) as RunnerSpec
  if (keys && spec.kind === 'run' && !spec.awaitsCode) letAppStart()
  if (spec.port !== undefined && !keys) throw new Error('the runner got no keys, and listens to nobody')
  const events = new Events()
  const work = await workOf(spec, paths, events)
  await serve(
    work,
    events,
    spec.port === undefined ? { fd: 0 } : { port: spec.port },
    openWatchdog((spec.graceSeconds ?? Infinity) * 1000, () => process.exit(0)),
    keys,
  )
}

async function workOf(spec: RunnerSpec, paths: RunnerPaths, events: Events): Promise<Work> {
  switch (spec.kind) {
    case 'run':
      return (await import('./run.ts')).hostRun(spec, paths, events)
    case 'build':
      return (await import('./build.ts')).hostBuild(spec, paths, events)
    case 'unpack':
      return (await import('./carry.ts')).hostUnpack(paths)
  }
}
