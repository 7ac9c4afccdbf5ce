// Copies one recording from its agent into the spool while it is recorded, and makes it a video in the object store when it has ended.
import { Readable } from 'node:stream'
import { recording } from '../../../agent/recording/contract.ts'
import type { Log } from '../../../base/log.ts'
import type { Slots } from '../../../base/slots.ts'
import { sleep, within } from '../../../base/wait.ts'
import { call, CallFailed, openStream } from '../../../http/client.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import type { Db } from '../../../store/db.ts'
import type { Objects } from '../../../store/objects.ts'
import type { Spool } from '../../../store/spool.ts'
import { Mp4Index } from './mp4-index.ts'
import { activityOf, mp4HeaderOf } from './mp4-header.ts'
import type { Pace } from './pace.ts'
import { freshKey, headKey, markFinished, markReady, type ReplayRow } from './rows.ts'

/** An agent that records sends something every second. */
const SILENCE_MS = 15_000
/** Wait between two attempts to reach an agent, or the database. */
const RETRY_MS = 500
/** Timeout of our own small requests to an agent: it waits for its encoder. */
const CALL_MS = 10_000
/** Limit on consecutive empty answers while the agent says that there is more. Its encoder may be slow; this is 30 s. */
const EMPTY_ANSWERS = 60
/** What asking an agent twice costs, in turns of a {@link Pace}. */
const ROUND_TURNS = 5
/** Limit on the agent's answer about a recording, in bytes. */
const MAX_STATUS_BYTES = 4096
/** Limit on samples and boxes: our recorder writes 20 pictures and 47 pieces of sound a second, and a few boxes. The first number is for clocks. */
const ITEMS_AT_ONCE = 10_000
const ITEMS_PER_SECOND = 200
/** Sync interval: how much the spool may lose when the machine itself dies. */
const SYNC_MS = 5_000
/** Limit on the bytes of a recording. A recorder ends by itself before; this is for an agent that was taken over. */
const MAX_BYTES = 5 * 1024 ** 3
/** Parts of the player's time line. */
const ACTIVITY_PARTS = 120
const MAX_HEAD_BYTES = 256 * 1024 * 1024
/**
 * Objects that are older when their row can be written at last (the database was away) are stored again, under a fresh key: any service may remove
 * an old object that no row names.
 */
export const FRESH_MS = 3600_000

interface TransferSettings {
  db: Db
  objects: Objects
  spool: Spool
  log: Log
  row: ReplayRow
  /** Undefined when the session has ended and nothing can be fetched. */
  endpoint: Endpoint | undefined
  /** The one of all recordings of the session. */
  pace: Pace
  /** The one of all videos that are being stored. */
  storing: Slots
  /** The one of all recordings of ended sessions that are read from the spool after a start. */
  reading: Slots
  freshMs?: number | undefined
  /** Whether no other replica may be fetching it. While that is not sure, nothing is written. */
  isOurs?: () => boolean
  /** The reason when no recording may grow (the disk is full). */
  fullDisk?: (() => string | undefined) | undefined
}

export class Transfer {
  readonly id: string
  readonly browserId: string
  readonly pace: Pace
  /** Resolves when the video is ready, or the service ends. Never rejects. */
  readonly done: Promise<void>
  /** False once all of its bytes are here. */
  isRecording = true
  readonly #settings: TransferSettings
  /** What was read so far; undefined while nothing of the recording is held. */
  #index: Mp4Index | undefined
  readonly #gone = new AbortController()
  readonly #quit = new AbortController()
  /** From this time on, an agent that does not answer counts as dead. */
  readonly #ending = new AbortController()
  #length = 0
  #syncedAt = 0

