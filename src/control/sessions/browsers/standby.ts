// Puts unused sessions to sleep, and wakes them before their next use. This file decides what counts as a use; the driver stops the instance.
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

/** Interval of the search for unused sessions. */
const LOOK_MS = 500
/** Limit on asking an agent whether work runs in its session. */
const ASK_MS = 5_000
/** Delay of the next attempt after a session could not be put to sleep. */
const AGAIN_MS = 30_000
/** A session that sleeps for less than this keeps its memory: a client that pauses for some seconds must not wait until the memory is read back from disk. */
const RECLAIM_AFTER_MS = 20_000
/**
 * A command without an answer keeps its session awake for this time after the last message and not longer, because browsers never answer some commands. Clients
 * rarely wait longer than the 30 s of Playwright and the 180 s of Puppeteer.
 */
const COMMAND_MS = 10 * 60_000
/** Interval of the check whether sleeping sessions still sleep. */
const LOOK_AGAIN_MS = 2_000
/** While this replica uses a session that another one watches, it notifies that one at this interval. */
const TELL_MS = 1_000
/** After a notice of another replica's use, the session stays awake for this time. */
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

/** A CDP or BiDi connection until it is disposed. Data in either direction is a use of its session. */
export type Connection = Witness & Disposable

interface Watched {
  id: string
  endpoint: Endpoint
  /** No caller has it: it is idle in a pool. Its pages may still load. */
  isIdle?: boolean
}

interface StandbySettings {
  /** Undefined when the driver cannot stop instances. */
  standby: Standby | undefined
  config: Pick<Config, 'standbyAfterSeconds' | 'standbyConnectedAfterSeconds'>
  /** The sessions that this replica watches and that are not being ended. */
  sessions: () => Iterable<Watched>
  /** Whether this replica watches a session. Only that replica puts it to sleep. */
  isHere: (id: string) => boolean
  log: Log
}

type SleepingSettings = Omit<StandbySettings, 'standby'> & { driver: Standby }

/** The facts that this replica knows of a session. Times are by performance.now(). */
interface Known {
  usedAt: number
  holds: number
  connections: Set<Commands>
  /** Aborts when the session is used. Undefined when the session neither sleeps nor is being put to sleep. */
  sleep: AbortController | undefined
  isAsleep: boolean
  /** The earliest time of the next attempt to put the session to sleep. */
  notBefore: number
  /** Time of the last check whether it still sleeps. */
  seenAt: number
  /** Time of the last notice of a use to other replicas. */
  sentAt: number
}

export interface Sleep extends Uses, AsyncDisposable {
  /** Number of this replica's sessions that sleep. */
  readonly asleep: number
  /** The step of a session's end that wakes it: stopped processes can neither save a profile nor end. */
  readonly wakeStep: EndStep
}

/** The null object for a driver that cannot stop instances. */
const NEVER: Sleep = {
  asleep: 0,
  hold: () => () => {},
  connect: () => ({ sent() {}, received() {}, [Symbol.dispose]() {} }),
  isAsleep: () => false,
  wakeStep: { name: 'wake', limitMs: 1, mayFail: true, run: () => undefined },
  async [Symbol.asyncDispose]() {},
}

/** Looks for unused sessions until disposed. */
export const sleepWhenUnused = ({ standby: driver, ...settings }: StandbySettings): Sleep => (driver ? new Sleeping({ ...settings, driver }) : NEVER)

class Sleeping implements Sleep {
  readonly #settings: SleepingSettings
  readonly #afterMs: number
  readonly #connectedAfterMs: number
  readonly #all = new Map<string, Known>()
  readonly #stop = new AbortController()
  readonly #underWay = new Set<Promise<void>>()
  readonly #looking: Promise<unknown>

  constructor(settings: SleepingSettings) {
    this.#settings = settings
    this.#afterMs = settings.config.standbyAfterSeconds * 1000
    this.#connectedAfterMs = settings.config.standbyConnectedAfterSeconds * 1000
    const onError = (err: unknown) => this.#stop.signal.aborted || settings.log.error({ err }, 'sessions do not sleep any more')
    this.#looking = this.#run().catch(onError)
  }

  get asleep(): number {
    return [...this.#all.values()].filter(({ isAsleep }) => isAsleep).length
  }

  isAsleep(id: string): boolean {
    return this.#settings.driver.isAsleep(id)
  }

  connect(id: string): Connection {
    const one = this.#use(id)
    const commands = new Commands()
    one.connections.add(commands)
    return {
      sent: (chunk) => {
        this.#use(id, one)
        commands.sent(chunk)
      },
      received: (chunk) => {
        this.#use(id, one)
        commands.received(chunk)
      },
      [Symbol.dispose]() {
        one.connections.delete(commands)
        one.usedAt = performance.now()
      },
    }
  }

  hold(id: string): () => void {
    const one = this.#use(id)
    one.holds++
    let held = true
    return () => {
      if (!held) return
      held = false
      one.holds--
      one.usedAt = performance.now()
    }
  }

  readonly wakeStep: EndStep = {
    name: 'wake',
    limitMs: 1_000,
    mayFail: true,
    run: ({ id }) => {
      const one = this.#all.get(id)
      if (one) this.#wake(id, one)
      else this.#settings.driver.wake(id)
      this.#all.delete(id)
      return undefined
    },
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('the service stops'))
    await Promise.all([this.#looking, ...this.#underWay])
  }

  #known(id: string): Known {
    const found = this.#all.get(id)
    if (found) return found
    const made = {
      usedAt: performance.now(),
      holds: 0,
      connections: new Set<Commands>(),
      sleep: undefined,
      isAsleep: false,
      notBefore: 0,
      seenAt: 0,
      sentAt: -Infinity,
    }
    this.#all.set(id, made)
    return made
  }

  #wake(id: string, one: Known): void {
    one.sleep?.abort(new Error('the session is used'))
    one.sleep = undefined
    one.isAsleep = false
    one.sentAt = performance.now()
    this.#settings.driver.wake(id)
  }

