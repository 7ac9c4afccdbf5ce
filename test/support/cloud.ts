// Starts a whole service for a test as users start it: its own process, its own data directory, a free port.
import Kernel from '@onkernel/sdk'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { dataPaths, PACKAGE_DIR } from '../../src/base/paths.ts'
import { until } from '../../src/base/wait.ts'
import { freePort } from './free-port.ts'
import { leftovers, processesNow } from './leaks.ts'
import { copyTemplate } from './template.ts'

const START_MS = 60_000
/** The limit for a clean stop on a busy machine. A stop saves profiles and ends sessions. */
const STOP_MS = 60_000

/** The address, the key and the data directory of a running service. */
export interface Place {
  url: string
  key: string
  dataDir: string
}

/** A service as its callers and its operator see it. Other test files may use it before and after this one (shared-cloud.ts). */
export interface Cloud extends Place, AsyncDisposable {
  /** The official SDK with this service's address. It retries failed calls only when told to. */
  client: Kernel
  /** The pid of the service. */
  pid: () => number
  /** The log so far. */
  log(): string
  query<T extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<T[]>
  fetch(path: string, init?: RequestInit): Promise<Response>
  /** Deletes a session. Resolves when nothing of it is left, or when the first attempt to end it has failed. @throws when the answer is not 204 */
  remove(id: string): Promise<void>
  /** Resolves when at least `count` browsers are warm. */
  warm(count?: number): Promise<void>
}

/** A service that only this test uses, so that the test may end it. */
export interface OwnCloud extends Cloud {
  /** Ends the service (or its whole process group) with SIGKILL; resolves when it has ended. */
  kill(group?: boolean): Promise<void>
  /** Starts the service again, with the same data and port. */
  start(): Promise<void>
  /** Stops the service as Ctrl-C does. Resolves with its exit code and the time in milliseconds. */
  stop(): Promise<{ code: number | null; ms: number }>
}

export interface Start {
  /** The limit of open file descriptors. */
  files?: number
  /** Whether to start with an empty data directory, as at a user's first start. */
  isFirst?: boolean
  /** An existing data directory to use. */
  dataDir?: string
  /** Called with each piece of the log. */
  onLog?: (text: string) => void
}

/** Starts a service. Disposing stops it, and fails when a process, file or socket is left behind. */
export async function startCloud(env: Record<string, string> = {}, { files, isFirst = false, dataDir: existing, onLog }: Start = {}): Promise<OwnCloud> {
  const before = processesNow()
  const dataDir = existing ?? mkdtempSync(join(tmpdir(), 'cob-test-'))
  if (!isFirst && existing === undefined) copyTemplate(dataDir)
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  let child: ChildProcess
  let output = ''

  async function start(): Promise<void> {
    const command = [process.execPath, '--disable-warning=ExperimentalWarning', join(PACKAGE_DIR, 'src/cli/main.ts'), 'serve']
    const [program, ...args] = files === undefined ? command : ['prlimit', `--nofile=${files}:${files}`, ...command]
    child = spawn(program!, args, {
      env: {
        ...process.env,
        COB_DATA_DIR: dataDir,
        COB_PORT: String(port),
        COB_LOG_LEVEL: 'info',
        COB_GREETING: '0',
        COB_WARM_BROWSERS: '1',
        // Tests count warm browsers, so the number is fixed. Tests of the demand set a higher maximum.
        COB_WARM_BROWSERS_MAX: env.COB_WARM_BROWSERS ?? '1',
        COB_ALLOW_HOST_LOOPBACK: '1',
        // Most tests are about the full browser. The project "lean" (vitest.config.ts) and the files about lean sessions set another value.
        COB_HEADLESS: 'full',
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    const note = (chunk: Buffer) => {
      output += chunk.toString()
      onLog?.(chunk.toString())
    }
    child.stdout!.on('data', note)
    child.stderr!.on('data', note)
    const ended = once(child, 'exit').then(([code]) => {
      throw new Error(`the service ended with ${code} while starting:\n${output.slice(-3000)}`)
    })
    ended.catch(() => {})
    await Promise.race([
      until(
        'the service to answer',
        START_MS,
        () =>
          fetch(`${url}/health`).then(
            ({ ok }) => ok,
            () => false,
          ),
        { everyMs: 10 },
      ),
      ended,
    ])
  }
  const gone = () => (child.exitCode === null && child.signalCode === null ? once(child, 'exit') : Promise.resolve())

  async function stop(): Promise<{ code: number | null; ms: number }> {
    const began = performance.now()
    const exited = gone()
    if (child.exitCode === null && child.signalCode === null) process.kill(child.pid!, 'SIGINT')
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    await exited
    clearTimeout(timer)
    return { code: child.exitCode, ms: performance.now() - began }
  }

  await start()
  const key = env.COB_API_KEY ?? readFileSync(join(dataDir, 'api-key'), 'utf8').trim()
  return {
    ...callsTo({ url, key, dataDir }),
    pid: () => child.pid!,
    async kill(group = false) {
      const exited = gone()
      process.kill(group ? -child.pid! : child.pid!, 'SIGKILL')
      await exited
    },
    start,
    stop,
    log: () => output,
    async [Symbol.asyncDispose]() {
      const { code } = await stop()
      const left = await leftovers(dataDir, before)
      rmSync(dataDir, { recursive: true, force: true })
      if (code !== 0) throw new Error(`the service ended with ${code}:\n${output.slice(-3000)}`)
      if (left.length > 0) throw new Error(`left behind:\n${left.join('\n')}\n--- log ---\n${output.slice(-3000)}`)
    },
  }
}

/** The calls that need only the address, the key and the data directory of a service. */
export function callsTo({ url, key, dataDir }: Place): Omit<Cloud, 'pid' | 'log' | typeof Symbol.asyncDispose> {
  const address = { host: dataPaths(dataDir).postgresSocket, user: 'cob', database: 'postgres' }
  const query: Cloud['query'] = async (text, values = []) => {
    const client = new pg.Client(address)
    await client.connect()
    try {
      return (await client.query(text, values)).rows
    } finally {
      await client.end()
    }
  }
  return {
    url,
    key,
    dataDir,
    client: new Kernel({ apiKey: key, baseURL: url, maxRetries: 0 }),
    query,
    fetch: (path, init = {}) => fetch(url + path, { ...init, headers: { authorization: `Bearer ${key}`, ...(init.headers as Record<string, string>) } }),
    async remove(id) {
      const { status } = await fetch(`${url}/browsers/${id}?wait=true`, { method: 'DELETE', headers: { authorization: `Bearer ${key}` } })
      if (status !== 204) throw new Error(`DELETE /browsers/${id} answered ${status}`)
    },
    async warm(count = 1) {
      await until('warm browsers', START_MS, async () => (await query(`select id from browsers where state = 'warm'`)).length >= count, { everyMs: 50 })
    },
  }
}
