// Objects: archives, recordings, and other content that is too large for a row. The interface of every store of them; files (objects-files.ts) or an S3 bucket
// (objects-s3.ts) keep them.
import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'

export interface Stored {
  bytes: number
  /** Lower-case hex. */
  sha256: string
}

export interface Listed {
  key: string
  bytes: number
  /** When the object appeared; in S3 it may be when its upload began, at most {@link PUT_MS} before. */
  modified: Date
}

/**
 * Keys are segments of letters, digits, `.`, `_`, `-`, joined by `/`. An object never changes: write it under a fresh key, then commit the row that
 * names it. Calls that S3 does not answer, or not in time, throw `Unavailable`.
 */
export interface Objects extends Disposable {
  /**
   * Stores the bytes of `content`, completely or not at all, within {@link PUT_MS}. A source of `content` is left open when this throws, unless it ends with
   * its iterator. @throws TooLarge, or errors of the content.
   */
  put(key: string, content: AsyncIterable<Uint8Array>, limits: { maxBytes: number }, signal: AbortSignal): Promise<Stored>
  /** Stores a complete file, completely or not at all, within {@link PUT_MS}. The file stays where it is; the caller must not change it any more. */
  putFile(key: string, path: string, signal: AbortSignal): Promise<void>
  /** The object's length, and its bytes or those of a range (`end` included); undefined when the key does not exist. */
  get(key: string, range?: { start: number; end: number }, signal?: AbortSignal): Promise<{ bytes: number; content: Readable } | undefined>
  /** Every object whose key begins with `prefix` (whole segments) and a `/`, in no particular order, fetched page by page. */
  list(prefix: string, signal: AbortSignal): AsyncIterable<Listed>
  /** Removes an object. A missing one is no error. */
  delete(key: string, signal?: AbortSignal): Promise<void>
  /** Removes the remains of calls of {@link put} and {@link putFile} that began before this time and never ended (their process was killed). */
  dropUnfinished(before: Date, signal: AbortSignal): Promise<void>
}

/** Limit on one call of `put` or `putFile`: 5 GiB at 0.25 MB/s. The removal of unnamed objects by age waits longer than this. */
export const PUT_MS = 6 * 3600_000

export class TooLarge extends Error {
  constructor(maxBytes: number) {
    super(`more than ${maxBytes} bytes`)
    this.name = 'TooLarge'
  }
}

const KEY = /^[\w-][\w.-]*(\/[\w-][\w.-]*)*$/

export const isKey = (key: string): boolean => KEY.test(key)

/** @throws when `key` is none */
export function assertKey(key: string): void {
  if (!isKey(key)) throw new Error(`not an object's key: ${key}`)
}

/** Counts and hashes content as it passes. */
export function measured(content: AsyncIterable<Uint8Array>, maxBytes: number, signal: AbortSignal): { chunks: AsyncGenerator<Uint8Array>; stored(): Stored } {
  const hash = createHash('sha256')
  let bytes = 0
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for await (const chunk of content) {
      signal.throwIfAborted()
      bytes += chunk.length
      if (bytes > maxBytes) throw new TooLarge(maxBytes)
      hash.update(chunk)
      yield chunk
    }
    signal.throwIfAborted()
  }
  return { chunks: chunks(), stored: () => ({ bytes, sha256: hash.digest('hex') }) }
}
