// The control plane inside the test's process, with fake browsers, a data directory and its own Postgres.
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { readConfig } from '../../src/base/config.ts'
import { silentLog, type Log } from '../../src/base/log.ts'
import { dataPaths, type DataPaths } from '../../src/base/paths.ts'
import { startControlPlane } from '../../src/control/main.ts'
import { modules } from '../../src/control/modules.ts'
import type { Driver } from '../../src/instances/driver.ts'
import { connectDb, type Db } from '../../src/store/db.ts'
import { forTests } from './for-tests.ts'
import { scratchDir } from './scratch.ts'
import { copyTemplate } from './template.ts'

/** The limit for initdb and the first start of Postgres on a busy machine. */
const START_MS = 60_000

/** A session as callers see it. Contract tests check its shape; other tests read fields. */
export interface Session {
  session_id: string
  cdp_ws_url: string
  base_url: string
  name?: string
  tags: Record<string, string>
  viewport: { width: number; height: number; refresh_rate: number }
  deleted_at?: string
  [field: string]: unknown
}

export interface FastCloud extends AsyncDisposable {
  url: string
  key: string
  paths: DataPaths
  /** The errors that the service logged, oldest first. */
  errors: { message: string; fields: object }[]
  /** A request with the key. */
  fetch(path: string, init?: RequestInit): Promise<Response>
  /** A request with the key and a JSON body. */
  send(method: string, path: string, body: unknown): Promise<Response>
  /** Creates a session. @throws when the answer is not 200. */
  create(body?: object): Promise<Session>
  query<T extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<T[]>
  /** The database, over separate connections. */
  db: Db
}

/**
 * Starts a service on a free port, with fake browsers or with the driver that `drive` makes. `all` lists its groups. Disposing stops it, and fails when an instance
 * or the database is left.
 */
export async function startFastCloud(env: Record<string, string> = {}, drive?: (paths: DataPaths) => Driver, all = modules): Promise<FastCloud> {
  await using scope = new AsyncDisposableStack()
  const dataDir = scratchDir('cob-fast-')
  scope.defer(() => rmSync(dataDir, { recursive: true, force: true }))
  copyTemplate(dataDir)
  const paths = dataPaths(dataDir)
  scope.defer(() => assertNothingLeft(paths))
  const errors: FastCloud['errors'] = []
  const config = readConfig({ COB_DATA_DIR: dataDir, COB_PORT: '0', COB_DRIVER: 'fake', COB_WARM_BROWSERS_MAX: env.COB_WARM_BROWSERS ?? '1', ...env })
  const { url, key } = scope.use(
    await startControlPlane(config, errorsOnly(errors), AbortSignal.timeout(START_MS), drive && (async (_config, at) => drive(at)), all),
  )
  const pool = new pg.Pool({ host: paths.postgresSocket, user: 'cob', database: 'postgres' })
  // Postgres may end before the last connection has closed properly.
  pool.on('connect', (client) => client.on('error', () => {}))
  pool.on('error', () => {})
  scope.defer(() => pool.end())
  const db = connectDb({ host: paths.postgresSocket, user: 'cob', database: 'postgres' }, silentLog)
  scope.defer(() => db.destroy())

  const cloud = {
    url,
    key: key.value,
    paths,
    errors,
    fetch: (path: string, init: RequestInit = {}) =>
      fetch(url + path, { ...init, headers: { authorization: `Bearer ${key.value}`, ...(init.headers as Record<string, string>) } }),
    send: (method: string, path: string, body: unknown) =>
      cloud.fetch(path, { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    async create(body: object = {}) {
      const response = await cloud.send('POST', '/browsers', body)
      if (response.status !== 200) throw new Error(`POST /browsers answered ${response.status}: ${await response.text()}`)
      return (await response.json()) as Session
    },
    query: async <T extends pg.QueryResultRow>(text: string, values: unknown[] = []) => (await pool.query<T>(text, values)).rows,
    db,
  }
  const owner = scope.move()
  return Object.assign(cloud, { [Symbol.asyncDispose]: () => owner.disposeAsync() })
}

/** The same service for all tests of a file or a describe. */
export const fastCloud = (...given: Parameters<typeof startFastCloud>): FastCloud => forTests(() => startFastCloud(...given))

function assertNothingLeft(paths: DataPaths): void {
  const left = readdirSync(paths.instances).map((id) => `directory instances/${id}`)
  // Postgres deletes this file as its last step.
  if (existsSync(join(paths.postgres, 'postmaster.pid'))) left.push('a running Postgres')
  if (left.length > 0) throw new Error(`left behind:\n${left.join('\n')}`)
}

function errorsOnly(errors: FastCloud['errors']): Log {
  const log: Log = { debug() {}, info() {}, warn() {}, error: (fields, message) => void errors.push({ message, fields }), child: () => log }
  return log
}
