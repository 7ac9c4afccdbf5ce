// Puts sessions to sleep that nothing uses, and wakes them before their next use. Knows what counts as use. How an instance is stopped is its driver's subject.
import { setInterval } from 'node:timers/promises'
import { session } from '../../../agent/session/contract.ts'
import type { Config } from '../../../base/config.ts'
import type { Log } from '../../../base/log.ts'
import { sleep } from '../../../base/wait.ts'
import { call } from '../../../http/client.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import type { Witness } from '../../../http/splice.ts'
import type { Standby } from '../../../instances/driver.ts'
import { Commands } from './commands.ts'
import type { EndStep } from './end-step.ts'

/** How often it looks for unused sessions. */
const LOOK_MS = 500
/** Limit on asking an agent what goes on in its session. */
const ASK_MS = 5_000
/** A session that could not be put to sleep is tried again after this time. */
const AGAIN_MS = 30_000
/** A session that sleeps for less keeps its memory, so that a client that thinks for some seconds does not wait for it to be read back. */
const RECLAIM_AFTER_MS = 20_000
/**
 * A command without an answer keeps its session awake for so long after the last message. Longer waits than the 30 s of Playwright and the 180 s of Puppeteer
 * are rare, and browsers leave some commands unanswered for ever.
 */
const COMMAND_MS = 10 * 60_000
/** How often it is looked whether sleeping sessions still sleep. */
const LOOK_AGAIN_MS = 2_000
/** Other replicas tell of their uses once in this time. */
const TELL_MS = 1_000
/** A replica does not put a session to sleep within this time after another one has told of a use. */
const TOLD_MS = 3 * TELL_MS

/** The uses of sessions that pass through this service. */
export interface Uses {
  /** Wakes a session, and keeps it awake until the returned function is called. Calling that twice does no harm. */
  hold(id: string): () => void
  /** A connection of a CDP or BiDi client, which has woken the session. */
  connect(id: string): Connection
  /** Whether its processes are stopped now. */
  isAsleep(id: string): boolean
}

/** A CDP or BiDi connection until it is disposed. What passes, in either direction, is a use of its session. */
export type Connection = Witness & Disposable

interface StandbySettings {
  /** Undefined when the driver cannot stop instances. */
  standby: Standby | undefined
  config: Pick<Config, 'standbyAfterSeconds' | 'standbyConnectedAfterSeconds'>
  /** The sessions that this service watches, and that are not being ended. `isIdle`: it waits in a pool, and its pages may still load. */
  sessions: () => Iterable<{ id: string; endpoint: Endpoint; isIdle?: boolean }>
  /** Whether this service watches a session: then no other one puts it to sleep. */
  isHere: (id: string) => boolean
  log: Log
}

/** What this service knows of a session. Times are by performance.now(). */
interface Known {
  usedAt: number
  holds: number
  connections: Set<Commands>
  /** Aborts when the session is used. There is one while it sleeps, or is being put to sleep. */
  sleep: AbortController | undefined
  isAsleep: boolean
  /** It is not put to sleep before. */
  notBefore: number
  /** When it was last looked whether it still sleeps. */
  seenAt: number
  /** When other replicas were last told of a use. */
  sentAt: number
}

export interface Sleep extends Uses, AsyncDisposable {
  /** How many sessions sleep that this service watches. */
  readonly asleep: number
  /** The step of a session's end that wakes it: its profile may have to be saved, and what stands still may not be able to end. */
  readonly wakeStep: EndStep
}

/** For a driver that cannot stop instances. */
const NEVER: Sleep = {
  asleep: 0,
  hold: () => () => {},
  connect: () => ({ sent() {}, received() {}, [Symbol.dispose]() {} }),
  isAsleep: () => false,
  wakeStep: { name: 'wake', limitMs: 1, mayFail: true, run: () => undefined },
  async [Symbol.asyncDispose]() {},
}

