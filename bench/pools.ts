// Measures browsers of pools: single acquires and releases, plain and with every option, compared to creates of the same, and many callers on a small pool.
import { markingExtension } from '../test/support/extensions.ts'
import { until } from '../src/base/wait.ts'
import { httpProxy } from '../test/support/upstreams.ts'
import type { Bench } from './bench.ts'
import { madeProxy, makeProfile } from './dressed.ts'
import { row, timed, type Row } from './figures.ts'
import { ownFolder } from './programs.ts'
import type { Service } from './sessions.ts'

const NAME = 'bench-pool'
/** The size of the profile's files, in MB. */
const PROFILE_MB = 5
const FILL_MS = 300_000
/** The longest wait of an acquire that finds no idle browser. */
const WAIT_SECONDS = 50

/** Acquires and releases, compared to creates from warm browsers. */
export async function measurePools(bench: Bench, service: Service): Promise<Row[]> {
  const { pages, signal } = bench
  const { client } = service.cloud
  await using scope = new AsyncDisposableStack()
  const rows = await oneByOne(bench, service, 'pool', 'an idle browser', {})

  const proxy = scope.use(await httpProxy())
  const proxyId = await madeProxy(service, proxy)
  await client.extensions.upload({ file: new File([new Uint8Array(markingExtension('marker'))], 'marker.zip'), name: NAME })
  {
    using unpacked = ownFolder()
    await makeProfile(service, NAME, PROFILE_MB, pages.inside('small'), unpacked.path, signal)
  }
  const options = { profile: { name: NAME }, extensions: [{ name: NAME }], proxy_id: proxyId }
  rows.push(...(await oneByOne(bench, service, 'pool_dressed', `one with a profile of ${PROFILE_MB} MB, an extension and a proxy`, options)))
  return [...rows, ...(await measureQueue(bench, service))]
}

/** Compares with creates when no browser is warm. */
export async function measurePoolsCold({ counts, rest }: Bench, service: Service): Promise<Row[]> {
  const creates: number[] = []
  for (let i = 0; i < counts.cold; i++) {
    await rest()
    const { ms, result: session } = await timed(() => service.create())
    creates.push(ms)
    await session.delete()
  }
  return [row('pool_cold', 'cold create beside them (POST answered)', 'ms', creates)]
}

/** Makes a pool and fills it. Disposing deletes it. */
async function openPool({ cloud }: Service, size: number, options: object, signal: AbortSignal) {
  const post = async (path: string, body: object): Promise<Response> => {
    const init = { method: 'POST', signal, body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
    const response = await cloud.fetch(`/browser_pools${path}`, init)
    if (!response.ok) throw new Error(`POST /browser_pools${path} answered ${response.status}: ${await response.text()}`)
    return response
  }
  await (await post('', { name: NAME, size, fill_rate_per_minute: 6_000, timeout_seconds: 600, ...options })).arrayBuffer()
  await until('the pool to be filled', FILL_MS, async () => (await cloud.client.browserPools.retrieve(NAME)).available_count === size, { everyMs: 50, signal })
  return {
    /** @returns the session's id */
    async acquire(): Promise<string> {
      const response = await post(`/${NAME}/acquire`, { acquire_timeout_seconds: WAIT_SECONDS })
      if (response.status === 204) throw new Error(`no browser was free within ${WAIT_SECONDS} s`)
      return ((await response.json()) as { session_id: string }).session_id
    },
    release: async (id: string) => void (await (await post(`/${NAME}/release`, { session_id: id })).arrayBuffer()),
    [Symbol.asyncDispose]: async () => cloud.client.browserPools.delete(NAME, { force: true }),
  }
}

async function oneByOne({ counts, rest, signal }: Bench, service: Service, id: string, what: string, options: object): Promise<Row[]> {
  const [acquires, releases, creates]: [number[], number[], number[]] = [[], [], []]
  {
    await using pool = await openPool(service, 1, options, signal)
    for (let i = 0; i < counts.acquires; i++) {
      await rest()
      const { ms, result: session } = await timed(() => pool.acquire())
      acquires.push(ms)
      releases.push((await timed(() => pool.release(session))).ms)
    }
  }
  for (let i = 0; i < counts.dressed; i++) {
    await service.warm(1)
    await rest()
    const { ms, result: session } = await timed(() => service.create(options))
    creates.push(ms)
    await session.delete()
  }
  return [
    row(id, `acquire of ${what} (POST answered)`, 'ms', acquires, { what: 'warm create of the same', samples: creates }),
    row(`${id}_release`, '  release, until the next caller may have it', 'ms', releases),
  ]
}

/** All callers come at once; each releases its browser as soon as it has got it. */
async function measureQueue({ counts, rest, signal }: Bench, service: Service): Promise<Row[]> {
  const { poolSize: size, poolCallers: callers } = counts
  await using pool = await openPool(service, size, {}, signal)
  await rest()
  const waits: number[] = []
  const { ms: last } = await timed(() =>
    Promise.all(
      Array.from({ length: callers }, async () => {
        const { ms, result: session } = await timed(() => pool.acquire())
        waits.push(ms)
        await pool.release(session)
      }),
    ),
  )
  return [
    row('pool_queue', `${callers} callers at once on a pool of ${size}: until a caller has a browser`, 'ms', waits),
    row('pool_queue_last', '  until the last has given it back', 'ms', [last]),
  ]
}
