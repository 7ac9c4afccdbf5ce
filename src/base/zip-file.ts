// Reads zip archives from files, for the two modules that unpack them. Each of them has its own rules for what to refuse and where to write.
import { read } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { RandomAccessReader } from 'yauzl'

/** Limits on the content of one zip. Directories that are implied by names count as entries. */
export interface ZipLimits {
  entries: number
  /** Bytes of all files together. */
  bytes: number
  /** Limit on unpacked bytes per byte of the archive... */
  ratio: number
  /** ...which applies above this size. Text packs 10 : 1; deflate's maximum is 1032 : 1. */
  ratioFromBytes: number
}

/** Reads an archive's list of entries. Contents are read without yauzl's streams: those end the process when several are aborted. */
export class ZipReader extends RandomAccessReader {
  readonly #handle: FileHandle

  constructor(handle: FileHandle) {
    super()
    this.#handle = handle
  }

  override read(buffer: Buffer, offset: number, length: number, position: number, done: (error: Error | null, bytesRead?: number) => void): void {
    read(this.#handle.fd, buffer, offset, length, position, done)
  }
}
