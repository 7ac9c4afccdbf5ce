// The reasons why builds fail, as texts for the author of the app.
import { within } from '../../../base/wait.ts'
import type { AppSandbox } from '../../../instances/driver.ts'
import type { Source } from '../../../runner/contract.ts'
import type { DeploymentRow, Secrets } from './rows.ts'
import { cloneUrl } from './source.ts'

/** Time between the end of a connection and the notice that its sandbox has ended. */
const EXIT_NEWS_MS = 3_000

/** The reason why a build failed, for its caller. */
export class BuildFailed extends Error {}

/** The source of a build. @throws BuildFailed */
export function sourceOf(row: DeploymentRow, gitBase: string, { token }: Secrets): Source {
  const entrypoint = row.entrypoint_rel_path ?? ''
  if (row.source_type !== 'github') return { type: 'archive', entrypoint }
  const url = cloneUrl(row.source_url ?? '', gitBase)
  if (url === undefined) throw new BuildFailed(`source.url is not below ${gitBase}, where this service clones from`)
  return { type: 'git', url, ref: row.source_ref ?? '', entrypoint, ...(row.source_path && { path: row.source_path }), ...(token && { token }) }
}

/** The reason why the sandbox has ended, if it has. */
export const endOf = (instance: AppSandbox): Promise<BuildFailed | undefined> =>
  within('the end of a sandbox', EXIT_NEWS_MS, instance.exited).then(
    ({ reason }) => new BuildFailed(`the build ended unexpectedly (${reason})`),
    () => undefined,
  )
