// Makes random calls of many callers to two pools of one service, with crashes and timeouts, and compares the results with a small model.
import { expect } from 'vitest'
import { until, within } from '../../src/base/wait.ts'
import { seeded } from './seeded.ts'

/** After this many steps, the pools are compared with the whole model. */
const STEPS_AT_ONCE = 8

/** A session as its caller receives it. */
interface Session {
  session_id: string
  [field: string]: unknown
}

/** The service whose pools are tested. */
export interface Walked {
  /** Sends a request with the API key. */
  fetch(path: string, init?: RequestInit): Promise<Response>
  query<T extends object>(text: string, values?: unknown[]): Promise<T[]>
  /** Ends a browser's instance as a crash does. Resolves when it has ended. */
  crash(id: string): Promise<void>
}

export interface Walk {
  steps: number
  /** The largest size of a pool. */
  largest: number
  /** The limit for every operation of the service. */
  settleMs: number
}

/** The seed of this run; `COB_TEST_SEED` repeats one. */
export const SEED = Number(process.env.COB_TEST_SEED ?? Date.now() % 1_000_000)

/** A caller that waits for a browser. */
interface Waiting {
  name: string
  answer: Promise<void>
  leave: AbortController
}

interface Pool {
  id: string
  size: number
  /** The timeout of sessions; it stands for the pool's whole configuration. */
  timeout: number
  /** Browsers that may still have the old configuration, because they existed when it changed. */
  older: Set<string>
  isChanging: boolean
  /** The largest allowed number of browsers: the size, or more just after the size was reduced. */
  most: number
  /** The acquired sessions, with their names. */
  leases: Map<string, string>
  /** The waiting callers, in order of arrival. */
  waiting: Waiting[]
  /** The time and the name of each caller that waited and got a browser, in order of arrival. */
  served: string[]
}

interface Row {
  id: string
  state: string
  pool_id: string | null
  name: string | null
}