  #use(id: string, one = this.#known(id)): Known {
    one.usedAt = performance.now()
    // Wake it also when another replica watches it: the call tells that replica of the use, and it may have put the session to sleep.
    if (one.sleep || (!this.#settings.isHere(id) && one.usedAt - one.sentAt >= TELL_MS)) this.#wake(id, one)
    return one
  }

  async #tryToSleep(id: string, endpoint: Endpoint, one: Known): Promise<void> {
    const { driver, log } = this.#settings
    const control = new AbortController()
    one.sleep = control
    const signal = AbortSignal.any([control.signal, this.#stop.signal])
    try {
      const { running } = await call(endpoint, session.sessionActivity, {}, { signal: AbortSignal.any([signal, AbortSignal.timeout(ASK_MS)]) })
      if (running.length > 0) {
        one.usedAt = performance.now()
        return
      }
      signal.throwIfAborted()
      const isStill = await driver.sleep(id, Math.max(this.#afterMs, TOLD_MS), signal)
      // A use during the call has woken the session.
      if (control.signal.aborted) return
      one.isAsleep = isStill
      if (!isStill) one.usedAt = performance.now()
      else log.debug({ browser: id }, 'a session sleeps')
    } catch (err) {
      if (signal.aborted) return
      log.warn({ err, browser: id }, 'a session that nothing uses could not be put to sleep')
      one.notBefore = performance.now() + AGAIN_MS
    } finally {
      // After a use, another attempt may have started: it has its own controller.
      if (one.sleep === control && !one.isAsleep) one.sleep = undefined
    }
    if (one.sleep !== control) return
    await sleep(RECLAIM_AFTER_MS, signal).then(
      () => driver.reclaim(id, signal),
      () => {}, // the session was used, or the service stops
    )
  }

  #isUsed({ holds, connections, usedAt }: Known, now: number, isIdle = false): boolean {
    const quietMs = now - usedAt
    if (holds > 0 || quietMs < (isIdle ? Math.max(this.#afterMs, this.#connectedAfterMs) : this.#afterMs)) return true
    if (connections.size === 0) return false
    return quietMs < this.#connectedAfterMs || (quietMs < COMMAND_MS && [...connections].some(({ any }) => any))
  }

  async #run(): Promise<void> {
    for await (const _ of setInterval(LOOK_MS, undefined, { signal: this.#stop.signal }))
      try {
        this.#look()
      } catch (err) {
        // An error of one instance's driver must not keep all others awake.
        this.#settings.log.error({ err }, 'looking for unused sessions failed; it is done again')
      }
  }

  #look(): void {
    const { sessions } = this.#settings
    const now = performance.now()
    const watched = new Set<string>()
    for (const one of sessions()) {
      watched.add(one.id)
      this.#lookAt(one, now)
    }
    for (const [id, one] of this.#all) if (!watched.has(id)) this.#lookElsewhere(id, one, now)
  }

  /** Checks a session that this service watches. */
  #lookAt({ id, endpoint, isIdle }: Watched, now: number): void {
    const { driver, log } = this.#settings
    const one = this.#known(id)
    if (one.isAsleep) {
      if (now - one.seenAt < LOOK_AGAIN_MS) return
      one.seenAt = now
      if (driver.isAsleep(id)) return
      // Another replica or the driver has woken the session.
      log.debug({ browser: id }, 'a session was woken by others')
      one.usedAt = now
      this.#wake(id, one)
    }
    if (this.#afterMs === 0 || one.sleep || this.#isUsed(one, now, isIdle) || now < one.notBefore) return
    if (endpoint.older?.lacks.includes(session.sessionActivity.id)) return
    const work: Promise<void> = this.#tryToSleep(id, endpoint, one)
      .catch((err: unknown) => log.error({ err, browser: id }, 'a session that sleeps was left alone'))
      .finally(() => this.#underWay.delete(work))
    this.#underWay.add(work)
  }

  /** For a session that another replica watches: tells that replica that the use continues, and forgets the session after its last use. */
  #lookElsewhere(id: string, one: Known, now: number): void {
    if (!this.#settings.isHere(id) && this.#isUsed(one, now) && now - one.sentAt >= TELL_MS) this.#wake(id, one)
    if (one.holds > 0 || one.connections.size > 0 || now - one.usedAt < TOLD_MS) return
    one.sleep?.abort(new Error('another service watches the session'))
    this.#all.delete(id)
  }
}