  constructor(settings: TransferSettings) {
    this.#settings = settings
    this.id = settings.row.id
    this.browserId = settings.row.browser_id
    this.pace = settings.pace
    if (!settings.endpoint) this.#gone.abort(new Error('the session is gone'))
    this.done = this.#run().catch((err: unknown) => {
      if (!this.#quit.signal.aborted) settings.log.error({ err, replay: this.id }, 'a replay was not finished; the next start of the service will')
    })
  }

  /** Asks the agent to end the recording. Its last bytes are fetched in the same way as all others. */
  async stop(): Promise<void> {
    if (this.#gone.signal.aborted || !this.#settings.endpoint) return
    await call(this.#settings.endpoint, recording.stopRecording, { params: { id: this.id } }, { signal: this.#limit })
  }

  /** Ends the recording within `ms`, or without its agent: the session is about to be removed. Resolves when its end is written down. */
  async end(ms: number): Promise<void> {
    this.#ending.abort()
    await within('the end of a recording', ms, Promise.all([this.stop().catch(() => {}), this.#brought.promise])).catch(() => {})
    this.#gone.abort(new Error('the session is gone'))
    await Promise.race([this.#finished.promise, this.done])
  }

  readonly #brought = Promise.withResolvers<void>()
  readonly #finished = Promise.withResolvers<void>()

  /** Leaves everything as it is, for the next start. */
  quit(): void {
    this.#quit.abort(new Error('the service stops'))
  }

  /** Of one small request to the agent. */
  get #limit(): AbortSignal {
    return AbortSignal.any([this.#gone.signal, this.#quit.signal, AbortSignal.timeout(CALL_MS)])
  }

  async #run(): Promise<void> {
    const { row, endpoint, log, db, spool, storing, reading } = this.#settings
    let reason: string
    try {
      // After a start there may be many that have ended, and each is held until its end is written down. One that goes on does not wait behind them.
      if (endpoint) await this.#read()
      else await reading.run(() => this.#read(), this.#quit.signal)
      reason = await this.#bring()
    } catch (err) {
      log.error({ err, replay: this.id }, 'a recording cannot be stored')
      reason = 'store_failed'
      await this.stop().catch(() => {})
    } finally {
      this.isRecording = false
      this.#brought.resolve()
    }
    this.#quit.signal.throwIfAborted()
    const durationMs = this.#index?.durationMs ?? 0
    const finishedAt = new Date(Math.min(Date.now(), row.started_at!.getTime() + durationMs))
    await this.#persist(() => markFinished(db, this.id, finishedAt, reason))
    this.#finished.resolve()
    let stored: { video: Stored; until: number } | undefined
    await this.#persist(async () => {
      if (!stored || performance.now() >= stored.until) {
        if (storing.areTaken) this.#drop()
        const video = await storing.run(() => this.#move(), this.#quit.signal)
        stored = { video, until: performance.now() + (this.#settings.freshMs ?? FRESH_MS) }
      }
      await markReady(db, this.id, stored.video)
    })
    // Only now: until the row is written, the next start needs the spool to do all of this again.
    await spool.remove(this.id).catch((err: unknown) => log.error({ err, replay: this.id }, 'a complete recording could not be removed from the spool'))
    if (endpoint && !this.#gone.signal.aborted)
      await call(endpoint, recording.forgetRecording, { params: { id: this.id } }, { signal: this.#limit }).catch(() => {})
    log.info({ replay: this.id, browser: this.browserId, reason, bytes: this.#length, ms: durationMs }, 'a replay is ready')
  }

  /** Stores the objects of the video under a fresh key. The recording stays in the spool, too. */
  async #move(): Promise<Stored> {
    const { objects, spool, log } = this.#settings
    const index = await this.#read()
    const header = index.problem ? undefined : mp4HeaderOf(index)
    if (index.problem) log.error({ err: index.problem, replay: this.id }, 'a recording has an unknown format; it is kept unchanged')
    const bytes = header ? index.length : index.problem ? this.#length : 0
    const object = freshKey(this.id)
    if (bytes > 0) await objects.putFile(object, spool.path(this.id), this.#quit.signal)
    if (header) await objects.put(headKey(object), Readable.from([header]), { maxBytes: MAX_HEAD_BYTES }, this.#quit.signal)
    return { object, bytes, headBytes: header?.length ?? 0, activity: header ? activityOf(index, ACTIVITY_PARTS) : [] }
  }

  /** Retries until it succeeds: the database or the object store may be away, or the disk full for a while. */
  async #persist(work: () => Promise<void>): Promise<void> {
    for (let waitMs = RETRY_MS; ; waitMs = Math.min(waitMs * 2, 60_000)) {
      try {
        this.#assertOurs()
        return await work()
      } catch (err) {
        this.#quit.signal.throwIfAborted()
        this.#settings.log.error({ err, replay: this.id }, 'the end of a replay cannot be written down yet')
        this.#drop()
        await sleep(waitMs, this.#quit.signal)
      }
    }
  }

  /** What is there of the recording, which is read from the spool if it is not held: an earlier service has fetched it, or this one has dropped it. */
  async #read(): Promise<Mp4Index> {
    if (this.#index) return this.#index
    const startedAt = this.#settings.row.started_at!.getTime()
    const index = new Mp4Index(() => ITEMS_AT_ONCE + ((Date.now() - startedAt) / 1000) * ITEMS_PER_SECOND)
    let length = 0
    for await (const chunk of ((await this.#settings.spool.read(this.id)) ?? []) as AsyncIterable<Buffer>) {
      length += chunk.length
      look(index, chunk)
    }
    this.#length = length
    return (this.#index = index)
  }

  /** Holds nothing of a complete recording. After an outage of the store many wait, and one of hours has megabytes of tables. The spool has it. */
  #drop(): void {
    this.#index = undefined
  }

  /** Resolves with the reason why the recording has ended, once all of its bytes are here. @throws when the spool does not accept them */
  async #bring(): Promise<string> {
    const { endpoint, log } = this.#settings
    let empty = 0
    while (!this.#gone.signal.aborted) {
      this.#quit.signal.throwIfAborted()
      try {
        const before = this.#length
        const isThere = await this.#bringSome(endpoint!)
        if (!isThere) return 'agent_lost'
        const asked = { params: { id: this.id } }
        const status = await call(endpoint!, recording.recordingStatus, asked, { signal: this.#limit, maxBytes: MAX_STATUS_BYTES })
        if (status.ended !== undefined && this.#length >= status.bytes) return status.ended
        empty = this.#length > before ? 0 : empty + 1
        if (empty === EMPTY_ANSWERS) return 'agent_lost'
        // An agent that promises more and sends nothing is asked again only after a pause.
        await this.#pause(Math.max(empty > 0 ? RETRY_MS : 0, this.pace.spend(0, ROUND_TURNS)))
      } catch (err) {
        if (err instanceof StoreFailure) throw err.cause
        this.#quit.signal.throwIfAborted()
        if (this.#gone.signal.aborted || this.#ending.signal.aborted) break
        log.info({ err, replay: this.id }, 'a recording cannot be fetched at the moment')
        await this.#pause(RETRY_MS)
      }
    }
    this.#quit.signal.throwIfAborted()
    return 'session_ended'
  }

  /** Waits, but not when the recording is about to end. */
  async #pause(ms: number): Promise<void> {
    if (ms === 0) return
    await sleep(ms, AbortSignal.any([this.#gone.signal, this.#quit.signal, this.#ending.signal])).catch(() => {})
  }

  /** One answer of the agent; false when it does not know the recording, or has dropped it. */
  async #bringSome(endpoint: Endpoint): Promise<boolean> {
    const silent = new AbortController()
    const signal = AbortSignal.any([this.#gone.signal, this.#quit.signal, silent.signal])
    const timer = setTimeout(() => silent.abort(new Error('an agent that records is silent')), SILENCE_MS)
    try {
      const input = { params: { id: this.id }, query: { from: this.#length } }
      const response = await openStream(endpoint, recording.readRecording, input, signal).catch((error: unknown) => {
        if (error instanceof CallFailed && (error.status === 404 || error.status === 409)) return undefined
        throw error
      })
      if (!response) return false
      for await (const chunk of response as AsyncIterable<Buffer>) {
        timer.refresh()
        await this.#store(chunk)
        // Shorter than the silence after which an agent counts as dead.
        await this.#pause(Math.min(this.pace.spend(chunk.length, 1), SILENCE_MS / 2))
      }
      return true
    } finally {
      clearTimeout(timer)
    }
  }

  async #store(chunk: Buffer): Promise<void> {
    const { spool } = this.#settings
    this.#assertOurs()
    if (this.#length + chunk.length > MAX_BYTES) throw new StoreFailure(new Error(`a recording has more than ${MAX_BYTES} bytes`))
    const problem = this.#settings.fullDisk?.()
    if (problem !== undefined) throw new StoreFailure(new Error(problem))
    try {
      await spool.append(this.id, this.#length, chunk)
    } catch (error) {
      throw new StoreFailure(error)
    }
    this.#length += chunk.length
    look(this.#index!, chunk)
    if (performance.now() - this.#syncedAt < SYNC_MS) return
    this.#syncedAt = performance.now()
    void spool.sync(this.id).catch(() => {})
  }

  /** @throws when another replica may be fetching it; that is tried again */
  #assertOurs(): void {
    if (this.#settings.isOurs?.() === false) throw new Error('another replica may be fetching this recording')
  }
}

/** An unreadable recording is stored nevertheless: other programs may be able to read it. */
function look(index: Mp4Index, chunk: Buffer): void {
  if (index.problem) return
  try {
    index.push(chunk)
  } catch {}
}

/** A video in the object store. */
type Stored = Parameters<typeof markReady>[2]

class StoreFailure extends Error {
  constructor(cause: unknown) {
    super('the spool does not take a recording', { cause })
  }
}
