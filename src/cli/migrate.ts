// `cob migrate`: moves a data directory into a Postgres and a bucket.
import type { Config } from '../base/config.ts'
import { Unavailable } from '../base/unavailable.ts'
import { migrate, type Part } from '../control/service/migrate.ts'
import { stopSignal } from './stop-signal.ts'

/** Moves what the settings have a place for, or only one part. Results are on standard output, the progress on standard error. */
export async function migrateDataDirectory(config: Config, { only, dryRun = false }: { only?: Part; dryRun?: boolean }): Promise<void> {
  const say = (line: string) => void process.stdout.write(`${line}\n`)
  const tell = (line: string) => void process.stderr.write(`cob: ${line}\n`)
  await migrate({ config, only, isDryRun: dryRun, say, tell, signal: stopSignal() }).catch((error: unknown) => {
    // The words for callers name no host. The person at this machine may read the cause.
    throw error instanceof Unavailable && error.cause ? error.cause : error
  })
}
