// Exports telemetry in the background, at least once: finds events to deliver, and gives the sessions of each destination their turns.
import { Slots } from '../../../../base/slots.ts'
import { sleep } from '../../../../base/wait.ts'
import { EXPORT_MS, EXPORTS_AT_ONCE, EXPORTS_AT_ONCE_EACH, EXPORTS_FOUND, MOST_BACKOFF_MS, OVER_MS, UPKEEP_MS } from '../limits.ts'
import { dropBehind, dueWork, finishOver, lagOf, removeArrived, type DueWork } from './rows.ts'
import { SessionExports, type SessionExportsSettings } from './session-exports.ts'

interface ExporterSettings extends SessionExportsSettings {
  /** Limits on the events of one session that wait for a destination: stored bytes, and age. */
  behind: { bytes: number; ms: number }
}

/**
 * Exports until disposed. The position is recorded after each request. So if a service dies in between, or two export for a moment, a batch is sent twice and
 * none is lost.
 */
export class Exporter implements AsyncDisposable {
  /** Age of the oldest event that is not delivered, in seconds. */
  lag = 0
  readonly #given: ExporterSettings
  readonly #exports: SessionExports
  readonly #stop = new AbortController()
  readonly #slots = new Slots(EXPORTS_AT_ONCE)
  /** The running work for each destination. */
  readonly #working = new Map<string, Promise<void>>()
  /** Exports that failed for a reason other than their destination: number of failures, and time of the next attempt (performance.now()). */
  readonly #resting = new Map<number, { failures: number; until: number }>()
  /** Aborts when the next search should start at once. */
  #lookNow = new AbortController()
  readonly #running: Promise<void>

  constructor(given: ExporterSettings) {
    this.#given = given
    this.#exports = new SessionExports(given)
    this.#running = this.#run().catch(() => {}) // ends only by its signal
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('the service stops'))
    await this.#running
    await Promise.all(this.#working.values())
  }

  async #run(): Promise<void> {
    const round = this.#repeated(() => this.#round())
    const upkeep = this.#repeated(() => this.#upkeep())
    for (let keptAt = -Infinity; ; await this.#pause()) {
      if (!this.#given.isOurs()) {
        this.lag = 0
        continue
      }
      await round()
      if (performance.now() < keptAt + UPKEEP_MS) continue
      keptAt = performance.now()
      await upkeep()
    }
  }

  /** Makes repeated work log only its first failure in a row. @throws when the service stops */
  #repeated(work: () => Promise<void>): () => Promise<void> {
    let isTroubled = false
    return async () => {
      try {
        await work()
        isTroubled = false
      } catch (err) {
        this.#stop.signal.throwIfAborted()
        if (!isTroubled) this.#given.log.error({ err }, 'the export of telemetry did not work; it is tried again')
        isTroubled = true
      }
    }
  }

  async #pause(): Promise<void> {
    const { signal } = this.#stop
    await sleep(EXPORT_MS, AbortSignal.any([signal, this.#lookNow.signal])).catch(() => signal.throwIfAborted())
    this.#lookNow = new AbortController()
  }

  async #round(): Promise<void> {
    const { archive, scope } = this.#given
    const now = performance.now()
    // An export that is not retried within this time has been removed.
    for (const [id, { until }] of this.#resting) if (until + 2 * MOST_BACKOFF_MS <= now) this.#resting.delete(id)
    const left = [...this.#resting].filter(([, { until }]) => until > now).map(([id]) => id)
    const due = Map.groupBy(await dueWork(archive.db, scope, EXPORTS_FOUND, left), ({ destination_id: destination }) => destination)
    for (const [destination, found] of due) {
      if (this.#working.has(destination)) continue
      const work = this.#workThrough(destination, found).finally(() => this.#working.delete(destination))
      this.#working.set(destination, work)
    }
  }

  /** Works on exports of a destination, several at the same time, until each had its turn or the destination fails. */
  async #workThrough(destination: string, found: readonly DueWork[]): Promise<void> {
    const { unwell } = this.#exports
    unwell.delete(destination)
    const left = found.map(({ id }) => id)
    const worker = async () => {
      while (!this.#stop.signal.aborted && !unwell.has(destination)) {
        const id = left.shift()
        if (id === undefined) return
        await this.#work(id)
      }
    }
    // After a failure, one session is enough to check whether a destination works again.
    await Promise.all(Array.from({ length: found[0]!.consecutive_failures > 0 ? 1 : EXPORTS_AT_ONCE_EACH }, worker))
    if (found.length === EXPORTS_FOUND && !unwell.has(destination)) this.#lookNow.abort()
  }

  /** Exports one session in a slot. After a failure it frees its slot and is retried with a backoff. */
  async #work(id: number): Promise<void> {
    const { signal } = this.#stop
    try {
      await this.#slots.run(() => this.#exports.work(id, signal), signal)
      this.#resting.delete(id)
    } catch (err) {
      if (signal.aborted) return
      const failures = (this.#resting.get(id)?.failures ?? 0) + 1
      if (failures === 1) this.#given.log.error({ err, export: id }, 'the export of telemetry did not work; it is tried again')
      this.#resting.set(id, { failures, until: performance.now() + Math.min(EXPORT_MS * 2 ** Math.min(failures, 30), MOST_BACKOFF_MS) })
    }
  }

  async #upkeep(): Promise<void> {
    const { archive, scope, behind, meter, log } = this.#given
    const { db, objects } = archive
    const dropped = await dropBehind(db, scope, { bytes: behind.bytes, before: (Date.now() - behind.ms) * 1000 })
    if (dropped > 0) {
      meter.dropped(dropped)
      log.warn({ events: dropped }, 'events of telemetry were given up: their destinations are behind by too much')
    }
    await finishOver(db, scope, OVER_MS)
    for (const object of await removeArrived(db, scope)) await objects.delete(object)
    this.lag = await lagOf(db, scope)
  }
}
