// The end of a session is a list of steps. If a service is killed at any step, the next service continues from there.
import { describe, expect, test } from 'vitest'
import { until } from '../../../../base/wait.ts'
import { NoSeat } from '../../../../store/seats.ts'
import type { EndStep } from '../end-step.ts'
import { counted, db, makeFleet, NOTICE_MS, owner, reconcile, row, runningIds, signal, sweptAway, way } from '../fleet.suite.ts'

const NAMES = ['profile', 'telemetry', 'instance', 'audit']

/** A service with these steps of an end. The step `at` runs `then` each time it is called. */
function withSteps(at: string | undefined, then: () => Promise<void>, { limitMs = 60_000, mayFail = false, maxSessions = Infinity } = {}) {
  const done: string[] = []
  const steps = (ended: EndStep): EndStep[] =>
    NAMES.map((name) => ({
      name,
      limitMs,
      mayFail,
      ...(name === ended.name && ended.isBehind && { isBehind: true }),
      run(session, limit, outOfUse) {
        const work = async () => {
          if (name === at) await then()
          if (name === ended.name) await ended.run(session, limit, outOfUse)
          done.push(name)
        }
        return work()
      },
    }))
  return { ...makeFleet(0, undefined, undefined, steps, { maxSessions }), done }
}
const never = () => new Promise<void>(() => {})
const ended = async (id: string) => (await row(id)).ended_steps

describe('an end that the service does not survive', () => {
  test.each([...NAMES.keys()])('is continued by the next service from step %i on, and no earlier step is repeated', async (position) => {
    const killed = withSteps(NAMES[position], never)
    const id = await killed.fleet.start(owner(), signal)
    void killed.fleet.end(id, 'timeout')
    await until('the steps before', NOTICE_MS, async () => (await row(id)).state === 'stopping' && (await ended(id)).length === position)
    expect([killed.done, await ended(id)]).toEqual([NAMES.slice(0, position), NAMES.slice(0, position)])
    killed.abandon()
    const next = withSteps(undefined, never)
    await reconcile(next.fleet)
    expect([next.done, await ended(id), await runningIds()]).toEqual([NAMES.slice(position), NAMES, []])
    expect([(await row(id)).end_reason, await way(id)]).toEqual(['timeout', ['starting', 'running', 'stopping', 'deleted']])
  })

  test('and fails again at the start of the next service is no obstacle to that, and is tried again', async () => {
    const killed = withSteps('instance', never)
    const id = await killed.fleet.start(owner(), signal)
    void killed.fleet.end(id, 'timeout')
    await until('the steps before', NOTICE_MS, async () => (await ended(id)).length === 2)
    killed.abandon()
    let failures = 1
    const next = withSteps('instance', async () => {
      if (failures-- > 0) throw new Error('a cgroup is busy')
    })
    await reconcile(next.fleet)
    expect([(await row(id)).state, await runningIds()]).toEqual(['stopping', [id]])
    await sweptAway(next.fleet, id)
    expect([(await row(id)).end_reason, await runningIds()]).toEqual(['timeout', []])
  })

  test('is continued after its last step by closing the row', async () => {
    const killed = withSteps(undefined, never)
    const id = await killed.fleet.start(owner(), signal)
    await db.updateTable('browsers').set({ state: 'stopping', end_reason: 'deleted', ended_steps: NAMES }).where('id', '=', id).execute()
    const next = withSteps(undefined, never)
    await reconcile(next.fleet)
    expect([next.done, (await row(id)).state]).toEqual([[], 'deleted'])
  })
})

describe('a step that fails', () => {
  test.each(NAMES)('(%s) is tried again, without those before it', async (name) => {
    let failures = 2
    const { fleet, done } = withSteps(name, async () => {
      if (failures-- > 0) throw new Error('not now')
    })
    const id = await fleet.start(owner(), signal)
    expect(await fleet.end(id, 'deleted')).toBe(true)
    expect([done, (await row(id)).state]).toEqual([NAMES.slice(0, NAMES.indexOf(name)), 'stopping'])
    await sweptAway(fleet, id)
    expect([done, await ended(id)]).toEqual([NAMES, NAMES])
  })

  test('keeps the browser out of use and in its seat, and keeps the sweep from ending no other', async () => {
    const hang = Promise.withResolvers<void>()
    let failures = 1
    const { fleet } = withSteps('instance', async () => {
      if (failures-- > 0) await hang.promise.then(() => Promise.reject(new Error('a cgroup is busy')))
    })
    const ids = [await fleet.start(owner(), signal), await fleet.start(owner(), signal)]
    const late = new Date(Date.now() - 61_000)
    await db.updateTable('browsers').set({ last_active_at: late }).execute()
    await fleet.sweep()
    const states = async () => (await Promise.all(ids.map(row))).map(({ state }) => state).toSorted()
    await until('the end of one', NOTICE_MS, async () => (await states())[0] === 'deleted')
    const [left] = await runningIds()
    expect([await states(), fleet.registry.endpointOf(left!), fleet.registry.sessions]).toEqual([['deleted', 'stopping'], undefined, 1])
    hang.resolve()
    // Another call makes one more attempt and is no error. The reason stays the same.
    expect(await fleet.end(left!, 'deleted')).toBe(true)
    await sweptAway(fleet, left!)
    expect([(await row(left!)).end_reason, await way(left!)]).toEqual(['timeout', ['starting', 'running', 'stopping', 'deleted']])
  })

  test('but may fail is left out', async () => {
    const { fleet, done } = withSteps('telemetry', () => Promise.reject(new Error('not ever')), { mayFail: true })
    const id = await fleet.start(owner(), signal)
    await fleet.end(id, 'deleted')
    expect([done, (await row(id)).state]).toEqual([NAMES.filter((name) => name !== 'telemetry'), 'deleted'])
  })

  test('by its time limit is waited for at the next attempt, and is not begun twice', async () => {
    const hang = Promise.withResolvers<void>()
    let begun = 0
    const { fleet, done } = withSteps(
      'profile',
      () => {
        begun++
        return hang.promise
      },
      { limitMs: 200 },
    )
    const id = await fleet.start(owner(), signal)
    await fleet.end(id, 'deleted')
    expect([done, (await row(id)).state]).toEqual([[], 'stopping'])
    hang.resolve()
    await sweptAway(fleet, id)
    expect([begun, done]).toEqual([1, NAMES])
  })
})

