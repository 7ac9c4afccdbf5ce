// The leak check for every test with a service: processes, sockets, directories, limits, rows.
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { silentLog } from '../../src/base/log.ts'
import { dataPaths } from '../../src/base/paths.ts'
import { nameProcess, processesUsing, signalProcess, startTicks } from '../../src/base/processes.ts'
import { sleep } from '../../src/base/wait.ts'
import { startPostgres } from '../../src/store/embedded.ts'

/** Files of ended sessions are removed at the lowest priority. */
const TRASH_MS = 30_000

interface Seen {
  pid: number
  command: string
}

/** The processes of this machine, by pid and start time. */
export function processesNow(): Set<string> {
  return new Set(
    readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map((pid) => `${pid}:${startTicks(Number(pid))}`),
  )
}

/** New processes that have the data directory among their mounts or in their command line. */
function processesOf(dataDir: string, before: ReadonlySet<string>): Seen[] {
  return processesUsing(dataDir, '')
    .filter(({ pid, ticks }) => !before.has(`${pid}:${ticks}`))
    .map(({ pid }) => ({ pid, command: commandOf(pid) }))
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').slice(0, 120)
  } catch {
    return 'gone by now'
  }
}

/** What a service that has ended left behind. Empty when nothing is left. */
export async function leftovers(dataDir: string, before: ReadonlySet<string>): Promise<string[]> {
  const left: string[] = []
  const paths = dataPaths(dataDir)
  // Removers outlive the service that started them.
  const trash = () => (existsSync(paths.trash) ? readdirSync(paths.trash) : [])
  const emptied = performance.now() + TRASH_MS
  while (trash().length > 0 && performance.now() < emptied) await sleep(50)
  left.push(...trash().map((name) => `directory trash/${name}`))
  // The kernel needs a moment to clean up the last killed process.
  const end = performance.now() + 3_000
  const added = () => processesOf(dataDir, before)
  while (added().length > 0 && performance.now() < end) await sleep(50)
  for (const { pid, command } of added()) {
    left.push(`process ${pid}: ${command}`)
    // It is reported; kill it so that it does not disturb the next tests.
    const still = nameProcess(pid)
    if (still) signalProcess(still, 'SIGKILL')
  }
  left.push(...readdirSync(paths.instances).map((id) => `directory instances/${id}`))
  left.push(...readdirSync(paths.appSandboxes).map((id) => `directory runs/${id}`))
  left.push(
    ...readFileSync('/proc/net/unix', 'utf8')
      .split('\n')
      .filter((line) => line.includes(dataDir))
      .map((line) => `socket ${line}`),
  )
  if (existsSync(paths.hostId)) {
    const host = readFileSync(paths.hostId, 'utf8').trim()
    for (const controller of ['memory', 'pids', 'cpu', '.'])
      for (const kind of ['', '-apps']) {
        const base = join('/sys/fs/cgroup', controller, `cob-${host}${kind}`)
        if (existsSync(base)) left.push(`limits ${base}`)
      }
  }
  left.push(...(await liveRows(dataDir)).map((row) => `row ${row}`))
  return left
}

async function liveRows(dataDir: string): Promise<string[]> {
  const paths = dataPaths(dataDir)
  if (!existsSync(paths.postgres)) return []
  const postgres = await startPostgres(paths, silentLog, AbortSignal.timeout(60_000))
  try {
    const client = new pg.Client(postgres.address)
    await client.connect()
    const { rows } = await client.query<{ id: string; state: string }>('select id, state from browsers where deleted_at is null or state != $1', ['deleted'])
    const runs = await client.query<{ id: string; state: string }>('select id, state from invocations where finished_at is null')
    await client.end()
    return [...rows, ...runs.rows].map(({ id, state }) => `${id} is ${state}`)
  } finally {
    await postgres.stop()
  }
}
