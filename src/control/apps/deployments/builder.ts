// Builds deployments, one at a time, each in a sandbox. Stores the runner's events and then acknowledges them; the code becomes an object.
import type { Readable } from 'node:stream'
import { sql } from 'kysely'
import { Notifier } from '../../../base/notifier.ts'
import { newId } from '../../../base/ids.ts'
import { sleep } from '../../../base/wait.ts'
import { call, CallFailed } from '../../../http/client.ts'
import { letGo, type AppSandbox } from '../../../instances/driver.ts'
import { runner, type AppsFound, type RunnerEvent } from '../../../runner/contract.ts'
import type { Db } from '../../../store/db.ts'
import { lockEvents } from '../../../store/events.ts'
import { appendEvents, LINE_BYTES } from '../apps/app-events.ts'
import { TooLarge, type Objects } from '../../../store/objects.ts'
import { acknowledge, paced, runnerEvents } from '../apps/runner-events.ts'
import { BuildFailed, endOf } from './build-failed.ts'
import { storeCode, UnreadableCode, type StoredCode } from './code.ts'
import { moveDeployment } from './lifecycle.ts'
import { ArchiveAway, BuildQueue, openArchive, RETRY_MS } from './queue.ts'
import { release } from './release.ts'
import type { DeploymentRow } from './rows.ts'
import { BuildSandboxes, type BuildSandboxesSettings } from './sandboxes.ts'

/** A runner itself ends its build after 15 minutes. This limit applies if it fails to. */
const BUILD_MS = 16 * 60_000
const MAX_ATTEMPTS = 2
/** How many times the archive of one build may break off during its transfer from the object store. */
const MAX_BREAKS = 10
/** Limit on the stored output of a build, which may print for ever. */
const MAX_BUILD_LOG_BYTES = 32 * 1024 * 1024
/** The queue is checked this often even when nothing notifies it. */
const LOOK_AGAIN_MS = 5_000
/** How often it is checked whether builds have become this replica's duty. That needs no query. */
const DUTY_MS = 1_000
/** Most failed reads in a row from a runner that is alive. */
const MAX_UNREADABLE = 5

export interface BuilderSettings extends BuildSandboxesSettings {
  objects: Objects
  /** Tells the replica with the duty for builds that there is one. */
  tellBuilder?: () => void
  /** Limit on the packed code of a deployment, in bytes. */
  maxCodeBytes: number
  /** Limit on the log of a deployment and all its runs, in bytes. */
  maxLogBytes?: number
  /** Whether the disk has room for another build. */
  hasRoom?: () => boolean
  /** Called after a successful build, when its sandbox is gone. */
  onRunning: (id: string, superseded: string[]) => Promise<void>
  /** Called after a failed build, when its sandbox is gone. */
  onFailed: (id: string) => Promise<void>
  buildMs?: number | undefined
}

/** The result of a build; undefined when the deployment is not being built any more. */
type Outcome = { superseded: string[] } | { failed: string } | undefined

/** The database did not accept the runner's events, or the object store its code. The runner still has them. */
class NotKept extends Error {}

export class Builder {
  readonly #settings: BuilderSettings
  readonly #notifier = new Notifier()
  readonly #stop = new AbortController()
  readonly #sandboxes: BuildSandboxes
  readonly #queue: BuildQueue
  /** The last sandbox that has received its whole archive from this replica. */
  #complete: string | undefined
  #current: { id: string; end: AbortController; done: Promise<void> } | undefined
  #running: Promise<void> | undefined

  constructor(settings: BuilderSettings) {
    this.#settings = settings
    this.#sandboxes = new BuildSandboxes(settings)
    this.#queue = new BuildQueue(settings.db, settings.scope)
  }

  start(): void {
    this.#running ??= this.#run()
  }

