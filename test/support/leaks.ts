// The leak check that every test with a service runs through: processes, sockets, directories, limits, rows.
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { silentLog } from '../../src/base/log.ts'
import { dataPaths } from '../../src/base/paths.ts'
import { nameProcess, processesUsing, signalProcess, startTicks } from '../../src/base/processes.ts'
import { startPostgres } from '../../src/store/embedded.ts'

/** Programs that only an instance or the service's Postgres consists of. */
const OURS = /^(pasta|pasta\.avx2|bwrap|Xvfb|chromium|chrome_crashpad|postgres|initdb|unshare|setpriv|node)$/

interface Seen {
  pid: number
  name: string
  command: string
}

/** The processes of this machine that could be ours, by pid and start time. */
export function processesNow(): Map<string, Seen> {
  const found = new Map<string, Seen>()
  for (const entry of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const pid = Number(entry)
    const ticks = startTicks(pid)
    try {
      const name = readFileSync(`/proc/${pid}/comm`, 'utf8').trim()
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
      // Test runners come and go as they like; of the Node processes only agents and services are ours.
      if (ticks && OURS.test(name) && (name !== 'node' || /agent\/main\.ts|cli\/main\.ts/.test(command)))
        found.set(`${pid}:${ticks}`, { pid, name, command: command.slice(0, 120) })
    } catch {}
  }
  return found
}

/** What is left of a service that has ended. Empty when nothing is. */
export async function leftovers(dataDir: string, before: Map<string, Seen>): Promise<string[]> {
  const left: string[] = []
  // The kernel takes a moment to clear away what was killed last.
  const end = performance.now() + 3_000
  // Others may run services on this machine at the same time.
  const added = () => {
    const ours = new Set(processesUsing(dataDir, '').map(({ pid }) => pid))
    return [...processesNow()].filter(([key, { pid }]) => !before.has(key) && ours.has(pid)).map(([, seen]) => seen)
  }
  while (added().length > 0 && performance.now() < end) await new Promise((resolve) => setTimeout(resolve, 50))
  for (const { pid, name, command } of added()) {
    left.push(`process ${pid} ${name}: ${command}`)
    // Found and told; it shall not disturb the tests that follow.
    const still = nameProcess(pid)
    if (still) signalProcess(still, 'SIGKILL')
  }
  const paths = dataPaths(dataDir)
  left.push(...readdirSync(paths.instances).map((id) => `directory instances/${id}`))
  left.push(
    ...readFileSync('/proc/net/unix', 'utf8')
      .split('\n')
      .filter((line) => line.includes(dataDir))
      .map((line) => `socket ${line}`),
  )
  if (existsSync(paths.hostId)) {
    const host = readFileSync(paths.hostId, 'utf8').trim()
    for (const controller of ['memory', 'pids', '.']) {
      const base = join('/sys/fs/cgroup', controller, `cob-${host}`)
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
    await client.end()
    return rows.map(({ id, state }) => `${id} is ${state}`)
  } finally {
    await postgres.stop()
  }
}
