// Browser pools with several replicas on one database: each replica lends and takes back any browser, and the pool is filled once for all.
import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import type { Session } from '../../../test/support/fast-cloud.ts'
import { twoReplicas, type FastReplica } from '../../../test/support/two-replicas.ts'
import { until, within } from '../../base/wait.ts'

/** A notice arrives within milliseconds. Without it, replicas notice a change within two seconds, and a takeover takes five. */
const NOTICE_MS = 20_000

describe('replicas', { timeout: 60_000 }, () => {
  const { shared, one, two, another } = twoReplicas({ COB_MAX_BROWSERS: '60' })

  const answered = async (response: Promise<Response>, status: number) => {
    const { status: got, ...rest } = await response.then(async (answer) => ({ status: answer.status, text: await answer.text() }))
    expect([got, rest.text]).toEqual([status, expect.anything()])
    return rest.text
  }
  const makePool = async (by: FastReplica, size: number, rate = 6_000) =>
    (JSON.parse(await answered(by.send('POST', '/browser_pools', { size, fill_rate_per_minute: rate }), 200)) as { id: string }).id
  const acquire = async (by: FastReplica, pool: string, body: object = {}) =>
    JSON.parse(await answered(by.send('POST', `/browser_pools/${pool}/acquire`, body), 200)) as Session
  const release = (by: FastReplica, pool: string, id: string, reuse = true) =>
    answered(by.send('POST', `/browser_pools/${pool}/release`, { session_id: id, reuse }), 204)
  const remove = async (by: FastReplica, pool: string) => {
    await answered(by.send('DELETE', `/browser_pools/${pool}`, { force: true }), 204)
    await until('its end', NOTICE_MS, async () => (await rowsOf(pool)).length === 0)
  }
  const rowsOf = (pool: string) =>
    shared.query<{ id: string; state: string; replica: string }>(`select id, state, replica from browsers where pool_id = $1 and state <> 'deleted'`, [pool])
  const reaches = (pool: string, acquired: number, available: number, at = [one, two]) =>
    until('the pool', NOTICE_MS, async () => {
      const counts = await Promise.all(
        at.map(async (replica) => {
          const { acquired_count: a, available_count: b } = JSON.parse(await answered(replica.fetch(`/browser_pools/${pool}`), 200)) as Record<string, number>
          return a === acquired && b === available
        }),
      )
      return counts.every(Boolean) && (await rowsOf(pool)).length === acquired + available
    })

  test('any replica lends what another one watches, and takes it back from any caller', async () => {
    for (const [maker, user] of [
      [one, two],
      [two, one],
    ] as const) {
      const pool = await makePool(maker, 2)
      await reaches(pool, 0, 2)
      const [a, b] = [await acquire(user, pool, { name: 'mine' }), await acquire(maker, pool)]
      expect([a.name, a.session_id === b.session_id]).toEqual(['mine', false])
      for (const replica of [one, two]) await answered(replica.send('POST', `/browsers/mine/computer/click_mouse`, { x: 1, y: 1 }), 200)
      await reaches(pool, 2, 0)
      await release(maker, pool, a.session_id)
      await release(user, pool, b.session_id)
      await reaches(pool, 0, 2)
      // No call reaches them, at any replica.
      for (const replica of [one, two]) expect((await replica.send('POST', `/browsers/${a.session_id}/computer/click_mouse`, { x: 1, y: 1 })).status).toBe(404)
      const again = [await acquire(user, pool), await acquire(user, pool)].map(({ session_id: id }) => id)
      expect(again.toSorted()).toEqual([a.session_id, b.session_id].toSorted())
      await remove(user, pool)
    }
  })

  test('a recording of a browser that another replica has lent at this moment goes on until it is stopped', async () => {
    const pool = await makePool(one, 1)
    // One of the two watches the browser.
    for (const [lender, at] of [
      [one, two],
      [two, one],
    ] as const) {
      await reaches(pool, 0, 1)
      const { session_id: id } = await acquire(lender, pool)
      const { replay_id: replay } = JSON.parse(await answered(at.send('POST', `/browsers/${id}/replays`, {}), 201)) as { replay_id: string }
      await answered(at.send('POST', `/browsers/${id}/replays/${replay}/stop`, {}), 200)
      await until('the film', NOTICE_MS, async () => (await lender.fetch(`/browsers/${id}/replays/${replay}`)).status === 200)
      expect(await shared.query('select end_reason from replays where id = $1', [replay])).toEqual([{ end_reason: 'stopped' }])
      await release(lender, pool, id)
    }
    await remove(one, pool)
  })

  test("a browser that one replica takes back has none of its caller's connections left at the other one", async () => {
    const pool = await makePool(one, 1)
    await reaches(pool, 0, 1)
    for (const [holder, taker] of [
      [one, two],
      [two, one],
    ] as const) {
      const { session_id: id, cdp_ws_url: url } = await acquire(holder, pool)
      const socket = new WebSocket(url)
      const closed = once(socket, 'close') as Promise<[number]>
      await once(socket, 'open')
      await release(taker, pool, id)
      expect((await within('the end of a connection', NOTICE_MS, closed))[0]).toBe(4001)
      // The former caller's address stays invalid, also after the next caller has got the same browser.
      expect((await acquire(taker, pool)).session_id).toBe(id)
      const again = new WebSocket(url)
      const [error] = (await once(again, 'error')) as [Error]
      expect(error.message).toContain('401')
      await release(holder, pool, id)
    }
    await remove(one, pool)
  })

  test('callers at both get what is given back at either, each browser one caller', async () => {
    const pool = await makePool(two, 3)
    await reaches(pool, 0, 3)
    const holders = new Map<string, number>()
    const served = new Set<number>()
    const call = async (caller: number) => {
      const [at, other] = caller % 2 ? [one, two] : [two, one]
      const { session_id: id } = await acquire(at, pool, { acquire_timeout_seconds: 50 })
      expect([caller, holders.get(id)]).toEqual([caller, undefined])
      holders.set(id, caller)
      served.add(caller)
      // Two of three callers give the browser back at the other replica, and one in five ends it.
      holders.delete(id)
      await release(caller % 3 ? other : at, pool, id, caller % 5 !== 0)
    }
    await Promise.all(Array.from({ length: 30 }, (_, caller) => call(caller)))
    expect(served.size).toBe(30)
    await reaches(pool, 0, 3)
    await remove(one, pool)
  })

  test('that both make browsers for callers never make more than the size of the pool', async () => {
    const pool = await makePool(one, 4, 0)
    await reaches(pool, 0, 4)
    const most: number[] = []
    for (let round = 0; round < 5; round++) {
      // End all browsers. With a rate of 0, browsers are made only for waiting callers, each at the caller's replica.
      for (const _ of await rowsOf(pool)) await release(one, pool, (await acquire(one, pool)).session_id, false)
      await reaches(pool, 0, 0)
      const leaving = new AbortController()
      const waiting = Array.from({ length: 12 }, (_, caller) =>
        (caller % 2 ? one : two)
          .fetch(`/browser_pools/${pool}/acquire`, { method: 'POST', signal: leaving.signal })
          .then((answer) => answer.json() as Promise<Session>)
          .catch(() => undefined),
      )
      await until('four browsers', NOTICE_MS, async () => {
        const rows = await rowsOf(pool)
        most.push(rows.length)
        return rows.length >= 4 && rows.every(({ state }) => state === 'running')
      })
      leaving.abort()
      const got = (await Promise.all(waiting)).flatMap((session) => session?.session_id ?? [])
      expect(new Set(got).size).toBe(got.length)
      for (const { id } of await rowsOf(pool)) await one.fetch(`/browsers/${id}`, { method: 'DELETE' })
      await reaches(pool, 0, 0)
    }
    expect(Math.max(...most)).toBe(4)
    await remove(one, pool)
  })

  test('a flush at either has the browsers made anew at once, whatever the rate is', async () => {
    const pool = await makePool(one, 3, 0)
    await reaches(pool, 0, 3)
    for (const replica of [one, two, two, one]) {
      const before = (await rowsOf(pool)).map(({ id }) => id)
      await answered(replica.send('POST', `/browser_pools/${pool}/flush`, {}), 204)
      await until('others', NOTICE_MS, async () => (await rowsOf(pool)).every(({ id }) => !before.includes(id)))
      await reaches(pool, 0, 3)
    }
    await remove(two, pool)
  })

  test('one that stops leaves its browsers to the others, to their callers and to the pool', async () => {
    const pool = await makePool(one, 3)
    await reaches(pool, 0, 3)
    const leased = await acquire(one, pool)
    const third = await another()
    await one.stop()
    await until('a takeover', NOTICE_MS, async () => {
      const [lives] = await shared.query<{ count: string }>(
        `select count(*) from browsers b where pool_id = $1 and state <> 'deleted' and exists (select from leases l where l.duty = 'replica ' || b.replica and l.until > now())`,
        [pool],
      )
      return Number(lives!.count) === 3
    })
    await reaches(pool, 1, 2, [two, third])
    await answered(two.send('POST', `/browsers/${leased.session_id}/computer/click_mouse`, { x: 1, y: 1 }), 200)
    await release(third, pool, leased.session_id, false)
    await reaches(pool, 0, 3, [two, third])
    await remove(two, pool)
  })
})
