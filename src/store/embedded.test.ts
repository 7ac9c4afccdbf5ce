// The embedded Postgres: it starts, is found again, and keeps its data across crashes.
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { scratchDir } from '../../test/support/scratch.ts'
import { silentLog } from '../base/log.ts'
import { dataPaths, type DataPaths } from '../base/paths.ts'
import { childrenOf, isAlive, nameProcess, readProcessFile, signalProcess, terminate, type ProcessName } from '../base/processes.ts'
import { isRoot, serviceUser } from '../base/user.ts'
import { until } from '../base/wait.ts'
import { startPostgres, type EmbeddedPostgres } from './embedded.ts'

const START_MS = 60_000
/** The child processes of a killed server notice its end and exit. */
const GONE_MS = 10_000

let paths: DataPaths
beforeEach(() => {
  paths = dataPaths(scratchDir('cob-postgres-'))
})
afterEach(async () => {
  const server = serverOf(paths)
  if (server) await terminate(server, GONE_MS, 'SIGINT')
  rmSync(paths.root, { recursive: true, force: true })
})

const start = (): Promise<EmbeddedPostgres> => startPostgres(paths, silentLog, AbortSignal.timeout(START_MS))

/** The running server of a data directory. */
function serverOf({ postgres }: DataPaths): ProcessName | undefined {
  const file = join(postgres, 'postmaster.pid')
  return existsSync(file) ? nameProcess(Number(readFileSync(file, 'utf8').split('\n')[0])) : undefined
}

async function query(postgres: EmbeddedPostgres, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(postgres.address as pg.ClientConfig)
  client.on('error', () => {}) // a query that was running is rejected as well
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(text)).rows
  } finally {
    await client.end()
  }
}

test('Postgres starts, answers, and keeps its data after a stop and another start', async () => {
  const first = await start()
  await query(first, 'create table kept as select 42 as answer')
  await first.stop()
  expect(serverOf(paths)).toBeUndefined()
  const second = await start()
  expect(await query(second, 'select answer from kept')).toEqual([{ answer: 42 }])
  await second.stop()
})

test('a second start finds the running Postgres and starts no other; stopping it there stops it', async () => {
  await start()
  const server = serverOf(paths)!
  const again = await start()
  expect(serverOf(paths)).toEqual(server)
  expect(await query(again, 'select 1 as one')).toEqual([{ one: 1 }])
  await again.stop()
  expect(isAlive(server)).toBe(false)
})

test('a start right after kill -9 of Postgres recovers everything that was committed', async () => {
  const first = await start()
  await query(first, 'create table kept as select generate_series(1, 10000) as n')
  // Connections hold the server's shared memory for a moment after the server has ended.
  const busy = Array.from({ length: 10 }, () => query(first, 'select pg_sleep(600)').catch((error: Error) => error))
  await until('busy sessions', START_MS, async () => (await query(first, `select 1 from pg_stat_activity where wait_event = 'PgSleep'`)).length === busy.length)
  signalProcess(serverOf(paths)!, 'SIGKILL')
  const second = await start()
  expect(await query(second, 'select count(*)::int as count from kept')).toEqual([{ count: 10_000 }])
  expect((await Promise.all(busy)).every((outcome) => outcome instanceof Error)).toBe(true)
  await second.stop()
})

test('Postgres has nothing in the shared memory of the machine, where a killed one would leave it', async () => {
  const postgres = await start()
  // Counts of a table are in dynamic shared memory.
  await query(postgres, 'create table used as select generate_series(1, 100) as n')
  const server = serverOf(paths)!
  const mapped = [server.pid, ...childrenOf(server.pid)].map((pid) => readProcessFile(pid, 'maps') ?? '')
  expect(mapped.join('')).toContain('pg_dynshmem/mmap.')
  expect(mapped.join('')).not.toContain('/dev/shm/PostgreSQL.')
  await postgres.stop()
})

test('ensure does nothing while Postgres runs, and starts it with its data after a kill', async () => {
  const postgres = await start()
  const signal = AbortSignal.timeout(START_MS)
  await query(postgres, 'create table kept as select 42 as answer')
  const server = serverOf(paths)!
  await postgres.ensure(signal)
  expect(serverOf(paths)).toEqual(server)
  signalProcess(server, 'SIGKILL')
  await until('the killed server to leave', GONE_MS, () => !isAlive(server))
  await postgres.ensure(signal)
  expect(serverOf(paths)).not.toEqual(server)
  expect(await query(postgres, 'select answer from kept')).toEqual([{ answer: 42 }])
  await postgres.stop()
  expect(serverOf(paths)).toBeUndefined()
})

test('a start after a power cut works, when the pid in the pid file belongs to another process', async () => {
  const first = await start()
  signalProcess(serverOf(paths)!, 'SIGKILL')
  await until('the killed server to leave', GONE_MS, () => serverOf(paths) === undefined)
  const file = join(paths.postgres, 'postmaster.pid')
  writeFileSync(file, readFileSync(file, 'utf8').replace(/^\d+/, String(process.pid)))
  const second = await start()
  expect(second.address).toEqual(first.address)
  expect(await query(second, 'select 1 as one')).toEqual([{ one: 1 }])
  await second.stop()
})

test('an incomplete database from a first start that was killed is not used', async () => {
  mkdirSync(join(`${paths.postgres}.new`, 'base'), { recursive: true })
  writeFileSync(join(`${paths.postgres}.new`, 'PG_VERSION'), '18\n')
  const postgres = await start()
  expect(await query(postgres, 'select 1 as one')).toEqual([{ one: 1 }])
  expect(existsSync(`${paths.postgres}.new`)).toBe(false)
  await postgres.stop()
})

test.each(['makes its database', 'boots'])('a start whose caller leaves while Postgres %s fails with that reason and leaves no Postgres', async (phase) => {
  if (phase === 'boots') await (await start()).stop()
  const caller = new AbortController()
  const starting = startPostgres(paths, silentLog, caller.signal)
  setImmediate(() => caller.abort(new Error('the caller left')))
  await expect(starting).rejects.toThrow('the caller left')
  await until('what was started to leave', GONE_MS, () => childrenOf(process.pid).length === 0)
})

test('variables for other databases of the machine do not lead away from it', async () => {
  const others = { PGPORT: '5999', PGSSLMODE: 'require', PGHOST: 'db.example.org', PGUSER: 'ann', PGDATABASE: 'shop', PGPASSWORD: 'x', PGDATA: '/nowhere' }
  const before = { ...process.env }
  Object.assign(process.env, others)
  try {
    const postgres = await start()
    expect(await query(postgres, 'select 1 as one')).toEqual([{ one: 1 }])
    await postgres.stop()
  } finally {
    for (const name of Object.keys(others)) delete process.env[name]
    Object.assign(process.env, before)
  }
})

test('Postgres listens only on its socket, which other users cannot enter, and runs unprivileged', async () => {
  const postgres = await start()
  expect(await query(postgres, `select current_setting('listen_addresses') as addresses, current_setting('fsync') as fsync`)).toEqual([
    { addresses: '', fsync: 'on' },
  ])
  const folder = statSync(paths.postgresSocket)
  expect(folder.mode & 0o777).toBe(0o700)
  expect(folder.uid).toBe(isRoot() ? serviceUser()!.uid : process.getuid!())
  const { pid } = serverOf(paths)!
  expect(/^Uid:\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]).toBe(String(folder.uid))
  await postgres.stop()
})
