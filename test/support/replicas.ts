// Several services (replicas) on one database and one data directory, as separate processes. two-replicas.ts has replicas inside the test's process.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { silentLog } from '../../src/base/log.ts'
import { dataPaths, PACKAGE_DIR, type DataPaths } from '../../src/base/paths.ts'
import { sleep, until } from '../../src/base/wait.ts'
import { startPostgres } from '../../src/store/embedded.ts'
import { freePort } from './free-port.ts'
import type { Session } from './fast-cloud.ts'
import { copyTemplate } from './template.ts'

export const START_MS = 60_000
/** The limit of a takeover, which takes at most 5 s on an idle machine. */
const TAKEN_MS = 30_000

/** Calls to one replica. */
export interface ReplicaCalls {
  url: string
  fetch(path: string, init?: RequestInit): Promise<Response>
  send(method: string, path: string, body: unknown): Promise<Response>
  /** Creates a session. @throws when the answer is not 200 */
  create(body?: object): Promise<Session>
}

export function replicaCalls(url: string, key: string): ReplicaCalls {
  const calls: ReplicaCalls = {
    url,
    fetch: (path, init = {}) => fetch(url + path, { ...init, headers: { authorization: `Bearer ${key}`, ...(init.headers as Record<string, string>) } }),
    send: (method, path, body) => calls.fetch(path, { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    async create(body = {}) {
      const response = await calls.send('POST', '/browsers', body)
      if (response.status !== 200) throw new Error(`POST /browsers answered ${response.status}: ${await response.text()}`)
      return (await response.json()) as Session
    },
  }
  return calls
}

/** What replicas share: a data directory, and a Postgres that does not belong to any of them. */
export interface Shared extends AsyncDisposable {
  paths: DataPaths
  env: Record<string, string>
  query<T extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<T[]>
  /** Stops the Postgres. Call it before the check for leftovers. */
  stopPostgres(): Promise<void>
}

export async function share(env: Record<string, string>): Promise<Shared> {
  await using scope = new AsyncDisposableStack()
  const paths = dataPaths(mkdtempSync(join(tmpdir(), 'cob-shared-')))
  scope.defer(() => rmSync(paths.root, { recursive: true, force: true }))
  copyTemplate(paths.root)
  const postgres = await startPostgres(paths, silentLog, AbortSignal.timeout(START_MS))
  const address = { host: paths.postgresSocket, user: 'cob', database: 'postgres' }
  const pool = new pg.Pool(address)
  pool.on('connect', (client) => client.on('error', () => {}))
  pool.on('error', () => {})
  let stopped: Promise<void> | undefined
  const stopPostgres = () => (stopped ??= pool.end().then(() => postgres.stop()))
  scope.defer(stopPostgres)
  const owner = scope.move()
  return {
    paths,
    env: { COB_DATA_DIR: paths.root, DATABASE_URL: `postgres://cob@/postgres?host=${paths.postgresSocket}`, COB_REPLICAS: '1', COB_PORT: '0', ...env },
    query: async <T extends pg.QueryResultRow>(text: string, values: unknown[] = []) => (await pool.query<T>(text, values)).rows,
    stopPostgres,
    [Symbol.asyncDispose]: () => owner.disposeAsync(),
  }
}

export interface ReplicaProcess extends ReplicaCalls {
  /** The log of all its starts. */
  log(): string
  isRunning(): boolean
  /** The pid of its last start. */
  pid(): number
  /** Its name in the database since its last start. */
  replica(): string
  /** Kills it with SIGKILL. Its sandboxes survive. */
  kill(): Promise<void>
  /** Stops its process for `ms`, as when a machine sleeps. */
  freeze(ms: number): Promise<void>
  /** Starts it, also after a kill, on the same port. */
  start(): Promise<void>
  /** Stops it as Ctrl-C does; resolves with its exit code. */
  stop(): Promise<number | null>
}

/** One more replica as a separate process of `cob serve`, or of another program that serves. It is not started yet. */
export async function replicaProcess(
  { env }: Pick<Shared, 'env'>,
  key: string,
  program: readonly string[] = ['src/cli/main.ts', 'serve'],
): Promise<ReplicaProcess> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  let child: ChildProcess | undefined
  let output = ''
  const isRunning = () => child !== undefined && child.exitCode === null && child.signalCode === null
  const end = async (signal: 'SIGKILL' | 'SIGINT') => {
    if (!isRunning()) return
    const exited = once(child!, 'exit')
    process.kill(child!.pid!, signal)
    await exited
  }
  return {
    ...replicaCalls(url, key),
    log: () => output,
    isRunning,
    pid: () => child!.pid!,
    replica: () => [...output.matchAll(/"replica":"([a-z0-9]{24})","taken"/g)].at(-1)![1]!,
    kill: () => end('SIGKILL'),
    async freeze(ms) {
      process.kill(child!.pid!, 'SIGSTOP')
      await sleep(ms).finally(() => process.kill(child!.pid!, 'SIGCONT'))
    },
    async start() {
      child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', ...program], {
        cwd: PACKAGE_DIR,
        env: { ...process.env, COB_LOG_LEVEL: 'info', COB_GREETING: '0', ...env, COB_PORT: String(port), COB_API_KEY: key },
        stdio: ['ignore', 'pipe', 'pipe'],
        detached: true,
      })
      for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
      await until('a replica to answer', START_MS, async () => {
        if (!isRunning()) throw new Error(`the replica ended while starting:\n${output.slice(-3000)}`)
        return fetch(`${url}/health`).then(
          ({ ok }) => ok,
          () => false,
        )
      }).catch((error: unknown) => {
        throw new Error(`the replica did not answer:\n${output.slice(-3000)}`, { cause: error })
      })
    },
    async stop() {
      await end('SIGINT')
      return child?.exitCode ?? null
    },
  }
}

/** Waits until other replicas have every duty of the `dead` ones and watch their browsers and runs. Resolves with the milliseconds. */
export async function takenOver(shared: Pick<Shared, 'query'>, dead: readonly string[]): Promise<number> {
  const from = performance.now()
  await until(
    'every duty to be taken over',
    TAKEN_MS,
    async () => {
      const rows = await shared.query(
        `select duty from leases where not starts_with(duty, 'replica ') and replica = any($1)
         union all select id from browsers where state <> 'deleted' and coalesce(replica, '') = any($1 || array[''])
         union all select id from invocations where finished_at is null and coalesce(replica, '') = any($1 || array[''])`,
        [[...dead]],
      )
      return rows.length === 0
    },
    { everyMs: 20 },
  )
  return performance.now() - from
}
