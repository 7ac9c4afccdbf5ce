// The code of deployments as objects: fetched from the runner that has packed it, and sent to the sandboxes of runs.
import type { Readable } from 'node:stream'
import { newId } from '../../../base/ids.ts'
import { Unavailable } from '../../../base/unavailable.ts'
import { openStream } from '../../../http/client.ts'
import { CodeUnavailable, type AppCode, type AppSandbox } from '../../../instances/driver.ts'
import { runner as calls } from '../../../runner/contract.ts'
import type { Objects } from '../../../store/objects.ts'
import { codeKey } from './rows.ts'

/** Limit on the transfer of packed code from its runner. Packed code has at most the size of a sandbox's disk; some hundred MB take seconds. */
const STORE_MS = 10 * 60_000

/** The stored code. */
export interface StoredCode {
  key: string
  bytes: number
}

/** The runner's data cannot be read. Every other error of {@link storeCode} comes from the object store. */
export class UnreadableCode extends Error {}

/**
 * Stores the code that a runner has packed, under a new key. The row that names it is written after that; an object that no row names is swept.
 * @throws UnreadableCode, TooLarge, errors of the store, or the signal's reason
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

/** The code of a row in the driver's form. */
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
