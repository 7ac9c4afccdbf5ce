// The checks of `cob doctor` for the stores: whether the bucket answers, and whether all objects exist that rows name.
import { existsSync, readFileSync } from 'node:fs'
import type { Config } from '../../base/config.ts'
import { silentLog } from '../../base/log.ts'
import { dataPaths } from '../../base/paths.ts'
import { Unavailable } from '../../base/unavailable.ts'
import { within } from '../../base/wait.ts'
import { checkDatabaseUrl } from '../../store/database-url.ts'
import { connectDb } from '../../store/db.ts'
import { embeddedAddress, postgresRuns } from '../../store/embedded.ts'
import { makeObjects } from '../../store/make-objects.ts'
import type { Objects } from '../../store/objects.ts'
import { findMissing } from '../../store/sweep.ts'
import { objectOwners } from '../modules.ts'

/** Limit on the whole check. Listing a million objects in S3 takes about two minutes. */
const CHECK_MS = 300_000
/** Most keys in the line. */
const NAMED = 5

/** The problem of the object store; undefined when it answers and every object exists that a row names. */
export async function objectsProblem(config: Config): Promise<string | undefined> {
  const signal = AbortSignal.timeout(CHECK_MS)
  try {
    return await within('the check of objects', CHECK_MS, check(config, signal))
  } catch (error) {
    // The message for callers names no host. The person at this machine may read the cause.
    const { message } = (error instanceof Unavailable && error.cause ? error.cause : error) as Error
    return `they cannot be checked: ${message}`
  }
}

async function check(config: Config, signal: AbortSignal): Promise<string | undefined> {
  // A check must not create the data directory.
  if (!existsSync(config.dataDir)) return undefined
  const paths = dataPaths(config.dataDir)
  using objects = await makeObjects(paths.objects, config.s3)
  if (config.s3) await answers(objects, signal)
  if (!existsSync(paths.hostId)) return undefined
  const scope = readFileSync(paths.hostId, 'utf8').trim()
  if (config.databaseUrl) await checkDatabaseUrl(config.databaseUrl, signal)
  else if (!postgresRuns(paths)) return 'they are checked only while the service runs, because its database tells which there must be'
  const db = connectDb(config.databaseUrl ? { connectionString: config.databaseUrl } : embeddedAddress(paths), silentLog)
  try {
    const missing = await findMissing(objects, objectOwners(db, scope), signal)
    if (missing.length === 0) return undefined
    const more = missing.length > NAMED ? ` and ${missing.length - NAMED} more` : ''
    return `${missing.length} that the database names are gone: ${missing.slice(0, NAMED).join(', ')}${more}; those replays cannot be played, those builds fail, and those apps do not run`
  } finally {
    await db.destroy()
  }
}

async function answers(objects: Objects, signal: AbortSignal): Promise<void> {
  for await (const _ of objects.list('replays', signal)) return
}
