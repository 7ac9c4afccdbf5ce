// Callers who wait for boots: their order, how many boots there are, who leaves, and what fails.
import { describe, expect, test } from 'vitest'
import { Slots } from '../../../../base/slots.ts'
import { WaitQueue } from './wait-queue.ts'

const NEVER = new AbortController().signal
const settle = () => new Promise((resolve) => setImmediate(resolve))

interface Boot {
  isAwaited: boolean
  isWanted: boolean
  comeUp: () => Promise<void>
  /** The boot does not start, because there is no room for it. */
  findFull: () => Promise<void>
  fail: (why: string) => Promise<void>
}

/** A queue whose boots finish on request and put their instance into a warm pool. */
function queue(atOnce: number, ready: string[] = [], room: (booting: number) => number = () => Infinity) {
  const boots: Boot[] = []
  const starts = new Slots(atOnce)
  const boot = async (wanted: Promise<void>, turn: Disposable | undefined) => {
    const isAwaited = turn === undefined
    const { promise, resolve, reject } = Promise.withResolvers<boolean>()
    const comeUp = () => (ready.push(`boot ${boots.indexOf(made)}`), resolve(true), settle() as Promise<void>)
    const findFull = () => (resolve(false), settle() as Promise<void>)
    const made: Boot = { isAwaited, isWanted: false, comeUp, findFull, fail: (why) => (reject(new Error(why)), settle() as Promise<void>) }
    boots.push(made)
    void wanted.then(() => (made.isWanted = true))
    return promise
  }
  const made = new WaitQueue({ boot, starts, room, onLeave() {}, onOver() {}, onEmpty() {}, signal: NEVER })
  /** The results of the callers, in the order in which they arrived. */
  const got: string[] = []
  const caller = (name: string, signal = NEVER, late?: AbortSignal) =>
    made
      .wait(async () => ready.shift(), signal, late)
      .then(
        ({ taken, wasReady }) => void got.push(`${name}: ${taken}${wasReady ? ' (was ready)' : ''}`),
        (error: Error) => void got.push(`${name}: ${error.message}`),
      )
  const refill = async () => {
    using turn = await starts.enter(NEVER)
    await made.refill(turn)
  }
  return { made, boots, got, ready, caller, refill }
}

describe('callers', () => {
  test('take a refill that is under way, which becomes urgent then', async () => {
    const { boots, got, caller, refill } = queue(2)
    void refill()
    void refill()
    await settle()
    expect(boots.map(({ isAwaited, isWanted }) => [isAwaited, isWanted])).toEqual([
      [false, false],
      [false, false],
    ])
    void caller('a')
    await settle()
    expect([boots.length, boots.map(({ isWanted }) => isWanted)]).toEqual([2, [true, false]])
    await boots[1]!.comeUp()
    expect(got).toEqual(['a: boot 1'])
  })

  test('who leave have their boots go on to the warm pool, and those behind move up', async () => {
    const { made, boots, got, ready, caller } = queue(1)
    const leaving = new AbortController()
    void caller('a', leaving.signal)
    void caller('b')
    await settle()
    leaving.abort(new Error('left'))
    await settle()
    await boots[0]!.comeUp()
    // The second boot had not started and is not needed any more.
    expect([got, ready, made.waiting, made.booting, boots.length]).toEqual([['a: left', 'b: boot 0'], [], 0, 0, 1])
  })

  test('whose instance another replica has taken keep their place, and get another boot', async () => {
    const { boots, got, ready, caller } = queue(2)
    void caller('a')
    await settle()
    void caller('b')
    await settle()
    const taken = boots[0]!.comeUp()
    ready.length = 0
    await taken
    expect([got, boots.length]).toEqual([[], 3])
    await boots[2]!.comeUp()
    expect(got).toEqual(['a: boot 2'])
  })
})

describe('callers for whom there is room for some boots only', () => {
  /** The room of a pool with `size` seats: its free seats without the boots under way. */
  const roomFor = (size: number) => {
    const pool = { size, there: 0 }
    return { pool, room: (booting: number) => Math.max(0, pool.size - pool.there - booting) }
  }

  test('have these begun, and wait for what others give back; only those for whom one may begin keep others from theirs', async () => {
    const { room } = roomFor(2)
    const { made, boots, got, ready, caller } = queue(5, [], room)
    for (const name of ['a', 'b', 'c', 'd']) void caller(name)
    await settle()
    expect([boots.length, made.waiting, made.hopeful]).toEqual([2, 4, 2])
    ready.push('given back')
    made.lookAgain()
    await settle()
    expect([got, made.waiting, made.hopeful, boots.length]).toEqual([['a: given back'], 3, 2, 2])
  })

  test('get the boots that there is room for later', async () => {
    const { pool, room } = roomFor(0)
    const { made, boots, got, caller } = queue(5, [], room)
    for (const name of ['a', 'b']) void caller(name)
    await settle()
    expect([boots.length, made.waiting, made.hopeful]).toEqual([0, 2, 0])
    pool.size = 1
    made.lookAgain()
    await settle()
    expect([boots.length, made.hopeful]).toEqual([1, 1])
    await boots[0]!.comeUp()
    expect([got, made.waiting]).toEqual([['a: boot 0'], 1])
  })

  test('stay when a boot finds no room, and nobody fails', async () => {
    const { pool, room } = roomFor(1)
    const { made, boots, got, ready, caller } = queue(5, [], room)
    for (const name of ['a', 'b']) void caller(name)
    await settle()
    pool.there = 1
    await boots[0]!.findFull()
    expect([got, boots.length, made.waiting, made.booting, made.hopeful]).toEqual([[], 1, 2, 0, 0])
    ready.push('one')
    made.lookAgain()
    await settle()
    expect(got).toEqual(['a: one'])
  })
})

