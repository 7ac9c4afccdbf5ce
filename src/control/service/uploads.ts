// Streams a file of a form into the object store as it arrives.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Readable } from 'node:stream'
import { fault } from '../../http/fault.ts'
import { TooLarge, type Objects, type Stored } from '../../store/objects.ts'

/** Up to this many bytes of a file over the limit are read and dropped, so that its sender can read the error. */
const DRAIN_BYTES = 32 * 1024 * 1024
const DRAIN_MS = 5_000

/** Stores a file under `key`. @throws 413 when it has more than `maxBytes` */
export async function storeUpload(objects: Objects, key: string, content: Readable, maxBytes: number, signal: AbortSignal): Promise<Stored> {
  // The store must not destroy its source stream: it also carries the rest of the form, and the sender must get an answer.
  const chunks = content.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>
  try {
    return await objects.put(key, chunks, { maxBytes }, signal)
  } catch (error) {
    if (!(error instanceof TooLarge)) throw error
    await Promise.race([drain(content), sleep(DRAIN_MS, undefined, { signal, ref: false }).catch(() => {})])
    throw fault.tooLarge(maxBytes)
  }
}

async function drain(content: Readable): Promise<void> {
  let dropped = 0
  try {
    for await (const chunk of content as AsyncIterable<Buffer>) if ((dropped += chunk.length) > DRAIN_BYTES) return
  } catch {
    // The sender has disconnected.
  }
}
