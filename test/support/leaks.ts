// The leak check for every test with a service: processes, sockets, directories, limits, rows.
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { silentLog } from '../../src/base/log.ts'
import { dataPaths } from '../../src/base/paths.ts'
import { nameProcess, processesUsing, signalProcess, startTicks } from '../../src/base/processes.ts'
import { sleep } from '../../src/base/wait.ts'
import { recall } from '../../src/instances/local/remembered.ts'
import { startPostgres } from '../../src/store/embedded.ts'
import type { Cloud } from './cloud.ts'

/** The limit for a deleted session to end, and for the next warm browser to start. */
const ENDED_MS = 30_000
/** The limit for the removal of ended sessions' files, which has the lowest priority. */
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

/** New processes that have the data directory in their mounts or in their command line. */
async function processesOf(dataDir: string, before: ReadonlySet<string>): Promise<Seen[]> {
  return (await processesUsing(dataDir, '')).filter(({ pid, ticks }) => !before.has(`${pid}:${ticks}`)).map(({ pid }) => ({ pid, command: commandOf(pid) }))
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').slice(0, 120)
  } catch {
    return 'gone by now'
  }
}

/** What an ended service left behind; empty when it left nothing. */
export async function leftovers(dataDir: string, before: ReadonlySet<string>): Promise<string[]> {
  const left: string[] = []
  const paths = dataPaths(dataDir)
  // Processes that remove files outlive the service that started them.
  const trash = () => (existsSync(paths.trash) ? readdirSync(paths.trash) : [])
  const emptied = performance.now() + TRASH_MS
  while (trash().length > 0 && performance.now() < emptied) await sleep(50)
  left.push(...trash().map((name) => `directory trash/${name}`))
  // The kernel needs a moment to clean up the last killed process.
  const end = performance.now() + 3_000
  const added = () => processesOf(dataDir, before)
  while ((await added()).length > 0 && performance.now() < end) await sleep(50)
  for (const { pid, command } of await added()) {
    left.push(`process ${pid}: ${command}`)
    // The test reports this process. Kill it, so that it does not disturb the next tests.
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
  left.push(...groupsOf(dataDir).map((base) => `limits ${base}`))
  left.push(...(await liveRows(dataDir)).map((row) => `row ${row}`))
  return left
}

/**
 * What remains in a running service of app sandboxes and of the sessions that ended after `endedBefore`. Empty when nothing remains; then all starts have ended too,
 * and all its browsers are warm, or sandboxes that are only prepared.
 */
export async function remainders(service: Pick<Cloud, 'dataDir' | 'query'>, endedBefore: ReadonlySet<string>): Promise<string[]> {
  const { dataDir, query } = service
  const paths = dataPaths(dataDir)
  const look = async (): Promise<string[]> => {
    const rows = await query<{ id: string; state: string }>(
      `select id, state from browsers where state not in ('warm', 'deleted') union all select id, state from invocations where finished_at is null`,
    )
    const warm = new Set((await query<{ id: string }>(`select id from browsers where state = 'warm'`)).map(({ id }) => id))
    const ended = [...(await endedSessions(service))].filter((id) => !endedBefore.has(id))
    const sockets = readFileSync('/proc/net/unix', 'utf8').split('\n')
    const left = [
      ...rows.map(({ id, state }) => `row ${id} is ${state}`),
      ...readdirSync(paths.instances).flatMap((id) => (warm.has(id) || recall(join(paths.instances, id))?.isPrepared ? [] : [`directory instances/${id}`])),
      ...readdirSync(paths.appSandboxes).map((id) => `directory runs/${id}`),
      ...ended.flatMap((id) => [
        ...sockets.filter((line) => line.includes(id)).map((line) => `socket ${line}`),
        ...groupsOf(dataDir).flatMap((base) => (existsSync(join(base, id)) ? [`limits ${join(base, id)}`] : [])),
      ]),
    ]
    for (const id of ended) {
      const using = (await processesUsing(id, '')).map(({ pid }) => ({ pid, command: commandOf(pid) }))
      // A process that removes files has their folder in its command line. It outlives the session, and the check of the whole service waits for it.
      left.push(...using.filter(({ command }) => !command.includes(paths.trash)).map(({ pid, command }) => `process ${pid}: ${command}`))
    }
    return left
  }
  const end = performance.now() + ENDED_MS
  let left = await look()
  while (left.length > 0 && performance.now() < end) {
    await sleep(50)
    left = await look()
  }
  return left
}

/** The ids of all deleted sessions and ended warm browsers of a service. */
export async function endedSessions({ query }: Pick<Cloud, 'query'>): Promise<Set<string>> {
  return new Set((await query<{ id: string }>(`select id from browsers where state = 'deleted'`)).map(({ id }) => id))
}

/** The parent cgroups of the sessions and app sandboxes of a service with this data directory. */
function groupsOf(dataDir: string): string[] {
  const { hostId } = dataPaths(dataDir)
  if (!existsSync(hostId)) return []
  const host = readFileSync(hostId, 'utf8').trim()
  return ['memory', 'pids', 'cpu', 'freezer', '.']
    .flatMap((controller) => ['', '-apps'].map((kind) => join('/sys/fs/cgroup', controller, `cob-${host}${kind}`)))
    .filter((base) => existsSync(base))
}

async function liveRows(dataDir: string): Promise<string[]> {
  const paths = dataPaths(dataDir)
  if (!existsSync(paths.postgres)) return []
  const postgres = await startPostgres(paths, silentLog, AbortSignal.timeout(60_000))
  try {
    const client = new pg.Client(postgres.address)
    await client.connect()
    try {
      // A service that ended before its database had tables has no rows.
      const made = await client.query<{ made: boolean }>(`select to_regclass('browsers') is not null and to_regclass('invocations') is not null as made`)
      if (!made.rows[0]!.made) return []
      const { rows } = await client.query<{ id: string; state: string }>(
        `select id, state from browsers where deleted_at is null or state != 'deleted'
         union all select id, state from invocations where finished_at is null`,
      )
      return rows.map(({ id, state }) => `${id} is ${state}`)
    } finally {
      await client.end()
    }
  } finally {
    await postgres.stop()
  }
}
