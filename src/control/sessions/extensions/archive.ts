// Reads the archive of an extension from the object store in pieces, so that its list and its manifest can be checked without the rest.
import { buffer } from 'node:stream/consumers'
import { checkExtension, type ExtensionZip } from '../../../base/extension-zip.ts'
import { BadArchive } from '../../../base/archive/contents.ts'
import type { ZipSource } from '../../../base/archive/zip.ts'
import { fault } from '../../../http/fault.ts'
import type { Objects } from '../../../store/objects.ts'

/** Size of one read from an object, in bytes. The list of most extensions fits into one piece. */
const PIECE = 256 * 1024

/** Limit on checking one archive: some 40 pieces for the longest list, from a slow bucket. */
const LOOK_MS = 60_000

/** Checks a stored archive. @throws 400 that names `file` */
export async function checkArchive(objects: Objects, key: string, size: number, signal: AbortSignal): Promise<ExtensionZip> {
  const late = AbortSignal.any([signal, AbortSignal.timeout(LOOK_MS)])
  try {
    return await checkExtension(inPieces(objects, key, size, late), late)
  } catch (error) {
    if (error instanceof BadArchive) throw fault.field('file', error.message)
    throw late.aborted && !signal.aborted ? fault.unavailable(`the object store has not given the archive back within ${LOOK_MS} ms`, error) : error
  }
}

/** An object as a source for a zip reader, which reads the end, then the list in order, and one file. */
function inPieces(objects: Objects, key: string, size: number, signal: AbortSignal): ZipSource {
  let start = 0
  let piece: Buffer = Buffer.alloc(0)
  return {
    size,
    async read(target, offset, length, position) {
      const wanted = Math.min(length, size - position)
      if (wanted <= 0) return 0
      if (position < start || position + wanted > start + piece.length) {
        const end = Math.min(size, position + Math.max(wanted, PIECE)) - 1
        const found = await objects.get(key, { start: position, end }, signal)
        if (!found) throw new Error(`the object ${key} is gone`)
        piece = await buffer(found.content)
        start = position
      }
      return piece.copy(target, offset, position - start, position - start + wanted)
    },
  }
}