  /** Looks for a build to start, here or at the replica with that duty. */
  wake(): void {
    if (!this.#settings.leases.holds('builds')) this.#settings.tellBuilder?.()
    else this.notify()
  }

  /** Checks the queue, if this replica has the duty for builds. */
  notify(): void {
    this.#notifier.notify()
  }

  /** Ends the build of a deployment, if it is running. The caller moves its row. */
  async end(id: string): Promise<void> {
    this.#queue.forget(id)
    if (this.#current?.id === id) {
      this.#current.end.abort(new Error('the deployment was deleted'))
      await this.#current.done
    }
    const adopted = this.#sandboxes.take(id)
    if (adopted) await letGo(adopted, this.#settings.log)
  }

  /** Whether a build that this replica leaves continues, because another replica follows it then. */
  get #handsOver(): boolean {
    return this.#stop.signal.aborted && this.#settings.leases.handsOver
  }

  /** Ends the running build, unless it is handed over. The next start begins it again. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error('the service stops'))
    await this.#running
    if (!this.#handsOver) await this.#sandboxes.stop()
  }

  async #run(): Promise<void> {
    const { hasRoom, log } = this.#settings
    const { signal } = this.#stop
    while (!signal.aborted) {
      // Subscribes before it looks, so that no notification between the two is missed.
      const lookMs = !this.#settings.leases.holds('builds') ? DUTY_MS : this.#queue.hasPostponed ? RETRY_MS : LOOK_AGAIN_MS
      const notified = this.#notifier.next(AbortSignal.any([signal, AbortSignal.timeout(lookMs)])).catch(() => {})
      try {
        const row = (await this.#sandboxes.areOurs()) && hasRoom?.() !== false ? await this.#queue.next() : undefined
        if (!row) await notified
        else if (!signal.aborted) await this.#take(row)
      } catch (err) {
        if (err instanceof ArchiveAway) {
          log.warn({ err: err.cause }, err.message)
          continue
        }
        log.error({ err }, 'a build could not begin or could not be recorded; it will be retried')
        await sleep(RETRY_MS, signal).catch(() => {})
      }
    }
  }

  async #take(row: DeploymentRow): Promise<void> {
    const { onFailed, onRunning, db, log } = this.#settings
    const done = Promise.withResolvers<void>()
    const end = new AbortController()
    this.#current = { id: row.id, end, done: done.promise }
    let outcome: Outcome
    try {
      outcome = await this.#build(row, end.signal)
      if (outcome && 'failed' in outcome && (await moveDeployment(db, row.id, 'failed', outcome.failed)) === undefined) outcome = undefined
    } finally {
      if (outcome !== undefined) this.#queue.forget(row.id)
      this.#current = undefined
      done.resolve()
    }
    if (outcome === undefined) return
    const cleanup = 'failed' in outcome ? onFailed(row.id) : onRunning(row.id, outcome.superseded)
    await cleanup.catch((err: unknown) => log.error({ err, deployment: row.id }, 'the cleanup after a build failed; it will be retried'))
  }

  async #build(row: DeploymentRow, ended: AbortSignal): Promise<Outcome> {
    const { buildMs = BUILD_MS, log } = this.#settings
    const tooLong = AbortSignal.timeout(buildMs)
    const signal = AbortSignal.any([this.#stop.signal, ended, tooLong])
    const isLeft = this.#leaving()
    let outcome: Outcome
    try {
      await using opened = new AsyncDisposableStack()
      // Before the build counts as started: while the object store is away, builds wait for it and use no attempts.
      const archive = this.#continues(row) ? undefined : await this.#openArchive(row, signal)
      opened.defer(() => void archive?.destroy())
      const begun = await this.#begin(row)
      if (!begun) return undefined
      const { adopted } = begun
      const instance = adopted ?? (await this.#sandboxes.start(row, begun.sandbox, signal))
      opened.defer(() => (isLeft() ? this.#sandboxes.leave(row.id, instance) : letGo(instance, log)))
      if (!adopted && archive) await this.#sendArchive(row.id, archive, instance, signal)
      outcome = await this.#watch(row.id, adopted ? row.runner_seq : 0, instance, signal, isLeft)
    } catch (error) {
      if (isLeft()) return undefined
      if (tooLong.aborted) return { failed: `the build took longer than ${Math.round(buildMs / 60_000)} minutes` }
      else if (signal.aborted) return undefined
      else if (error instanceof BuildFailed) return { failed: error.message }
      if (error instanceof ArchiveAway) this.#queue.postpone(row.id)
      throw error
    }
    return isLeft() && outcome && 'failed' in outcome ? undefined : outcome
  }

  /** Returns a function that tells whether another replica has the build by then: this replica stops, or was cut off for a time. */
  #leaving(): () => boolean {
    const { leases } = this.#settings
    const { epoch } = leases
    return () => this.#handsOver || !leases.isAlive || leases.epoch !== epoch
  }

