// Measures many sessions over three replicas on one Postgres, with fake instances in a separate process: creates on a schedule, and the cost of calls at each number of
// sessions. Callers use the replicas in turn.
import { readFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { sleep } from '../src/base/wait.ts'
import { newKey } from '../src/control/access/keys.ts'
import { callers, cdpLine, onSchedule, type Callers, type Kept } from '../test/support/fake-host/callers.ts'
import { FAKE_HOST_REPLICA, startFakeHost } from '../test/support/fake-host/fake-host.ts'
import { replicaProcess, share, type ReplicaProcess } from '../test/support/replicas.ts'
import type { Bench } from './bench.ts'
import { row, timed, type Row } from './figures.ts'
import { say } from './say.ts'
import { cpuSeconds, memoryMb, tree } from './usage.ts'

const REPLICAS = 3
const CREATES_PER_SECOND = 50
/** The concurrent callers that create the sessions at the start. */
const FILLING = 12
/** The pause between a takeover and the next kill. */
const KILL_EVERY_MS = 5_000
const FIRST_CALLS = 60

/** The replicas under measurement, their callers and their live sessions. */
interface Many extends AsyncDisposable {
  replicas: readonly ReplicaProcess[]
  api: Callers
  live: Kept[]
  pick(): Kept
  /** The process ids of the replicas; below them, those of Postgres with its connections. */
  service(): number[]
  postgres(): number[]
  number(query: string): Promise<number>
}

export async function measureReplicas(bench: Bench): Promise<Row[]> {
  const { counts, signal } = bench
  await using many = await startMany()
  const rows: Row[] = []
  const first = new Map<string, { wall: number[]; cpu: number }>()
  let least: Rest | undefined
  for (const level of counts.levels) {
    await fill(many, level, signal)
    const atRest = await rest(many, counts.restMs, signal)
    least ??= { ...atRest, level }
    rows.push(
      row(`many_idle_${level}`, `${level} live sessions: idle CPU of the three services (% of a core)`, '%', [atRest.service]),
      row(`many_idle_postgres_${level}`, '  of Postgres', '%', [atRest.postgres]),
      row(`many_wal_${level}`, '  its log, written (KB a second)', 'KB', [atRest.walKb]),
    )
    if (level > least.level)
      rows.push(row(`many_memory_${level}`, '  memory of the services for each session (Pss)', 'KB', [((atRest.mb - least.mb) * 1024) / (level - least.level)]))
    for (const [kind, what, call] of calls(many)) {
      const cost = await costOf(many, counts.levelCalls, call)
      const before = first.get(kind)
      if (!before) first.set(kind, cost)
      const beside = <T>(samples: T) => before && { what: `with ${least!.level}`, samples }
      rows.push(
        row(`many_${kind}_${level}`, `${what}, ${level} live sessions`, 'ms', cost.wall, beside(before?.wall ?? [])),
        row(`many_${kind}_cpu_${level}`, `  CPU of the services, ${what}, ${level} sessions`, 'ms', [cost.cpu], beside([before?.cpu ?? 0])),
      )
    }
    if (level === counts.createsAt) rows.push(...(await creates(many, counts.createsMs, signal)))
    say(
      `${level} sessions: load ${loadavg()
        .map((value) => value.toFixed(1))
        .join(' ')}`,
    )
  }
  rows.push(...(await stored(many)))
  return rows
}

async function startMany(): Promise<Many> {
  await using scope = new AsyncDisposableStack()
  const key = newKey()
  const shared = scope.use(await share({ COB_MAX_BROWSERS: '10000', COB_WARM_BROWSERS: '10', COB_WARM_BROWSERS_MAX: '20', COB_FAKE_HOST_TLS: '1' }))
  scope.use(await startFakeHost(shared.paths.root))
  const replicas = await Promise.all(Array.from({ length: REPLICAS }, () => replicaProcess(shared, key, [FAKE_HOST_REPLICA])))
  // The instances and rows that the replicas leave end with the fake host and the database.
  scope.defer(async () => void (await Promise.all(replicas.map((replica) => replica.kill()))))
  for (const replica of replicas) await replica.start()
  const server = Number(readFileSync(join(shared.paths.postgres, 'postmaster.pid'), 'utf8').split('\n')[0])
  const api = scope.use(
    callers(
      replicas.map(({ url }) => url),
      key,
    ),
  )
  const live: Kept[] = []
  const owner = scope.move()
  return {
    replicas,
    api,
    live,
    pick: () => live[Math.floor(Math.random() * live.length)]!,
    service: () => replicas.map((replica) => replica.pid()),
    postgres: () => tree(server),
    number: async (query) => Number(Object.values((await shared.query(query))[0]!)[0]),
    [Symbol.asyncDispose]: () => owner.disposeAsync(),
  }
}

async function fill({ api, live }: Many, level: number, signal: AbortSignal): Promise<void> {
  let missing = level - live.length
  const make = async () => {
    while (missing-- > 0 && !signal.aborted) live.push(await api.create())
  }
  await Promise.all(Array.from({ length: FILLING }, make))
}

interface Rest {
  /** CPU in percent of a core, of the service and of Postgres. */
  service: number
  postgres: number
  walKb: number
  mb: number
  level: number
}

const LOG_BYTES = `select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint`

async function rest(many: Many, ms: number, signal: AbortSignal): Promise<Rest> {
  await sleep(3_000, signal)
  const read = async () => [cpuSeconds(many.service()), cpuSeconds(many.postgres()), (await many.number(LOG_BYTES)) / 1024] as const
  const before = await read()
  await sleep(ms, signal)
  const after = await read()
  const [service, postgres, walKb] = after.map((value, at) => (value - before[at]!) / (ms / 1000)) as [number, number, number]
  return { service: 100 * service, postgres: 100 * postgres, walKb, mb: memoryMb(many.service()), level: many.live.length }
}

function calls({ api, pick }: Many): [kind: string, what: string, call: () => Promise<number>][] {
  const asked = (method: string, path: () => string, body?: object) => async () => {
    const { ms, result } = await timed(() => api.call(method, path(), body))
    if (result.status >= 300) throw new Error(`${method} ${path()} answered ${result.status}: ${result.text}`)
    return ms
  }
  let line: { session: Kept; line: ReturnType<typeof cdpLine> } | undefined
  const trip = async () => {
    if (!line) {
      const session = pick()
      line = { session, line: cdpLine(session.cdpUrl) }
    }
    return line.line.roundTrip()
  }
  return [
    ['get', 'get a session', asked('GET', () => `/browsers/${pick().id}`)],
    ['list', 'list 10 sessions', asked('GET', () => '/browsers?limit=10')],
    ['click', 'click', asked('POST', () => `/browsers/${pick().id}/computer/click_mouse`, { x: 10, y: 10 })],
    ['cdp', 'CDP round trip', trip],
  ]
}

/** The time of calls, made one after the other, and the CPU of the services for each. Their CPU use without calls is subtracted. */
async function costOf(many: Many, count: number, call: () => Promise<number>): Promise<{ wall: number[]; cpu: number }> {
  for (let at = 0; at < FIRST_CALLS; at++) await call()
  const idle = { cpu: cpuSeconds(many.service()), at: performance.now() }
  await sleep(2_000)
  const perMs = (cpuSeconds(many.service()) - idle.cpu) / (performance.now() - idle.at)
  const [before, began] = [cpuSeconds(many.service()), performance.now()]
  const wall: number[] = []
  for (let at = 0; at < count; at++) wall.push(await call())
  const used = cpuSeconds(many.service()) - before - perMs * (performance.now() - began)
  return { wall, cpu: (1000 * used) / count }
}

/** Creates on a schedule, each timed from when it was due, and as many deletes; then the same while replicas are killed. */
async function creates(many: Many, ms: number, signal: AbortSignal): Promise<Row[]> {
  const { api, live, replicas } = many
  const count = (CREATES_PER_SECOND * ms) / 1000
  const run = async () => {
    const [made, gone]: [number[], number[]] = [[], []]
    await onSchedule(CREATES_PER_SECOND, count, async (dueAt) => {
      signal.throwIfAborted()
      const session = await api.create()
      made.push(performance.now() - dueAt)
      const [old] = live.splice(Math.floor(Math.random() * live.length), 1, session)
      gone.push((await timed(() => api.call('DELETE', `/browsers/${old!.id}`))).ms)
    })
    return { made, gone }
  }
  const level = live.length
  const before = { service: cpuSeconds(many.service()), postgres: cpuSeconds(many.postgres()), wal: await many.number(LOG_BYTES) }
  const quiet = await run()
  const each = (used: number) => [(1000 * used) / count]
  const what = `create, ${CREATES_PER_SECOND} a second, ${level} live sessions, three replicas`
  const rows = [
    row('many_creates', what, 'ms', quiet.made),
    row('many_deletes', '  delete beside them', 'ms', quiet.gone),
    row('many_life_cpu', '  CPU of the services for a create and a delete', 'ms', each(cpuSeconds(many.service()) - before.service)),
    row('many_life_cpu_postgres', '  of Postgres', 'ms', each(cpuSeconds(many.postgres()) - before.postgres)),
    row('many_life_wal', '  its log, written', 'KB', [((await many.number(LOG_BYTES)) - before.wal) / 1024 / count]),
  ]
  const over = new AbortController()
  const kill = async () => {
    for (let kills = 0; ; kills++) {
      await sleep(KILL_EVERY_MS, over.signal).catch(() => {})
      if (over.signal.aborted) return kills
      const victim = replicas[Math.floor(Math.random() * replicas.length)]!
      await victim.kill()
      await victim.start()
    }
  }
  const killing = kill()
  const broken = await run().finally(() => over.abort())
  const kills = await killing
  return [
    ...rows,
    row('many_creates_kills', `the same, while ${kills} times a replica is killed and started again`, 'ms', broken.made),
    row('many_deletes_kills', '  delete beside them', 'ms', broken.gone),
  ]
}

/** The size of sessions in the database. */
async function stored({ number }: Many): Promise<Row[]> {
  const counts = { live: await number(`select count(*) from browsers where state <> 'deleted'`), all: await number('select count(*) from browsers') }
  const kb = (await number(`select sum(pg_column_size(b.*)) from browsers b where state <> 'deleted'`)) / counts.live / 1024
  const events = (await number('select count(*) from browser_events')) / counts.all
  const tables = (await number(`select pg_total_relation_size('browsers') + pg_total_relation_size('browser_events')`)) / 1024 / counts.all
  const connections = await number(`select count(*) from pg_stat_activity where application_name like 'cob%'`)
  return [
    row('many_row', 'row of a live session', 'KB', [kb]),
    row('many_events', '  events of a session (rows)', '', [events]),
    row('many_tables', '  tables and indexes of sessions, for each row (live and ended)', 'KB', [tables]),
    row('many_connections', '  connections of three replicas to Postgres', '', [connections]),
  ]
}
