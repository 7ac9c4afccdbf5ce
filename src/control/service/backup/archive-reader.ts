// Reads a backup and checks it: reading fails before the end if the content differs from what was written.
import { createHash, type Hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { BadArchive } from '../../../base/archive/contents.ts'
import { readTar } from '../../../base/archive/tar.ts'
import { CHECKSUMS, FORMAT, HEAD, Head, MANIFEST, MAX_HEAD_BYTES, MAX_MANIFEST_BYTES, MAX_PIECE_BYTES, readManifest, sha256, type Manifest } from './format.ts'

export interface Entry {
  name: string
  bytes: number
  /** Content that the caller does not read is still read and checked. */
  content: AsyncIterable<Buffer>
}

export class BadBackup extends Error {}

/**
 * The entries of a backup, without its lists, head and manifest. Each list of checksums is compared when it comes, so an entry is verified only when later ones
 * follow. At the end the manifest is compared with all lists, and passed to `onEnd`. @throws BadBackup
 */
export async function* readArchive(file: string, signal: AbortSignal, onEnd: (manifest: Manifest) => void = () => {}): AsyncGenerator<Entry> {
  const sums = new Map<string, string>()
  const lists: Manifest['checksums'] = []
  let head: Head | undefined
  let manifest: Manifest | undefined
  let entries = 0
  const bad = (what: string): BadBackup => new BadBackup(`${file} cannot be restored: ${what}`)
  const inWords = (error: unknown): never => {
    if (error instanceof BadArchive) throw bad(head ? `it is damaged, or was not completed (it ${error.message})` : 'it is not a backup of Cob')
    throw error
  }
  try {
    for await (const { name, kind, bytes, content } of readTar(createReadStream(file), signal)) {
      if (manifest) throw bad('something follows its manifest')
      if (kind !== 'file') throw bad(`"${name}" in it is not a file`)
      if (head === undefined) {
        if (name !== HEAD) throw bad('it is not a backup of Cob')
        const text = await whole(content, bytes, MAX_HEAD_BYTES)
        head = headOf(text, bad)
        sums.set(name, sha256(text))
      } else if (name === MANIFEST) {
        manifest = manifestOf(await whole(content, bytes, MAX_MANIFEST_BYTES), bad)
      } else if (name.startsWith(CHECKSUMS)) {
        const text = await whole(content, bytes, MAX_PIECE_BYTES)
        compare(text.toString(), sums, bad)
        sums.clear()
        lists.push({ name, sha256: sha256(text) })
      } else {
        const hash = createHash('sha256')
        const counted = hashed(content, hash, inWords)
        yield { name, bytes, content: counted }
        for await (const _ of counted); // the rest, if its reader left some
        if (sums.has(name)) throw bad(`it has "${name}" twice`)
        sums.set(name, hash.digest('hex'))
      }
      if (!manifest) entries++
    }
  } catch (error) {
    inWords(error)
  }
  if (!head) throw bad('it is not a backup of Cob')
  if (!manifest) throw bad('it ends too early: the backup was not completed')
  if (sums.size > 0 || manifest.entries !== entries || JSON.stringify(manifest.checksums) !== JSON.stringify(lists) || manifest.id !== head.id)
    throw bad('its manifest does not fit what is in it')
  onEnd(manifest)
}

/** Reads and checks the whole file. @throws BadBackup */
export async function checkArchive(file: string, tell: (bytes: number) => void, signal: AbortSignal): Promise<Manifest> {
  let manifest: Manifest | undefined
  let bytes = 0
  for await (const { content } of readArchive(file, signal, (found) => (manifest = found))) for await (const chunk of content) tell((bytes += chunk.length))
  return manifest!
}

/** The content of a small entry. @throws BadBackup when it is large */
export async function whole(content: AsyncIterable<Buffer>, bytes: number, most = MAX_PIECE_BYTES): Promise<Buffer> {
  if (bytes > most) throw new BadBackup(`an entry of the backup has ${bytes} bytes, more than ${most}`)
  const parts: Buffer[] = []
  for await (const chunk of content) parts.push(chunk)
  return Buffer.concat(parts)
}

/** The content, which continues where it stopped when it is iterated again. */
function hashed(content: AsyncIterable<Buffer>, hash: Hash, inWords: (error: unknown) => never): AsyncIterable<Buffer> {
  const chunks = content[Symbol.asyncIterator]()
  return {
    [Symbol.asyncIterator]: () => ({
      async next() {
        const next = await chunks.next().catch(inWords)
        if (!next.done) hash.update(next.value)
        return next
      },
    }),
  }
}

function headOf(text: Buffer, bad: (what: string) => Error): Head {
  let head: Head
  try {
    head = Head.parse(JSON.parse(text.toString()))
  } catch {
    throw bad('it is not a backup of Cob')
  }
  if (head.format > FORMAT) throw bad(`it was made by a newer version of Cob (${head.version}); use the command of that version`)
  return head
}

function manifestOf(text: Buffer, bad: (what: string) => Error): Manifest {
  try {
    return readManifest(text.toString())
  } catch (error) {
    throw bad((error as Error).message)
  }
}

function compare(list: string, sums: ReadonlyMap<string, string>, bad: (what: string) => Error): void {
  const lines = list.split('\n').slice(0, -1)
  if (lines.length !== sums.size) throw bad('a list of checksums does not fit what is in it')
  for (const line of lines) {
    const [sum, name] = [line.slice(0, 64), line.slice(66)]
    if (!sums.has(name)) throw bad(`"${name}" is missing in it`)
    if (sums.get(name) !== sum) throw bad(`"${name}" in it is damaged`)
  }
}