/** Makes random steps, and deletes the pools at the end. @throws with the seed and the last steps */
export async function walkPools(cloud: Walked, { steps, largest, settleMs }: Walk): Promise<void> {
  const random = seeded(SEED)
  const below = (count: number) => Math.floor(random() * count)
  const pick = <T>(list: readonly T[]): T | undefined => list[below(list.length)]
  const log: string[] = []
  /** Failures of calls whose promise is not awaited. */
  const failures: unknown[] = []
  let named = 0

  const send = async (method: string, path: string, body: unknown, wanted: readonly number[], signal?: AbortSignal): Promise<Response> => {
    const init = { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body), ...(signal && { signal }) }
    const response = await cloud.fetch(path, init)
    if (!wanted.includes(response.status)) throw new Error(`${method} ${path} answered ${response.status}: ${await response.text()}`)
    return response
  }

  async function makePool(): Promise<Pool> {
    const size = 1 + below(largest)
    const made = await send('POST', '/browser_pools', { size, timeout_seconds: 600 }, [200])
    const { id } = (await made.json()) as { id: string }
    // A very high rate, so that the pool replaces an ended browser at once. The API does not accept such a rate.
    await cloud.query(`update browser_pools set config = config || '{"fill_rate_per_minute": 10000000}' where id = $1`, [id])
    log.push(`made ${id} of ${size}`)
    return { id, size, timeout: 600, older: new Set(), isChanging: false, most: size, leases: new Map(), waiting: [], served: [] }
  }

  const rowsNow = () => cloud.query<Row>(`select id, state, pool_id, name from browsers where state <> 'deleted'`)
  const poolOf = new Map<string, string>()
  /** The names of callers that left. Such a caller may have got a browser at the same moment. */
  const left = new Set<string>()

  /** Checks a browser that a caller got: no one else has it, it belongs to this pool, and its configuration is right. */
  function got(pool: Pool, name: string, session: Session, all: readonly Pool[]): void {
    const holders = all.flatMap(({ leases }) => leases.get(session.session_id) ?? [])
    expect([holders, session.name, (session.pool as { id: string } | undefined)?.id, session.tags]).toEqual([[], name, pool.id, { by: name }])
    if (pool.isChanging) pool.older.add(session.session_id)
    else if (!pool.older.has(session.session_id)) expect([session.session_id, session.timeout_seconds]).toEqual([session.session_id, pool.timeout])
    pool.leases.set(session.session_id, name)
  }

  async function acquire(pool: Pool, seconds: number, all: readonly Pool[]): Promise<void> {
    const name = `caller-${named++}`
    const leave = new AbortController()
    const body = { acquire_timeout_seconds: seconds, name, tags: { by: name } }
    const ask = async () => {
      try {
        const answer = await send('POST', `/browser_pools/${pool.id}/acquire`, body, [200, 204, 404], leave.signal)
        if (answer.status !== 200) return void log.push(`${name} got ${answer.status}`)
        const session = (await answer.json()) as Session
        log.push(`${name} got ${session.session_id}`)
        got(pool, name, session, all)
        if (seconds > 0) pool.served.push(`${String(session.created_at)} ${name}`)
      } catch (error) {
        if (!leave.signal.aborted) throw error
      } finally {
        pool.waiting = pool.waiting.filter((one) => one.name !== name)
      }
    }
    const answer = ask()
    if (seconds === 0) return answer
    answer.catch((error: unknown) => failures.push(error))
    pool.waiting.push({ name, answer, leave })
    // Wait until this caller is in the queue, so that the order of callers is known.
    await until(
      'its place',
      settleMs,
      async () => pool.waiting.every((one) => one.name !== name) || (await waitingNow()) >= all.flatMap((one) => one.waiting).length,
      {
        everyMs: 2,
      },
    )
  }
  const waitingNow = async () => Number(/^cob_warm_pool_waiting (\d+)$/m.exec(await (await cloud.fetch('/metrics')).text())![1])

  async function crash(id: string): Promise<void> {
    await cloud.crash(id)
    await until('the crash to be noticed', settleMs, async () => (await rowsNow()).every((row) => row.id !== id), { everyMs: 2 })
  }

  /** Ends a browser as if its caller had not used it for long. */
  async function timeOut(id: string): Promise<void> {
    await until('its timeout', settleMs, async () => {
      await cloud.query(`update browsers set last_active_at = now() - interval '1 day' where id = $1 and state = 'running'`, [id])
      return (await cloud.query<Row>(`select state from browsers where id = $1`, [id]))[0]!.state === 'deleted'
    })
  }

  async function step(pools: Pool[]): Promise<void> {
    const at = below(pools.length)
    const pool = pools[at]!
    const lease = pick([...pool.leases.keys()])
    const what = below(100)
    const note = (text: string) => void log.push(`${pool.id}: ${text}`)
    if (what < 20) {
      note('acquire, without a wait')
      await acquire(pool, 0, pools)
    } else if (what < 42) {
      note('acquire')
      if (pool.waiting.length < 8) await acquire(pool, 50, pools)
    } else if (what < 62 && lease) {
      note(`release ${lease}`)
      pool.leases.delete(lease)
      await send('POST', `/browser_pools/${pool.id}/release`, { session_id: lease, ...(below(2) === 0 && { reuse: true }) }, [204])
    } else if (what < 70 && lease) {
      note(`release ${lease}, not to be used again`)
      pool.leases.delete(lease)
      await send('POST', `/browser_pools/${pool.id}/release`, { session_id: lease, reuse: false }, [204])
    } else if (what < 75 && lease) {
      note(`delete ${lease}`)
      pool.leases.delete(lease)
      await send('DELETE', `/browsers/${lease}`, {}, [204])
    } else if (what < 79) {
      const id = pick((await rowsNow()).filter((row) => row.pool_id === pool.id && ['warm', 'running'].includes(row.state)).map((row) => row.id))
      note(`crash of ${id}`)
      // A waiting caller may get this browser at this moment, so crash it only when nobody waits.
      if (id !== undefined && (pool.leases.has(id) || pool.waiting.length === 0)) {
        pool.leases.delete(id)
        await crash(id)
      }
    } else if (what < 80 && lease) {
      note(`timeout of ${lease}`)
      pool.leases.delete(lease)
      await timeOut(lease)
    } else if (what < 84) {
      const idle = (await rowsNow()).filter((row) => row.pool_id === pool.id && row.state === 'warm').map(({ id }) => id)
      note('flush')
      await send('POST', `/browser_pools/${pool.id}/flush`, {}, [204])
      const still = (await rowsNow()).filter((row) => row.state === 'warm' && idle.includes(row.id))
      if (pool.waiting.length === 0) expect(still).toEqual([])
    } else if (what < 90) {
      const [size, timeout, discards] = [1 + below(largest), 600 + below(2), below(2) === 0]
      note(`update to ${size}, ${timeout}, discards ${discards}`)
      const there = (await rowsNow()).filter((row) => row.pool_id === pool.id).length
      pool.most = Math.max(size, there, pool.size)
      Object.assign(pool, { size, timeout, isChanging: true })
      // Browsers that are acquired or created during the change may have either configuration.
      const keep = async (states: readonly string[]) => {
        for (const row of await rowsNow()) if (states.includes(row.state)) pool.older.add(row.id)
      }
      const changing = ['starting', 'running', 'releasing', ...(discards ? [] : ['warm'])]
      await send('PATCH', `/browser_pools/${pool.id}`, { size, timeout_seconds: timeout, ...(discards && { discard_all_idle: true }) }, [200])
      await keep(changing)
      pool.isChanging = false
    } else if (what < 92) {
      const force = below(2) === 0
      note(`delete, force ${force}`)
      // A waiting caller might get a browser at the same moment; the tests of races cover that.
      if (pool.waiting.length > 0 && !force) return
      const { status } = await send('DELETE', `/browser_pools/${pool.id}`, { force }, pool.leases.size > 0 && !force ? [409] : [204])
      if (status !== 204) return
      await Promise.all(pool.waiting.map(({ answer }) => answer))
      const rows = (await rowsNow()).filter((row) => row.pool_id === pool.id && ['running', 'releasing'].includes(row.state))
      expect(rows).toEqual([])
      pools[at] = await makePool()
    } else if (what < 96) {
      const one = pick(pool.waiting)
      note(`${one?.name} leaves`)
      if (!one) return
      left.add(one.name)
      one.leave.abort()
      await one.answer
    } else {
      note('a session of no pool')
      const session = (await (await send('POST', '/browsers', {}, [200])).json()) as Session
      expect([session.pool, poolOf.get(session.session_id)]).toEqual([undefined, undefined])
      await send('DELETE', `/browsers/${session.session_id}`, {}, [204])
    }
  }

  /** Checks what must hold at any moment. */
  async function check(pools: readonly Pool[]): Promise<void> {
    if (failures.length > 0) throw failures[0]
    const before = new Map(pools.map((pool) => [pool, { leases: new Map(pool.leases), waiting: pool.waiting.map(({ name }) => name) }]))
    const rows = await rowsNow()
    for (const { id, pool_id: pool } of rows) if (pool !== null) expect([id, (poolOf.get(id) ?? poolOf.set(id, pool).get(id)) === pool]).toEqual([id, true])
    for (const pool of pools) {
      const own = rows.filter((row) => row.pool_id === pool.id)
      expect(own.length).toBeLessThanOrEqual(pool.most)
      if (own.length <= pool.size) pool.most = pool.size
      const { leases, waiting } = before.get(pool)!
      const running = new Map(own.filter(({ state }) => state === 'running').map((row) => [row.id, row.name]))
      for (const [id, name] of leases) if (pool.leases.has(id)) expect([id, running.get(id)]).toEqual([id, name])
      // This caller's answer is still on its way.
      for (const [id, name] of running) if (!leases.has(id)) expect([name, waiting.includes(name!) || left.has(name!)]).toEqual([name, true])
      expect(own.filter(({ state, name }) => ['warm', 'starting'].includes(state) && name !== null)).toEqual([])
    }
  }

  /** Waits until nothing changes any more: every pool is full, and callers wait only for acquired browsers. */
  async function settle(pools: readonly Pool[]): Promise<void> {
    for (const pool of pools) {
      let now: unknown
      const isSettled = async () => {
        const rows = (await rowsNow()).filter((row) => row.pool_id === pool.id)
        // A caller that left at the moment when it got a browser does not release it, so delete it here.
        for (const row of rows) if (row.state === 'running' && left.has(row.name ?? '')) await cloud.fetch(`/browsers/${row.id}`, { method: 'DELETE' })
        const { acquired_count: acquired, available_count: available } = (await (await cloud.fetch(`/browser_pools/${pool.id}`)).json()) as Record<
          string,
          number
        >
        const { leases, waiting, size } = pool
        now = { acquired, available, rows, leases: [...leases], waiting: waiting.length, size }
        const isFull = acquired! + available! === Math.max(size, leases.size) && rows.length === acquired! + available!
        return acquired === leases.size && isFull && (waiting.length === 0 || leases.size >= size)
      }
      await until('a full pool', settleMs, isSettled, { everyMs: 5 }).catch((error: unknown) => {
        throw new Error(`${(error as Error).message}: ${JSON.stringify(now)}`, { cause: error })
      })
      pool.most = Math.max(pool.size, pool.leases.size)
      // Compare in order of arrival: the times of acquisition must ascend.
      const inOrder = pool.served.toSorted((a, b) => Number(/\d+$/.exec(a)) - Number(/\d+$/.exec(b)))
      const times = inOrder.map((one) => one.split(' ')[0]!)
      expect(times).toEqual(times.toSorted())
      pool.served = []
    }
  }

  const pools = [await makePool(), await makePool()]
  try {
    for (let at = 0; at < steps; at++) {
      await within(`step ${at}`, settleMs, step(pools))
      await check(pools)
      if (at % STEPS_AT_ONCE === STEPS_AT_ONCE - 1) await settle(pools)
    }
    for (const pool of pools) {
      for (const { leave } of pool.waiting) leave.abort()
      await Promise.all(pool.waiting.map(({ answer }) => answer))
      await send('DELETE', `/browser_pools/${pool.id}`, { force: true }, [204])
    }
    await until('their ends', settleMs, async () => (await rowsNow()).every((row) => row.pool_id === null))
  } catch (error) {
    throw new Error(`seed ${SEED}, after:\n${log.slice(-40).join('\n')}`, { cause: error })
  }
}