/** Looks for unused sessions until it is disposed. */
export function sleepWhenUnused({ standby, config, sessions, isHere, log }: StandbySettings): Sleep {
  if (!standby) return NEVER
  const afterMs = config.standbyAfterSeconds * 1000
  const connectedAfterMs = config.standbyConnectedAfterSeconds * 1000
  const driver = standby
  const all = new Map<string, Known>()
  const stop = new AbortController()
  const underWay = new Set<Promise<void>>()

  const known = (id: string): Known => {
    let found = all.get(id)
    if (!found)
      all.set(
        id,
        (found = {
          usedAt: performance.now(),
          holds: 0,
          connections: new Set(),
          sleep: undefined,
          isAsleep: false,
          notBefore: 0,
          seenAt: 0,
          sentAt: -Infinity,
        }),
      )
    return found
  }

  function wake(id: string, one: Known): void {
    one.sleep?.abort(new Error('the session is used'))
    one.sleep = undefined
    one.isAsleep = false
    one.sentAt = performance.now()
    driver.wake(id)
  }

  function use(id: string, one = known(id)): Known {
    one.usedAt = performance.now()
    // The replica that watches it may have put it to sleep, and is told of the use.
    if (one.sleep || (!isHere(id) && one.usedAt - one.sentAt >= TELL_MS)) wake(id, one)
    return one
  }

  async function tryToSleep(id: string, endpoint: Endpoint, one: Known): Promise<void> {
    const control = new AbortController()
    one.sleep = control
    const signal = AbortSignal.any([control.signal, stop.signal])
    try {
      const { running } = await call(endpoint, session.sessionActivity, {}, { signal: AbortSignal.any([signal, AbortSignal.timeout(ASK_MS)]) })
      if (running.length > 0) {
        one.usedAt = performance.now()
        return
      }
      signal.throwIfAborted()
      const isStill = await driver.sleep(id, Math.max(afterMs, TOLD_MS), signal)
      // Whoever has used it in the last moment has woken it.
      if (control.signal.aborted) return
      one.isAsleep = isStill
      if (!isStill) one.usedAt = performance.now()
      else log.debug({ browser: id }, 'a session sleeps')
    } catch (err) {
      if (signal.aborted) return
      log.warn({ err, browser: id }, 'a session that nothing uses could not be put to sleep')
      one.notBefore = performance.now() + AGAIN_MS
    } finally {
      // A use has aborted it, and there may be another attempt by now.
      if (one.sleep === control && !one.isAsleep) one.sleep = undefined
    }
    if (one.sleep !== control) return
    await sleep(RECLAIM_AFTER_MS, signal).then(
      () => driver.reclaim(id, signal),
      () => {}, // it was used, or the service stops
    )
  }

  function isUsed({ holds, connections, usedAt }: Known, now: number, isIdle = false): boolean {
    const quietMs = now - usedAt
    if (holds > 0 || quietMs < (isIdle ? Math.max(afterMs, connectedAfterMs) : afterMs)) return true
    if (connections.size === 0) return false
    return quietMs < connectedAfterMs || (quietMs < COMMAND_MS && [...connections].some(({ any }) => any))
  }

  function look(): void {
    const now = performance.now()
    const watched = new Set<string>()
    for (const { id, endpoint, isIdle } of sessions()) {
      watched.add(id)
      const one = known(id)
      if (one.isAsleep) {
        if (now - one.seenAt < LOOK_AGAIN_MS) continue
        one.seenAt = now
        if (driver.isAsleep(id)) continue
        // Another replica has woken it, or its driver.
        log.debug({ browser: id }, 'a session was woken by others')
        one.usedAt = now
        wake(id, one)
      }
      if (afterMs === 0 || one.sleep || isUsed(one, now, isIdle) || now < one.notBefore) continue
      if (endpoint.older?.lacks.includes(session.sessionActivity.id)) continue
      const work: Promise<void> = tryToSleep(id, endpoint, one)
        .catch((err: unknown) => log.error({ err, browser: id }, 'a session that sleeps was left alone'))
        .finally(() => underWay.delete(work))
      underWay.add(work)
    }
    for (const [id, one] of all) {
      if (watched.has(id)) continue
      // Another replica watches it.
      if (!isHere(id) && isUsed(one, now) && now - one.sentAt >= TELL_MS) wake(id, one)
      if (one.holds > 0 || one.connections.size > 0 || now - one.usedAt < TOLD_MS) continue
      one.sleep?.abort(new Error('another service watches the session'))
      all.delete(id)
    }
  }

  const run = async () => {
    for await (const _ of setInterval(LOOK_MS, undefined, { signal: stop.signal }))
      try {
        look()
      } catch (err) {
        // One instance whose driver fails must not keep all others awake for ever.
        log.error({ err }, 'looking for unused sessions failed; it is done again')
      }
  }
  const running = run().catch((err: unknown) => stop.signal.aborted || log.error({ err }, 'sessions do not sleep any more'))

  return {
    get asleep() {
      return [...all.values()].filter(({ isAsleep }) => isAsleep).length
    },
    connect(id) {
      const one = use(id)
      const commands = new Commands()
      one.connections.add(commands)
      const passing = (look: () => void) => {
        use(id, one)
        look()
      }
      return {
        sent: (chunk) => passing(() => commands.sent(chunk)),
        received: (chunk) => passing(() => commands.received(chunk)),
        [Symbol.dispose]() {
          one.connections.delete(commands)
          one.usedAt = performance.now()
        },
      }
    },
    hold(id) {
      const one = use(id)
      one.holds++
      let held = true
      return () => {
        if (!held) return
        held = false
        one.holds--
        one.usedAt = performance.now()
      }
    },
    isAsleep: (id) => driver.isAsleep(id),
    wakeStep: {
      name: 'wake',
      limitMs: 1_000,
      mayFail: true,
      run({ id }) {
        const one = all.get(id)
        if (one) wake(id, one)
        else driver.wake(id)
        all.delete(id)
        return undefined
      },
    },
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      await Promise.all([running, ...underWay])
    },
  }
}
