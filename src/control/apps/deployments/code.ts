// The code of deployments as objects: stored from the runner that has packed it, and handed to the sandboxes of runs.
import type { Readable } from 'node:stream'
import { newId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import { Unavailable } from '../../../base/unavailable.ts'
import { openStream } from '../../../http/client.ts'
import { CodeUnavailable, letGo, type AppCode, type AppSandbox, type AppSandboxes } from '../../../instances/driver.ts'
import { runner as calls } from '../../../runner/contract.ts'
import type { Db } from '../../../store/db.ts'
import type { Objects } from '../../../store/objects.ts'
import { codeKey, type DeploymentRow } from './rows.ts'

/** Limit on the transfer of packed code from its runner. Packed code has at most the size of a sandbox's disk; some hundred MB take seconds. */
const STORE_MS = 10 * 60_000

/** The code as an object. */
export interface StoredCode {
  key: string
  bytes: number
}

/** What comes from the runner cannot be read. Every other error of {@link storeCode} is the object store's. */
export class UnreadableCode extends Error {}

/**
 * Stores the code that a runner has packed, under a fresh key. The row that names it comes after that; an object that no row names is swept.
 * @throws UnreadableCode, TooLarge, what the store throws, or the signal's reason
 */
export async function storeCode(objects: Objects, deployment: string, { runner: at }: AppSandbox, maxBytes: number, signal: AbortSignal): Promise<StoredCode> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(STORE_MS)])
  const key = codeKey(deployment, newId())
  const unreadable = (cause: unknown) => {
    signal.throwIfAborted()
    return new UnreadableCode(`its code cannot be read: ${(cause as Error).message}`, { cause })
  }
  const packed = await openStream(at, calls.packedCode, {}, limited).catch((error: unknown) => {
    throw unreadable(error)
  })
  async function* chunks(): AsyncGenerator<Uint8Array> {
    try {
      yield* packed as AsyncIterable<Uint8Array>
    } catch (error) {
      throw unreadable(error)
    }
  }
  try {
    const { bytes } = await objects.put(key, chunks(), { maxBytes }, limited)
    return { key, bytes }
  } finally {
    packed.destroy()
  }
}

/** The code of a row, for the driver. */
export function codeOf(objects: Objects, { key, bytes }: StoredCode): AppCode {
  return {
    key,
    bytes,
    async open(signal): Promise<Readable> {
      const found = await objects.get(key, undefined, signal).catch((error: unknown) => {
        if (!(error instanceof Unavailable)) throw error
        throw new CodeUnavailable(`the code of its deployment cannot be fetched: ${error.message}`, { cause: error })
      })
      if (!found) throw new CodeUnavailable('the code of its deployment is gone from the object store; deploy it again')
      return found.content
    },
  }
}

export const storedCode = ({ code_key: key, code_bytes: bytes }: Pick<DeploymentRow, 'code_key' | 'code_bytes'>): StoredCode | undefined =>
  key === null ? undefined : { key, bytes: bytes ?? 0 }

interface EarlierCodeSettings {
  db: Db
  objects: Objects
  sandboxes: AppSandboxes
  apiUrl: () => string
  memoryMb: number
  maxCodeBytes: number
  logLevel: string
  log: Log
}

/** The code of deployments that an earlier version has built: their driver has it by the deployment's id, and there is no object yet. */
export class EarlierCode {
  readonly #settings: EarlierCodeSettings
  readonly #storing = new Map<string, Promise<StoredCode>>()

  constructor(settings: EarlierCodeSettings) {
    this.#settings = settings
  }

  /**
   * Packs it in a sandbox and stores it. Building it again could make something else of the same sources. Callers at the same time share the work.
   * @throws CodeUnavailable when the driver does not have it any more
   */
  store(id: string, signal: AbortSignal): Promise<StoredCode> {
    const storing = this.#storing.get(id) ?? this.#store(id, signal).finally(() => this.#storing.delete(id))
    this.#storing.set(id, storing)
    return storing
  }

  async #store(id: string, signal: AbortSignal): Promise<StoredCode> {
    const { db, objects, sandboxes, apiUrl, memoryMb, maxCodeBytes, logLevel, log } = this.#settings
    const runner = { id: newId(), kind: 'pack' as const, env: {}, memoryMb, logLevel }
    const instance = await sandboxes.start({ id: runner.id, code: { key: id, bytes: 0, open: gone }, runner, apiUrl: apiUrl() }, signal)
    let stored: StoredCode
    try {
      stored = await storeCode(objects, id, instance, maxCodeBytes, signal)
    } finally {
      await letGo(instance, log)
    }
    const columns = { code_key: stored.key, code_bytes: stored.bytes }
    const naming = db.updateTable('deployments').set(columns).where('id', '=', id).where('state', '=', 'running').where('code_key', 'is', null)
    const { numUpdatedRows } = await naming.executeTakeFirstOrThrow()
    if (numUpdatedRows === 0n) {
      await objects.delete(stored.key)
      // Another replica was first.
      const row = await db.selectFrom('deployments').select(['code_key', 'code_bytes']).where('id', '=', id).executeTakeFirst()
      const named = row && storedCode(row)
      if (named) return named
      throw new Error(`deployment ${id} has ended while its code was packed`)
    }
    log.info({ deployment: id, bytes: stored.bytes }, 'the code of a deployment, which an earlier version has kept as a folder, is an object now')
    await sandboxes.forget(id)
    return stored
  }
}

const gone = (): Promise<Readable> => Promise.reject(new CodeUnavailable('its code is no longer on this machine; deploy it again'))
