// The runner: the process in an app's sandbox that answers for it. It builds the app, or watches over one run of it.
// For a run every import here is waited for; what only builds need is loaded by them.
import { readFileSync } from 'node:fs'
import { openLease } from '../base/lease.ts'
import type { RunnerSpec } from './contract.ts'
import { Events } from './events.ts'
import { RUNNER_PATHS, type RunnerPaths } from './limits.ts'
import { serve } from './serve.ts'

// prepare.ts imports this file to have it compiled.
if (import.meta.main) {
  const paths = process.env.COB_RUNNER_PATHS ? (JSON.parse(process.env.COB_RUNNER_PATHS) as RunnerPaths) : RUNNER_PATHS
  const spec = JSON.parse(readFileSync(paths.spec, 'utf8')) as RunnerSpec
  const events = new Events()
  const work = spec.kind === 'run' ? (await import('./run.ts')).hostRun(spec, events) : (await import('./build.ts')).hostBuild(spec, paths, events)
  serve(
    work,
    events,
    0,
    openLease((spec.graceSeconds ?? Infinity) * 1000, () => process.exit(0)),
  )
}
