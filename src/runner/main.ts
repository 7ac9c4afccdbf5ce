// The runner: the process in an app's sandbox that serves its contract. It builds the app, or supervises one run of it.
// Every import here delays a run, so imports that only builds need are loaded on demand.
import '../base/own-program.ts'
import { readFileSync } from 'node:fs'
import { takeKeys } from '../base/access.ts'
import { openLease } from '../base/lease.ts'
import type { RunnerSpec } from './contract.ts'
import { Events } from './events.ts'
import { RUNNER_PATHS, type RunnerPaths } from './limits.ts'
import { serve } from './serve.ts'

// prepare.ts imports this file only to compile it.
if (import.meta.main) {
  const keys = takeKeys()
  const paths = process.env.COB_RUNNER_PATHS ? (JSON.parse(process.env.COB_RUNNER_PATHS) as RunnerPaths) : RUNNER_PATHS
  const spec = JSON.parse(readFileSync(paths.spec, 'utf8')) as RunnerSpec
  const events = new Events()
  const work = spec.kind === 'run' ? (await import('./run.ts')).hostRun(spec, events) : (await import('./build.ts')).hostBuild(spec, paths, events)
  serve(
    work,
    events,
    0,
    openLease((spec.graceSeconds ?? Infinity) * 1000, () => process.exit(0)),
    keys,
  )
}
