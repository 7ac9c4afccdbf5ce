// A Postgres of a test's own, as the service starts it, from the template of all data directories.
import { rmSync } from 'node:fs'
import { silentLog } from '../../src/base/log.ts'
import { dataPaths } from '../../src/base/paths.ts'
import { startPostgres, type EmbeddedPostgres } from '../../src/store/embedded.ts'
import { scratchDir } from './scratch.ts'
import { copyTemplate } from './template.ts'

const START_MS = 60_000

/** Starts it; `scope` stops it and removes its data. `host` is its socket's folder. */
export async function ownPostgres(name: string, scope: AsyncDisposableStack): Promise<EmbeddedPostgres & { host: string }> {
  const paths = dataPaths(scratchDir(`cob-${name}-`))
  scope.defer(() => rmSync(paths.root, { recursive: true, force: true }))
  copyTemplate(paths.root)
  const postgres = await startPostgres(paths, silentLog, AbortSignal.timeout(START_MS))
  scope.defer(() => postgres.stop())
  return Object.assign(postgres, { host: paths.postgresSocket })
}
