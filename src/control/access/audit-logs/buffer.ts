// The buffer of the audit log: files in the data directory that get each entry at once, until the table has it.
import { closeSync, createReadStream, mkdirSync, openSync, readdirSync, writeSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { LineSplitter } from '../../../base/lines.ts'
import type { Log } from '../../../base/log.ts'
import { ownFolder, removeEmpty, type OwnFolder } from '../../../base/own-folder.ts'

/** A segment that has so many bytes is followed by the next one. */
const SEGMENT_BYTES = 4 * 1024 * 1024
/** Most bytes of this replica's own segments, while the database does not take entries: more than 20,000 of the longest entries, some 100,000 usual ones. */
export const MAX_BYTES = 64 * 1024 * 1024
/** Most of them in memory, while the disk does not take them either. */
const MAX_MEMORY_BYTES = 8 * 1024 * 1024
/** A longer line is not one of ours. An entry has a path, a client's name and a host of 1024, 512 and 255 characters at most. */
const MAX_LINE_BYTES = 16 * 1024
/** A disk that fails again within this time has not been good in between: that is logged once. */
const QUIET_MS = 60_000

/** Lines in the order in which they were appended: in a file, or in memory while the disk takes none. A file does not change any more when it is in the queue. */
export interface Segment {
  /** Where it is. Undefined: in memory. */
  file: string | undefined
  lines: string[]
  bytes: number
}

/** Where a line has gone. Undefined: nowhere, and it has been counted as lost. */
export type Kept = 'disk' | 'memory' | undefined

const newSegment = (file?: string): Segment => ({ file, lines: [], bytes: 0 })

const FILE = /^\d+\.jsonl$/

/**
 * The buffer of one replica. Lines are written into the file before {@link append} returns, but not synced: they outlive this process, and are lost only when the machine dies
 * before its kernel has written them. Other replicas on the same data directory have files of their own; {@link takeOver} adds those of dead ones to the queue.
 */
export class AuditBuffer implements AsyncDisposable {
  readonly #folder: OwnFolder
  readonly #log: Log
  /** Oldest first. */
  readonly #queue: Segment[] = []
  #current: Segment | undefined
  #fd: number | undefined
  /** How many files have been made. */
  #made = 0
  /** Of our own segments, and how many of those are in memory. */
  #bytes = 0
  #memoryBytes = 0
  #failedAt = -Infinity
  /** Whether the last look for what others have left failed. */
  #isBlind = false
  #isClosed = false
  #lost = 0

  private constructor(folder: OwnFolder, log: Log) {
    this.#folder = folder
    this.#log = log
  }

  /** Makes the files of `replica` below `dir`, which exists. @throws when its socket cannot be made */
  static async open(dir: string, replica: string, log: Log): Promise<AuditBuffer> {
    return new AuditBuffer(await ownFolder(dir, replica), log)
  }

  /** Appends a line. `isRest`: it completes a line that has been kept, so it is kept beyond the limit. Never throws. */
  append(line: string, isRest = false): Kept {
    const text = `${line}\n`
    const bytes = Buffer.byteLength(text)
    if (this.#isClosed || (!isRest && this.#bytes + bytes > MAX_BYTES)) return this.#lose()
    const segment = (this.#current ??= this.#next())
    if (segment.file !== undefined && this.#wrote(text, bytes)) {
      this.#count(segment, bytes)
      if (segment.bytes >= SEGMENT_BYTES) this.seal()
      return 'disk'
    }
    // Nothing may follow what the file may have of this line. The next lines are kept in memory, until the next seal.
    if (segment.file !== undefined) this.seal()
    if (!isRest && this.#memoryBytes + bytes > MAX_MEMORY_BYTES) return this.#lose()
    const inMemory = (this.#current ??= newSegment())
    inMemory.lines.push(line)
    this.#count(inMemory, bytes)
    return 'memory'
  }

  /** Puts what has been appended until now into the queue. */
  seal(): void {
    try {
      if (this.#fd !== undefined) closeSync(this.#fd)
    } catch (err) {
      this.#failed(err)
    }
    if (this.#current) this.#queue.push(this.#current)
    this.#current = this.#fd = undefined
  }

  /** The first of the queue. */
  get oldest(): Segment | undefined {
    return this.#queue[0]
  }

  get isEmpty(): boolean {
    return this.#queue.length === 0 && this.#current === undefined
  }

  /** The lines of a segment of the queue; undefined for one that is too long. @throws when its file cannot be read */
  async *lines({ file, lines }: Segment): AsyncGenerator<string | undefined> {
    if (file === undefined) return yield* lines
    const splitter = new LineSplitter(MAX_LINE_BYTES)
    const text = ({ bytes, dropped }: { bytes: Buffer; dropped: number }) => (dropped > 0 ? undefined : bytes.toString())
    for await (const chunk of createReadStream(file)) for (const line of splitter.add(chunk as Buffer)) yield text(line)
    const rest = splitter.rest()
    if (rest) yield text(rest)
  }

  /** Takes the first segment out of the queue, and removes its file unless that is to be `kept` for the next start. */
  async done({ keep }: { keep: boolean }): Promise<void> {
    const segment = this.#queue.shift()!
    this.#count(segment, -segment.bytes)
    const { file } = segment
    if (file === undefined || keep) return
    try {
      await rm(file, { force: true })
      if (dirname(file) !== this.#folder.path) removeEmpty(dirname(file))
    } catch (err) {
      this.#log.error({ err, file }, 'a file of the audit log could not be removed; the next start stores its entries once more, which changes nothing')
    }
  }

  /** Adds what dead replicas have left to the queue. Problems are logged. */
  async takeOver(): Promise<void> {
    try {
      for (const folder of await this.#folder.takeOver()) {
        const files = readdirSync(folder).filter((name) => FILE.test(name))
        this.#queue.push(...files.sort().map((name) => newSegment(join(folder, name))))
        if (files.length > 0) this.#log.info({ folder, files: files.length }, 'entries of the audit log have been left by a service that is dead')
        else removeEmpty(folder)
      }
      this.#isBlind = false
    } catch (err) {
      if (!this.#isBlind) this.#log.error({ err }, 'entries of the audit log that other services have left cannot be taken over')
      this.#isBlind = true
    }
  }

  /** How many lines have been lost since the last call. */
  takeLost(): number {
    const lost = this.#lost
    this.#lost = 0
    return lost
  }

  /** Takes no more lines. What is in files stays there for the next start; what is in memory is lost. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.seal()
    this.#isClosed = true
    const inFiles = this.#queue.filter(({ file }) => file !== undefined)
    if (inFiles.length > 0) this.#log.warn({ files: inFiles.length }, 'entries of the audit log stay in its buffer until the next start')
    const entries = this.#queue.reduce((sum, { lines }) => sum + lines.length, 0)
    if (entries > 0) this.#log.error({ entries }, 'entries of the audit log are lost: neither the disk nor the database took them')
    await this.#folder[Symbol.asyncDispose]()
  }

  #lose(): undefined {
    if (++this.#lost === 1) this.#log.error({}, 'the audit log loses entries: its buffer is full, or closed')
  }

  #count(segment: Segment, bytes: number): void {
    segment.bytes += bytes
    this.#bytes += bytes
    if (segment.file === undefined) this.#memoryBytes += bytes
  }

  /** A new file; without one, a segment in memory. */
  #next(): Segment {
    const file = join(this.#folder.path, `${String(++this.#made).padStart(8, '0')}.jsonl`)
    try {
      mkdirSync(this.#folder.path, { recursive: true, mode: 0o700 })
      this.#fd = openSync(file, 'ax', 0o600)
      return newSegment(file)
    } catch (err) {
      this.#failed(err)
      return newSegment()
    }
  }

  /** Writes into the present file. A part of a line may be in it after that has failed. */
  #wrote(text: string, bytes: number): boolean {
    try {
      if (writeSync(this.#fd!, text) === bytes) return true
      this.#failed(new Error('only a part of a line was written'))
    } catch (err) {
      this.#failed(err)
    }
    return false
  }

  #failed(err: unknown): void {
    const now = performance.now()
    if (now - this.#failedAt > QUIET_MS)
      this.#log.error({ err }, 'the buffer of the audit log cannot be written; entries go to the database directly, and answers wait for that')
    this.#failedAt = now
  }
}
