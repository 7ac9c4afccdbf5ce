// Saves profiles: a step of a session's end streams the browser's profile from its agent into the object store, and makes it a version.
import { BYTES_HEADER, LEFT_OUT_HEADER, profile as agentProfile, WHOLE_HEADER } from '../../../agent/profile/contract.ts'
import { session as agentSession } from '../../../agent/session/contract.ts'
import { newId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import { Slots } from '../../../base/slots.ts'
import { Unavailable } from '../../../base/unavailable.ts'
import { call, CallFailed, openStream } from '../../../http/client.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import { Fault } from '../../../http/fault.ts'
import type { Db } from '../../../store/db.ts'
import type { Leases } from '../../../store/leases.ts'
import { TooLarge, type Objects } from '../../../store/objects.ts'
import type { EndingSession, EndStep } from '../browsers/end-step.ts'
import { commitVersion, markUnsaved, sessionRow, sessionsToSave, STEP, versionKey, type SessionRow } from './rows.ts'

/** Limit on one attempt to save: a gigabyte at 4 MB/s. */
const SAVE_MS = 5 * 60_000
/** Limit on a pause in an agent's answer. An agent sends data all the time while it packs; closing Chromium first takes up to some seconds. */
const SILENCE_MS = 30_000
/** Limit on asking an agent for the version of its Chromium. A profile is saved without it, too. */
const STATUS_MS = 2_000
/** After this time the service stops to retry and ends the session without saving its profile: until then, the unused browser takes a seat. */
const GIVE_UP_MS = 10 * 60_000
/**
 * The lowest accepted speed of an agent, in bytes per millisecond, after {@link SILENCE_MS}. An agent that sends a byte now and then would otherwise keep a
 * slot for a long time.
 */
const SLOWEST = 1_000
/** Attempts with an agent that runs but refuses, or breaks off. More attempts would not help, for example when its disk is full. */
const MAX_ATTEMPTS = 3
/** Saves at the same time: enough that a few hanging agents do not block the others. */
const AT_ONCE = 16
/** The first bytes of each archive (zstd). */
const MAGIC = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])

/** Limit on the unpacked size of an archive, as a multiple of the largest archive. A browser's databases shrink to a third or less. */
export const UNPACKED = 8

interface SavesSettings {
  db: Db
  objects: Objects
  scope: string
  leases: Pick<Leases, 'remembered'>
  /** The agent of a session that is ending; undefined when the instance has ended by itself. */
  agentOf: (sessionId: string) => Endpoint | undefined
  /** Limit on the size of an archive, in bytes. */
  maxBytes: number
  /** The reason why nothing may be stored now (the disk is full). */
  fullDisk?: () => string | undefined
  /** Replaces {@link GIVE_UP_MS} in tests. */
  giveUpMs?: number
  log: Log
}

/** The agent's answer cannot be used. All other errors of a save come from the object store or the database. */
class Unreadable extends Error {
  override name = 'Unreadable'
}

/** The profile is larger before compression than a browser would load. */
class FilesTooLarge extends Error {
  override name = 'FilesTooLarge'
  constructor(bytes: number, maxBytes: number) {
    super(
      `the profile is too large, its files have ${bytes} bytes, more than ${maxBytes}, which is ${UNPACKED} times the limit on its archive (COB_PROFILE_MAX_MB)`,
    )
  }
}

export class Saves {
  readonly #settings: SavesSettings
  readonly #slots = new Slots(AT_ONCE)
  /** Sessions whose profile is saved at their end. The set may have others, too. */
  readonly #known = new Set<string>()
  /** Sessions that are being saved: since when this process has tried, and how often the agent has failed. */
  readonly #tried = new Map<string, { since: number; failures: number }>()
  /** Whether the set has all such sessions. */
  #isSure = false

  constructor(settings: SavesSettings) {
    this.#settings = settings
  }

  /** Notes that a session's profile is saved at its end. Call it before the session's row says so. */
  add(sessionId: string): void {
    this.#known.add(sessionId)
  }

