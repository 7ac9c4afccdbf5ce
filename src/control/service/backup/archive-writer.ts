// Writes a backup: entries of a tar file as they come, with lists of their checksums between them.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { Readable, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { pack as makePack } from 'tar-stream'
import { abortable, resultWithin, within } from '../../../base/wait.ts'
import { CHECKSUMS, MANIFEST, manifestText, sha256, type Manifest } from './format.ts'

/** Entries that one list of checksums names. A reader keeps those of one list in memory. */
const LISTED = 1_000
/** A reader that takes nothing for so long is given up: a pipe to a program that hangs. */
const STALL_MS = 600_000
/** Time for an output that has failed to say why. */
const BLAME_MS = 200
/** Owner of a file: it holds what the service knows. */
const MODE = 0o600

export interface ArchiveWriter {
  /** Adds an entry whose content has exactly `bytes` bytes. @throws when it has more or fewer, and what the content or the output throws */
  add(name: string, bytes: number, content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<void>
  /** Adds the manifest, and resolves when the output has taken everything. */
  complete(manifest: Omit<Manifest, 'checksums' | 'entries'>): Promise<Manifest>
}

/** Writes to `output`, which is ended by {@link ArchiveWriter.complete} and destroyed when something fails or `signal` aborts. */
export function archiveWriter(output: Writable, signal: AbortSignal): ArchiveWriter {
  const pack = makePack()
  const broken = new AbortController()
  const ended = AbortSignal.any([signal, broken.signal])
  const written = pipeline(Readable.from(pack, { objectMode: false }), output, { signal })
  written.catch((error: unknown) => broken.abort(error))
  const made = new Date()
  const lists: Manifest['checksums'] = []
  let lines: string[] = []
  let entries = 0

  async function put(name: string, bytes: number, content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<string> {
    const hash = createHash('sha256')
    const done = Promise.withResolvers<void>()
    done.promise.catch(() => {})
    const entry = pack.entry({ name, size: bytes, mode: MODE, mtime: made }, (error) => (error ? done.reject(error) : done.resolve()))
    entry.on('error', () => {}) // the waits get it
    let left = bytes
    for await (const chunk of content) {
      ended.throwIfAborted()
      left -= chunk.length
      if (left < 0) break
      hash.update(chunk)
      if (!entry.write(chunk)) await within('the output of the backup', STALL_MS, once(entry, 'drain', { signal: ended }))
    }
    if (left !== 0) throw new Error(`${name} has not ${bytes} bytes any more`)
    entry.end(null)
    await within('the output of the backup', STALL_MS, done.promise, ended)
    entries++
    return hash.digest('hex')
  }

  /** What the output says, if it is to blame: the entry only knows that it is closed. */
  async function inWords(error: unknown): Promise<unknown> {
    signal.throwIfAborted()
    const cause = await resultWithin(
      BLAME_MS,
      written.then(
        () => undefined,
        (reason: Error) => reason,
      ),
    )
    pack.destroy(error as Error)
    return cause ? new Error(`the backup could not be written: ${cause.message}`, { cause }) : error
  }

  async function flush(): Promise<void> {
    if (lines.length === 0) return
    const name = `${CHECKSUMS}${String(lists.length + 1).padStart(6, '0')}`
    const text = Buffer.from(lines.join(''))
    lines = []
    await put(name, text.length, [text])
    lists.push({ name, sha256: sha256(text) })
  }

  return {
    async add(name, bytes, content) {
      try {
        lines.push(`${await put(name, bytes, content)}  ${name}\n`)
        if (lines.length >= LISTED) await flush()
      } catch (error) {
        throw await inWords(error)
      }
    },
    async complete(rest) {
      await flush().catch(async (error: unknown) => {
        throw await inWords(error)
      })
      const manifest = { ...rest, checksums: lists, entries }
      const text = Buffer.from(manifestText(manifest))
      await put(MANIFEST, text.length, [text])
      pack.finalize()
      await abortable(written, signal)
      return manifest
    },
  }
}
