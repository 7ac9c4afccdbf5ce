// Does the work of a first start once for all services of a test run: creates a database with all tables, and compiles the agent's code.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readConfig } from '../../src/base/config.ts'
import { silentLog } from '../../src/base/log.ts'
import { dataPaths } from '../../src/base/paths.ts'
import { agentCache } from '../../src/instances/local/agent-cache.ts'
import { Trash } from '../../src/instances/local/trash.ts'
import { openDb } from '../../src/store/db.ts'
import { startPostgres } from '../../src/store/embedded.ts'

const MAKE_MS = 120_000
/** The environment variable that tells the test processes the template's folder. */
const VARIABLE = 'COB_TEST_TEMPLATE'

/** vitest calls it before the first test of a run, and calls the returned function after the last test. */
export default async function make(): Promise<() => void> {
  const dir = mkdtempSync(join(tmpdir(), 'cob-template-'))
  const remove = () => rmSync(dir, { recursive: true, force: true })
  try {
    const signal = AbortSignal.timeout(MAKE_MS)
    const paths = dataPaths(dir)
    const postgres = await startPostgres(paths, silentLog, signal)
    try {
      await (await openDb(postgres.address, silentLog)).destroy()
    } finally {
      await postgres.stop()
    }
    await using trash = new Trash(paths.trash, silentLog)
    // Without a working sandbox the fast tests still pass. Other tests then report the problem.
    await agentCache(paths.root, readConfig(process.env), trash, signal).catch(() => {})
  } catch (error) {
    remove()
    throw error
  }
  process.env[VARIABLE] = dir
  return remove
}

/** Copies the result of a first start into a new data directory. */
export function copyTemplate(dataDir: string): void {
  const template = process.env[VARIABLE]
  if (template === undefined) return // outside of a test run, as in the benchmark, the service does this work
  const parts = readdirSync(template).filter((name) => name === 'postgres' || name.startsWith('agent-cache-'))
  execFileSync('cp', ['-a', '--reflink=auto', ...parts.map((name) => join(template, name)), dataDir])
  if (!existsSync(join(dataDir, 'postgres'))) throw new Error('the template has no database')
}
