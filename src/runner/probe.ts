// Imports the app for the first time: checks that it loads, reads what it registered, and fills V8's compile cache for the runs.
import { join } from 'node:path'
import type { AppsFound, RunnerSpec } from './contract.ts'
import { whyEnded } from './deaths.ts'
import { CODE, COMPILE_CACHE, VENV, type Manifest, type RunnerPaths } from './limits.ts'
import { readReports } from './app-pipes.ts'
import type { Report } from './report.ts'
import { BuildFailed, type Tools } from './tools.ts'

const IMPORT_MS = 60_000

/** Imports the app in its own process. @throws BuildFailed when it cannot be loaded or has no actions */
export async function probe(
  spec: RunnerSpec,
  paths: RunnerPaths,
  manifest: Manifest,
  tools: Tools,
): Promise<{ apps: AppsFound; registries?: Manifest['registries'] }> {
  const isPython = manifest.language === 'python'
  const program = isPython ? join(paths.app, VENV, 'bin/python') : process.execPath
  const loader = join(import.meta.dirname, isPython ? 'loader.py' : 'loader.mjs')
  let report: Report | undefined
  let reading: Promise<void> | undefined
  const { code, late } = await tools.run(program, [loader, 'build', paths.app, paths.spec], {
    what: `importing ${manifest.entrypoint}`,
    cwd: join(paths.app, CODE),
    ms: IMPORT_MS,
    app: true,
    env: { NODE_COMPILE_CACHE: join(paths.app, COMPILE_CACHE), PYTHONUNBUFFERED: '1' },
    reports: (pipe) => {
      reading = readReports(pipe, (value) => (report ??= value))
    },
  })
  await reading
  if (late && !report)
    throw new BuildFailed(`importing the app took longer than ${IMPORT_MS / 1000} s; does it wait for something, or work, outside of its actions?`)
  if (report?.type === 'failed') throw new BuildFailed(report.reason)
  if (report?.type !== 'loaded') throw new BuildFailed(whyEnded('the app', code, 'it was loaded', spec.memoryMb))
  if (!report.apps.some(({ actions }) => actions.length > 0)) throw new BuildFailed(nothingFound(report.apps, manifest))
  return report
}

function nothingFound(apps: AppsFound, { entrypoint, language }: Manifest): string {
  const app = apps[0]?.name
  const how =
    language === 'python'
      ? `write app = kernel.App("name") and @app.action("name") above a function`
      : `write const app = new Kernel().app('name'), with Kernel of @onkernel/sdk, and app.action('name', async (ctx, payload) => …)`
  return app === undefined ? `no app was found in ${entrypoint}: ${how}` : `the app "${app}" has no actions: ${how}`
}