/** Whether a promise has settled. */
const isSettled = async (promise: Promise<unknown>) =>
  (await Promise.race([promise.then(() => true), new Promise((resolve) => setImmediate(() => resolve(false)))])) === true

describe('taking a session out', () => {
  test('is answered before its instance is removed, and a service that is killed then leaves the rest to the next one', async () => {
    const killed = withSteps('instance', never)
    const id = await killed.fleet.start(owner('mine'), signal)
    expect(await killed.fleet.takeOut(id, 'deleted')).toBe(true)
    expect([await row(id), killed.fleet.registry.endpointOf(id), killed.fleet.registry.sessions, await runningIds(), killed.done]).toMatchObject([
      { state: 'stopping', end_reason: 'deleted', deleted_at: expect.any(Date) as Date },
      undefined,
      1,
      [id],
      ['profile', 'telemetry'],
    ])
    killed.abandon()
    const next = withSteps(undefined, never)
    await reconcile(next.fleet)
    expect([next.done, await runningIds(), (await row(id)).state, next.fleet.registry.sessions]).toEqual([['instance', 'audit'], [], 'deleted', 0])
  })

  test('waits for the steps before, which may need its agent', async () => {
    const hold = Promise.withResolvers<void>()
    const { fleet, done } = withSteps('telemetry', () => hold.promise)
    const id = await fleet.start(owner(), signal)
    const out = fleet.takeOut(id, 'deleted')
    await until('the step before', NOTICE_MS, () => done.length === 1)
    expect(await isSettled(out)).toBe(false)
    hold.resolve()
    expect(await out).toBe(true)
    await fleet.end(id, 'deleted')
    expect(await row(id)).toMatchObject({ state: 'deleted' })
  })

  test('is answered when the first attempt fails before that', async () => {
    let failures = 1
    const { fleet } = withSteps('profile', async () => {
      if (failures-- > 0) throw new Error('not now')
    })
    const id = await fleet.start(owner(), signal)
    expect([await fleet.takeOut(id, 'deleted'), (await row(id)).state]).toEqual([true, 'stopping'])
    await sweptAway(fleet, id)
  })
})

test('several who end a session at once are all told that it ends', async () => {
  const { fleet } = withSteps(undefined, never)
  const ids = await Promise.all(Array.from({ length: 20 }, () => fleet.start(owner(), signal)))
  const ends = await Promise.all(ids.flatMap((id) => [fleet.takeOut(id, 'deleted'), fleet.end(id, 'deleted'), fleet.takeOut(id, 'deleted')]))
  expect(new Set(ends)).toEqual(new Set([true]))
})

describe('at the limit of sessions', () => {
  test('a seat is waited for while an end is under way, and a caller who leaves waits no longer', async () => {
    const hold = Promise.withResolvers<void>()
    const { fleet } = withSteps('instance', () => hold.promise, { maxSessions: 1 })
    const id = await fleet.start(owner(), signal)
    await expect(fleet.obtain(owner(), signal)).rejects.toThrow(NoSeat)
    await fleet.takeOut(id, 'deleted')
    const leaving = new AbortController()
    const left = fleet.obtain(owner(), leaving.signal)
    const seat = fleet.obtain(owner(), signal)
    leaving.abort(new Error('left'))
    await expect(left).rejects.toThrow('left')
    expect(await isSettled(seat)).toBe(false)
    hold.resolve()
    expect((await row((await seat).id)).state).toBe('running')
  })

  test('no seat is waited for when an end has failed', async () => {
    const { fleet } = withSteps('instance', () => Promise.reject(new Error('a cgroup is busy')), { maxSessions: 1 })
    const id = await fleet.start(owner(), signal)
    await fleet.end(id, 'deleted')
    await expect(fleet.obtain(owner(), signal)).rejects.toThrow(NoSeat)
    expect((await row(id)).state).toBe('stopping')
  })
})

test('an end with nothing to wait for but its instance costs two statements: the state, and the closed row', async () => {
  const { through, statements } = counted()
  const { fleet } = makeFleet(0, undefined, through)
  const id = await fleet.start(owner(), signal)
  statements.length = 0
  await fleet.end(id, 'deleted')
  expect(statements).toEqual([expect.stringMatching(/^with old as/), expect.stringMatching(/^with old as/)])
  expect(await ended(id)).toEqual(['clients', 'instance'])
})

test('two steps cannot have the same name', async () => {
  const step: EndStep = { name: 'same', limitMs: 1, mayFail: false, run: () => undefined }
  await expect(makeFleet(0, undefined, undefined, () => [step, step]).fleet.adopt()).rejects.toThrow('same name: same, same')
})