  /** Whether a build continues in its sandbox. A sandbox without events may not have received its whole archive, unless this replica has sent it. */
  #continues(row: DeploymentRow): boolean {
    const adopted = this.#sandboxes.adopted(row)
    return adopted !== undefined && (row.archive === null || row.runner_seq > 0 || adopted.id === this.#complete)
  }

  /**
   * Records that a build starts, for the first time or again. Returns its sandbox: the adopted one of a build that continues, or the id of a new one.
   * Undefined: there is nothing to build.
   */
  async #begin(row: DeploymentRow): Promise<{ adopted: AppSandbox } | { adopted?: never; sandbox: string } | undefined> {
    const { db, log } = this.#settings
    // Each attempt gets a new id: another replica may still be starting a sandbox for the last attempt, and removes it by its id when that fails.
    const sandbox = newId()
    const begins = { runner_seq: 0, sandbox_id: sandbox }
    if (row.state === 'queued') return (await moveDeployment(db, row.id, 'in_progress', null, { ...begins, attempts: 1 })) && { sandbox }
    const continues = this.#continues(row)
    const adopted = this.#sandboxes.take(row.id)
    if (adopted && continues) {
      log.info({ deployment: row.id }, 'adopted a build that outlived the last service')
      return { adopted }
    }
    if (adopted) await letGo(adopted, log)
    if (row.attempts >= MAX_ATTEMPTS) throw new BuildFailed('the build was interrupted twice by a restart of the service')
    return db.transaction().execute(async (tx) => {
      await sql`select ${lockEvents(sql`${row.id}`)}`.execute(tx)
      const { numUpdatedRows } = await tx
        .updateTable('deployments')
        .set({ ...begins, attempts: row.attempts + 1 })
        .where('id', '=', row.id)
        .where('state', '=', 'in_progress')
        .where('deletion', '=', 'kept')
        // Another replica may have restarted the build since the row was read.
        .where('sandbox_id', 'is not distinct from', row.sandbox_id)
        .executeTakeFirstOrThrow()
      if (numUpdatedRows === 0n) return undefined
      await appendEvents(tx, row.id, null, [{ kind: 'log', line: 'The build was interrupted and begins again.' }])
      return { sandbox }
    })
  }

  async #openArchive(row: DeploymentRow, signal: AbortSignal): Promise<Readable | undefined> {
    if (row.archive === null) return undefined
    const archive = await openArchive(this.#settings.objects, row.archive, signal)
    if (!archive) throw new BuildFailed('its archive is gone')
    return archive
  }

  async #sendArchive(id: string, archive: Readable, instance: AppSandbox, signal: AbortSignal): Promise<void> {
    try {
      await call(instance.runner, runner.sendArchive, { body: archive }, { signal })
      this.#complete = instance.id
    } catch (error) {
      signal.throwIfAborted()
      if (archive.errored) {
        const breaks = this.#queue.broke(id)
        if (breaks >= MAX_BREAKS) throw new BuildFailed(`its archive could not be read to its end, ${breaks} times`)
        // The runner accepts only one archive, so the build starts again. The object store failed, not the build, so this does not count as an attempt.
        const columns = { attempts: sql<number>`greatest(attempts - 1, 0)` }
        await this.#settings.db.updateTable('deployments').set(columns).where('id', '=', id).where('state', '=', 'in_progress').execute()
        throw new ArchiveAway('the archive of a build broke off; it will be tried again, other builds go on', { cause: archive.errored })
      }
      const { status, reason, cause } = error as CallFailed
      if (status !== undefined && status >= 400) throw new BuildFailed(reason)
      throw (await endOf(instance)) ?? new BuildFailed(`the build could not take its archive: ${((cause ?? error) as Error).message}`)
    }
  }

  /** Reads the runner's events after `seq` until its last. */
  async #watch(id: string, seq: number, instance: AppSandbox, signal: AbortSignal, isLeft: () => boolean): Promise<Outcome> {
    const keep = this.#keeper(id, instance.id, (apps) => this.#release(id, apps, instance, signal))
    for (let unreadable = 0; ;) {
      try {
        for await (const events of paced(runnerEvents(instance.runner, seq, signal))) {
          if (isLeft()) return undefined // an acknowledged event would be missing at the replica that continues
          const kept = await keep(events).catch((err: unknown) => {
            signal.throwIfAborted()
            if (err instanceof BuildFailed || err instanceof UnreadableCode || err instanceof NotKept) throw err
            throw new NotKept('events of a build could not be stored', { cause: err })
          })
          if (kept !== 'goes on') return kept
          seq = events.at(-1)?.seq ?? seq
          unreadable = 0
          await acknowledge(instance.runner, seq, signal)
        }
      } catch (error) {
        signal.throwIfAborted()
        if (error instanceof BuildFailed) throw error
        if (error instanceof NotKept) this.#settings.log.warn({ err: error.cause, deployment: id }, error.message)
        else {
          const end = await endOf(instance)
          if (end) throw end
          this.#settings.log.warn({ err: error, deployment: id }, 'a build cannot be read')
          if (++unreadable >= MAX_UNREADABLE) throw new BuildFailed(`the build cannot be followed: ${(error as Error).message.slice(0, 500)}`)
        }
        await sleep(RETRY_MS, signal)
      }
    }
  }

  /**
   * Stores the code of a successful build, and then makes it the code for new runs. If the service is killed between the two, the next start does both again,
   * and the first object is swept.
   */
  async #release(id: string, apps: AppsFound, instance: AppSandbox, signal: AbortSignal): Promise<Outcome> {
    const { db, log, objects } = this.#settings
    const code = await this.#store(id, instance, signal)
    const released = await db.transaction().execute((tx) => release(tx, id, apps, code))
    if (released?.ok) {
      instance.stored(code.key)
      return released
    }
    await objects.delete(code.key).catch((err: unknown) => log.warn({ err, key: code.key }, 'code that was not released is left to the sweep'))
    return released && { failed: released.reason }
  }

  async #store(id: string, instance: AppSandbox, signal: AbortSignal): Promise<StoredCode> {
    const { objects, maxCodeBytes } = this.#settings
    try {
      return await storeCode(objects, id, instance, maxCodeBytes, signal)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof TooLarge) throw new BuildFailed(`the built code, packed, has ${error.message}`)
      if (!(error instanceof UnreadableCode)) throw new NotKept('the code of a build could not be stored', { cause: error })
      throw error
    }
  }

  /** Stores a runner's events and the position in its sequence, in one transaction, while the row names its sandbox. The last event has the result. */
  #keeper(id: string, sandbox: string, loaded: (apps: AppsFound) => Promise<Outcome>): (events: RunnerEvent[]) => Promise<Outcome | 'goes on'> {
    const { db } = this.#settings
    let left = MAX_BUILD_LOG_BYTES
    const lineOf = (event: RunnerEvent) => {
      if (event.type !== 'log' || left < 0) return []
      // An empty line takes space, too.
      left -= LINE_BYTES + event.line.length
      const line = left < 0 ? 'Further output of the build is not kept.' : event.line
      return [{ kind: 'log' as const, line, at: event.at }]
    }
    return async (events) => {
      const logs = events.filter(({ type }) => type === 'log')
      if (logs.length > 0) {
        const before = left
        const write = async (tx: Db) => {
          await sql`select ${lockEvents(sql`${id}`)}`.execute(tx)
          const row = await tx
            .selectFrom('deployments')
            .select(['id', 'state', 'runner_seq', 'sandbox_id'])
            .where('id', '=', id)
            .forNoKeyUpdate()
            .executeTakeFirst()
          if (row?.state !== 'in_progress' || row.sandbox_id !== sandbox) return false
          // Events that were stored but not acknowledged come again.
          const fresh = logs.filter(({ seq }) => seq > row.runner_seq)
          await appendEvents(tx, id, null, fresh.flatMap(lineOf), this.#settings.maxLogBytes)
          await tx
            .updateTable('deployments')
            .set({ runner_seq: Math.max(row.runner_seq, logs.at(-1)!.seq) })
            .where('id', '=', id)
            .execute()
          return true
        }
        const isThere = await db
          .transaction()
          .execute(write)
          .catch((error: unknown) => {
            left = before // the same lines come again
            throw error
          })
        if (!isThere) return undefined
      }
      const last = events.find(({ type }) => type !== 'log')
      switch (last?.type) {
        case undefined:
          return 'goes on'
        case 'loaded':
          return loaded(last.apps)
        case 'failed':
          return { failed: last.reason }
        default:
          return { failed: 'the runner of the build reported a run' }
      }
    }
  }
}
