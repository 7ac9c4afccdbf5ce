// Writes a backup: entries of a tar file in the order of the calls, with lists of their checksums between them.
import { createHash } from 'node:crypto'
import type { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { TarWriter } from '../../../base/archive/tar.ts'
import { abortable, resultWithin } from '../../../base/wait.ts'
import { CHECKSUMS, MANIFEST, manifestText, sha256, type Manifest } from './format.ts'

/** Entries in one list of checksums. A reader keeps those of one list in memory. */
const LISTED = 1_000
/** Time for a failed output to report its error. */
const BLAME_MS = 200

export interface ArchiveWriter {
  /** Adds an entry whose content has exactly `bytes` bytes. @throws when it has more or fewer; errors of the content or the output */
  add(name: string, bytes: number, content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<void>
  /** Adds the manifest, and resolves when the output has accepted everything. */
  complete(manifest: Omit<Manifest, 'checksums' | 'entries'>): Promise<Manifest>
}

/** Writes to `output`. {@link ArchiveWriter.complete} ends it; an error or an abort of `signal` destroys it. */
export function archiveWriter(output: Writable, signal: AbortSignal): ArchiveWriter {
  const broken = new AbortController()
  const ended = AbortSignal.any([signal, broken.signal])
  const tar = new TarWriter(ended)
  const written = pipeline(tar.archive, output, { signal })
  written.catch((error: unknown) => broken.abort(error))
  const made = new Date()
  const lists: Manifest['checksums'] = []
  let lines: string[] = []
  let entries = 0

  async function put(name: string, bytes: number, content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<string> {
    const hash = createHash('sha256')
    async function* hashed(): AsyncGenerator<Uint8Array> {
      for await (const chunk of content) {
        hash.update(chunk)
        yield chunk
      }
    }
    await tar.add(name, bytes, hashed(), made)
    entries++
    return hash.digest('hex')
  }

  /** Prefers the error of the output, if it has one: the entry's error only says that the output is closed. */
  async function inWords(error: unknown): Promise<unknown> {
    signal.throwIfAborted()
    const cause = await resultWithin(
      BLAME_MS,
      written.then(
        () => undefined,
        (reason: Error) => reason,
      ),
    )
    tar.destroy(error as Error)
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
      tar.end()
      await abortable(written, signal)
      return manifest
    },
  }
}