  /**
   * After a start: reads which sessions of earlier services are to be saved. Until then, each end reads the session's row. With other replicas, each end always
   * does.
   */
  async adopt(): Promise<void> {
    const { db, scope } = this.#settings
    for (const id of await sessionsToSave(db, scope)) this.#known.add(id)
    this.#isSure = true
  }

  /** The step of an end. Callers do not wait for the save; creates that name the profile do. */
  get step(): EndStep {
    return {
      name: STEP,
      limitMs: SAVE_MS,
      // As long as the agent lives, the state can still be saved.
      mayFail: false,
      run: (session, signal, outOfUse) => (this.#isToSave(session.id) === false ? undefined : this.#end(session, signal, outOfUse)),
    }
  }

  /** Undefined when the session's row must be read. */
  #isToSave(sessionId: string): boolean | undefined {
    return this.#isSure ? this.#settings.leases.remembered(this.#known.has(sessionId)) : undefined
  }

  async #end({ id, reason }: EndingSession, signal: AbortSignal, outOfUse: () => void): Promise<void | 'nothing'> {
    // A session that its caller never got has no new state.
    const row = reason === 'abandoned' ? undefined : await sessionRow(this.#settings.db, id)
    const isToSave = row?.profile_save && row.profile_end === null
    if (isToSave) {
      outOfUse()
      await this.#save(row, reason, signal)
    }
    this.#known.delete(id)
    this.#tried.delete(id)
    return isToSave ? undefined : 'nothing'
  }

  /** @throws errors that may be temporary: the save is tried again */
  async #save(row: SessionRow, reason: string, signal: AbortSignal): Promise<void> {
    const { db, agentOf, giveUpMs = GIVE_UP_MS, log } = this.#settings
    const { id } = row
    const unsaved = async (why: string, err?: unknown): Promise<void> => {
      log.error({ err, browser: id, profile: row.profile_id, why }, 'a profile was not saved')
      await markUnsaved(db, id, why)
    }
    const endpoint = agentOf(id)
    if (!endpoint) return unsaved(`not saved: the browser had ended before (${reason})`)
    const tried = this.#tried.get(id) ?? { since: performance.now(), failures: 0 }
    this.#tried.set(id, tried)
    if (performance.now() - tried.since > giveUpMs) return unsaved('not saved: it did not work for too long')
    try {
      await this.#slots.run(() => this.#store(row, endpoint, signal), signal)
    } catch (err) {
      signal.throwIfAborted()
      if (err instanceof TooLarge) return unsaved(`not saved: the profile is too large, its archive has ${err.message}, the limit (COB_PROFILE_MAX_MB)`, err)
      if (err instanceof FilesTooLarge) return unsaved(`not saved: ${err.message}`, err)
      // The agent is of an older version.
      if (err instanceof Fault) return unsaved(`not saved: ${err.message}`, err)
      if (!(err instanceof Unreadable)) throw err
      if (++tried.failures < MAX_ATTEMPTS) throw err
      await unsaved(`not saved: ${err.message}`, err)
    }
  }

  async #store(row: SessionRow, endpoint: Endpoint, signal: AbortSignal): Promise<void> {
    const { db, objects, scope, maxBytes, fullDisk, log } = this.#settings
    const problem = fullDisk?.()
    if (problem !== undefined) throw new Unavailable(problem, 30)
    const chromium = await versionOf(endpoint, signal)
    const id = newId()
    const object = versionKey(id)
    using archive = await archiveOf(endpoint, signal)
    const { isWhole, unpackedBytes, leftOut } = archive
    // No browser would load such a profile.
    if (unpackedBytes > UNPACKED * maxBytes) throw new FilesTooLarge(unpackedBytes, UNPACKED * maxBytes)
    const { bytes, sha256 } = await objects.put(object, archive.content, { maxBytes }, signal)
    // If this fails, the version may exist or not. The object stays; the sweep removes it if no row names it.
    const committed = await commitVersion(db, row, { id, object, bytes, sha256, chromium, is_whole: isWhole, scope }, leftOut)
    if (committed.is === 'saved') {
      log.info({ browser: row.id, profile: row.profile_id, version: id, bytes, isWhole }, 'a profile was saved')
      return removeObjects(objects, committed.removed, log)
    }
    await removeObjects(objects, [object], log)
    if (committed.is === 'gone') await markUnsaved(db, row.id, 'not saved: the profile has been deleted')
  }
}

