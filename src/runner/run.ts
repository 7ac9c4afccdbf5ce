// A run: the app's process, started in parallel by the shell of command.ts, gets one task and gives one result.
import { Socket } from 'node:net'
import { letAppStart, RUN_FDS } from './command.ts'
import type { Ready, Run, RunnerSpec } from './contract.ts'
import { whyEnded } from './deaths.ts'
import type { Events, News } from './events.ts'
import { drained, endsWithin, killHolders, logOutput, readReports } from './app-pipes.ts'
import { failedRun, type Report } from './report.ts'
import type { RunnerPaths } from './limits.ts'
import { Refused, type Work } from './serve.ts'

/** An app's process ends as soon as it has a result; its exit handlers may take this long. */
const EXIT_MS = 2_000

/** Supervises the app's process and gives it its run. */
export function hostRun(spec: RunnerSpec, paths: RunnerPaths, events: Events): Work {
  const output = new Socket({ fd: RUN_FDS.output, readable: true, writable: false })
  const reports = new Socket({ fd: RUN_FDS.reports, readable: true, writable: false })
  const ready = Promise.withResolvers<Ready>()
  const done = Promise.withResolvers<void>()
  const exited = Promise.withResolvers<void>()
  let phase: 'loading' | 'loaded' | 'running' = 'loading'
  let hasRun = false
  let last: Exclude<News, { type: 'log' }> | undefined

  // The first result counts. The end of the process is a result only when there was none.
  const finish = (news: Exclude<News, { type: 'log' }>) => {
    if (last) return
    last = news
    void close(news)
  }
  const close = async (news: Exclude<News, { type: 'log' }>) => {
    // The end of a process takes some more milliseconds, in which it can print nothing: no process has its output open.
    const over = Promise.all([done.promise, printed])
    if (!(await endsWithin(Promise.race([exited.promise, over]), EXIT_MS))) killHolders(RUN_FDS.output)
    await drained(output, RUN_FDS.output, printed)
    events.end(news)
    if (news.type === 'failed') ready.resolve({ ok: false, reason: news.reason })
  }
  const hear = (report: Report) => {
    if (report.type === 'exit') {
      exited.resolve()
      finish(died(report.code))
    } else if (report.type === 'done') done.resolve()
    else if (report.type === 'loaded') {
      if (phase === 'loading') phase = hasRun ? 'running' : 'loaded'
      ready.resolve({ ok: true })
    } else if (report.type === 'result' && phase !== 'running') finish({ type: 'failed', reason: report.reason ?? 'a result came before the run' })
    else finish(report)
  }
  const died = (code: number): Exclude<News, { type: 'log' }> =>
    phase === 'running'
      ? (failedRun(whyEnded('the action', code, 'it returned', spec.memoryMb)) as News & { type: 'result' })
      : { type: 'failed', reason: whyEnded('the app', code, phase === 'loading' ? 'it was loaded' : 'an action was called', spec.memoryMb) }

  const printed = logOutput(output, events)
  // When everything was killed at once, the shell cannot report the exit code either.
  void readReports(reports, hear).then(() => hear({ type: 'exit', code: 137 }))

  let hasCode = !spec.awaitsCode
  let isUnpacking = false
  return {
    ready: ready.promise,
    async unpack(body) {
      if (hasCode || isUnpacking) throw new Refused('conflict', 'this runner has its code')
      isUnpacking = true
      // Loaded on demand: most runs have their code when they start, and this import would delay them.
      await (await import('./carry.ts')).unpackInto(paths.app, body)
      hasCode = true
      letAppStart()
    },
    async run(run: Run) {
      if (!hasCode) throw new Refused('bad_request', 'this runner waits for its code')
      if (hasRun) throw new Refused('conflict', 'this runner has already had its run')
      hasRun = true
      if (phase === 'loaded') phase = 'running'
      // An app that has ended does not read its task; its end is reported as an event. The task is not written through fs, whose threads would have to start
      // first.
      new Socket({ fd: RUN_FDS.task, readable: false, writable: true }).on('error', () => {}).end(JSON.stringify(run))
    },
  }
}
