// Zip archives as files that are read: what both who unpack one need. What they refuse and where they write is their own.
import { read } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { RandomAccessReader } from 'yauzl'

/** What one zip may become. The directories that names imply count as entries, too. */
export interface ZipLimits {
  entries: number
  /** Bytes of all files together. */
  bytes: number
  /** Unpacked bytes for each byte of the archive... */
  ratio: number
  /** ...once there are more than this. Text packs 10 : 1, deflate's utmost is 1032 : 1. */
  ratioFromBytes: number
}

/** Reads an archive's list of entries. Their content is read without yauzl's streams: those end the process when several are broken off. */
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