describe('callers who have no time', () => {
  const late = () => AbortSignal.abort(new Error('late'))

  test('leave at once when those before them have found nothing, and those keep their places', async () => {
    const { made, boots, got, ready, caller } = queue(5, [], () => 0)
    void caller('a')
    await settle()
    await caller('b', NEVER, late())
    expect([got, made.waiting, boots]).toEqual([['b: late'], 1, []])
    ready.push('one')
    made.lookAgain()
    await settle()
    expect(got).toEqual(['b: late', 'a: one'])
  })

  test('any more leave, first or not', async () => {
    const { made, got, ready, caller } = queue(5, [], () => 0)
    const [first, second] = [new AbortController(), new AbortController()]
    void caller('a', NEVER, first.signal)
    void caller('b', NEVER, second.signal)
    void caller('c')
    await settle()
    second.abort(new Error('late'))
    await settle()
    first.abort(new Error('late'))
    await settle()
    expect([got, made.waiting]).toEqual([['b: late', 'a: late'], 1])
    ready.push('one')
    made.lookAgain()
    await settle()
    expect(got.at(-1)).toBe('c: one')
  })
})

describe('a boot that fails', () => {
  test('fails nobody before the last boot that could serve the first caller; then as many fail as boots have', async () => {
    const { boots, got, caller } = queue(3)
    for (const name of ['a', 'b', 'c']) void caller(name)
    await settle()
    await boots[0]!.fail('no display')
    await boots[1]!.fail('no memory')
    expect(got).toEqual([])
    await boots[2]!.comeUp()
    expect([got.toSorted(), boots.length]).toEqual([['a: boot 2', 'b: no display', 'c: no memory'], 3])
  })

  test('and that nobody had asked for is made good for a caller who counted on it', async () => {
    const { boots, got, caller, refill } = queue(1)
    const refilled = refill()
    refilled.catch(() => {})
    await settle()
    void caller('a')
    await settle()
    expect(boots).toHaveLength(1)
    await boots[0]!.fail('no display')
    await expect(refilled).rejects.toThrow('no display')
    expect([got, boots.length, boots[1]!.isAwaited]).toEqual([[], 2, true])
    await boots[1]!.comeUp()
    expect(got).toEqual(['a: boot 1'])
  })
})

describe('a caller who looks just now', () => {
  /** A queue whose first caller looks until `find` is called with a result. */
  function looking(late?: AbortSignal) {
    const { made, boots } = queue(1, [], () => (late ? 0 : 1))
    let finds: ((found: string | undefined) => void)[] = []
    const waiting = made.wait(() => new Promise<string | undefined>((resolve) => finds.push(resolve)), NEVER, late)
    waiting.catch(() => {})
    const find = async (found?: string) => {
      await settle()
      for (const one of finds.splice(0)) one(found)
      await settle()
    }
    return { made, boots, waiting, find }
  }

  test('and is to look again leaves all the same when it has no time', async () => {
    const { made, waiting, find } = looking(AbortSignal.abort(new Error('late')))
    made.lookAgain()
    await find()
    await find()
    await expect(Promise.race([waiting, settle()])).rejects.toThrow('late')
    expect(made.waiting).toBe(0)
  })

  test('and is to look again is told when nothing comes any more', async () => {
    const { made, waiting, find } = looking()
    made.lookAgain()
    made.close(new Error('deleted'))
    await find()
    await expect(Promise.race([waiting, settle()])).rejects.toThrow('deleted')
    expect(made.waiting).toBe(0)
  })

  test('and is to look again gets the error of its boot', async () => {
    const { made, boots, waiting, find } = looking()
    await find()
    made.lookAgain()
    await settle()
    await boots[0]!.fail('no display')
    made.lookAgain()
    await find()
    await find()
    await expect(Promise.race([waiting, settle()])).rejects.toThrow('no display')
    expect(made.waiting).toBe(0)
  })
})

test('when the database fails for the first caller in line, the next one is served all the same', async () => {
  const { made, got, ready, caller } = queue(1)
  const failed = made.wait(() => Promise.reject(new Error('the database does not answer')), NEVER)
  void caller('b')
  ready.push('one')
  await expect(failed).rejects.toThrow('the database does not answer')
  await settle()
  expect(got).toEqual(['b: one (was ready)'])
})