/** The version of an agent's Chromium; null when the agent does not tell. */
async function versionOf(endpoint: Endpoint, signal: AbortSignal): Promise<string | null> {
  try {
    const { chromium } = await call(endpoint, agentSession.agentStatus, {}, { signal: AbortSignal.any([signal, AbortSignal.timeout(STATUS_MS)]) })
    // The text begins with the name of the product.
    return chromium.version.slice(chromium.version.indexOf('/') + 1)
  } catch {
    signal.throwIfAborted()
    return null
  }
}

interface Archive extends Disposable {
  /** Whether Chromium had been closed properly. */
  isWhole: boolean
  /** Size before compression, as the agent reports it; NaN if it does not. */
  unpackedBytes: number
  /** Number of entries that the agent left out because Chromium cannot have made them. 0 if it reports none. */
  leftOut: number
  content: AsyncGenerator<Uint8Array, void>
}

/** The archive as its agent sends it, until disposed. @throws Unreadable, also while its content is read; Fault for an agent of an older version */
async function archiveOf(endpoint: Endpoint, signal: AbortSignal): Promise<Archive> {
  const silence = new AbortController()
  const listen = () => setTimeout(() => silence.abort(new Error(`the browser sent nothing for ${SILENCE_MS / 1000} s`)), SILENCE_MS)
  let timer = listen()
  const unreadable = (cause: unknown) => {
    signal.throwIfAborted()
    const why = cause instanceof CallFailed && cause.said !== '' ? cause.reason : (cause as Error).message
    return new Unreadable(`the browser's profile cannot be read: ${why.slice(0, 500)}`, { cause })
  }
  const response = await openStream(endpoint, agentProfile.saveProfile, {}, AbortSignal.any([signal, silence.signal])).catch((error: unknown) => {
    clearTimeout(timer)
    throw error instanceof Fault ? error : unreadable(error)
  })
  async function* chunks(): AsyncGenerator<Uint8Array, void> {
    let head = Buffer.alloc(0)
    let [received, waitedMs, askedAt] = [0, 0, performance.now()]
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        clearTimeout(timer)
        received += chunk.length
        waitedMs += performance.now() - askedAt
        if (waitedMs > SILENCE_MS + received / SLOWEST) throw new Error(`it comes too slowly, ${received} bytes in ${Math.round(waitedMs)} ms`)
        if (head.length < MAGIC.length) {
          head = Buffer.concat([head, chunk.subarray(0, MAGIC.length - head.length)])
          if (!head.equals(MAGIC.subarray(0, head.length))) throw new Error('it is not an archive')
        }
        // The time that the object store takes does not count.
        yield chunk
        askedAt = performance.now()
        timer = listen()
      }
      clearTimeout(timer)
      if (head.length < MAGIC.length) throw new Error('it is empty')
    } catch (error) {
      throw unreadable(error)
    }
  }
  return {
    isWhole: response.headers[WHOLE_HEADER] !== 'false',
    unpackedBytes: Number(response.headers[BYTES_HEADER]),
    leftOut: Number(/^\d{1,9}$/.exec(String(response.headers[LEFT_OUT_HEADER]))?.[0] ?? 0),
    content: chunks(),
    [Symbol.dispose]() {
      clearTimeout(timer)
      response.destroy()
    },
  }
}

/** Removes objects that no row names any more. The sweep removes those for which this fails. */
export async function removeObjects(objects: Objects, keys: readonly string[], log: Log): Promise<void> {
  for (const key of keys)
    await objects.delete(key).catch((err: unknown) => log.warn({ err, key }, 'the object of a version could not be removed; the sweep of objects does it'))
}
