// Keeps the last output of a program for any number of readers, each at its own pace. The program never waits for a reader.
import { Notifier } from '../../base/notifier.ts'
import type { OutputEvent, Stream } from './contract.ts'

/** Bytes kept of one program; older output is dropped. */
export const KEPT_BYTES = 4 * 1024 * 1024

/** Bytes stored of all programs of a session together; above it, the program with the most stored output loses its oldest part. */
export const KEPT_IN_ALL_BYTES = 64 * 1024 * 1024

/** The cost of a piece in addition to its bytes; otherwise a program that prints byte by byte would take a hundred times the memory of its output. */
const PIECE_COST = 256

/** Smaller pieces are joined. */
const JOINED_BYTES = 8 * 1024

interface Piece {
  /** Bytes of both streams before this piece. */
  at: number
  stream: Stream
  data: Buffer
}

/** The memory limit that all outputs share. */
export class OutputMemory {
  readonly #outputs = new Set<Output>()
  readonly #limit: number
  readonly #limitEach: number

  constructor(limit = KEPT_IN_ALL_BYTES, limitEach = KEPT_BYTES) {
    this.#limit = limit
    this.#limitEach = limitEach
  }

  open(): Output {
    const output = new Output((size) => this.#fit(output, size))
    this.#outputs.add(output)
    return output
  }

  /** Frees an output and all that it keeps. */
  close(output: Output): void {
    this.#outputs.delete(output)
  }

  get bytes(): number {
    let sum = 0
    for (const { bytes } of this.#outputs) sum += bytes
    return sum
  }

  #fit(grown: Output, size: number): void {
    if (size > this.#limitEach) grown.forget(size - this.#limitEach)
    for (let over = this.bytes - this.#limit; over > 0; over = this.bytes - this.#limit)
      [...this.#outputs].reduce((most, output) => (output.bytes > most.bytes ? output : most)).forget(over)
  }
}

/** The kept output of one program. */
export class Output {
  readonly #onGrown: (bytes: number) => void
  readonly #notifier = new Notifier()
  readonly #dropped: Record<Stream, number> = { stdout: 0, stderr: 0 }
  #pieces: Piece[] = []
  #end = 0
  #exitCode: number | undefined
  /** The buffer of the last dropped piece, reused for the next one: otherwise much output would cause as much garbage. */
  #spare: Buffer | undefined
  /** The memory that it uses, with overhead. */
  bytes = 0

  constructor(onGrown: (bytes: number) => void) {
    this.#onGrown = onGrown
  }

  /** After the end nothing is added: child processes that hold the program's output may still print. */
  add(stream: Stream, data: Buffer): void {
    if (data.length === 0 || this.#exitCode !== undefined) return
    const last = this.#pieces.at(-1)
    if (last?.stream === stream && last.data.length + data.length <= JOINED_BYTES) {
      last.data = Buffer.concat([last.data, data])
      this.bytes += data.length
    } else {
      this.#pieces.push({ at: this.#end, stream, data: this.#copy(data) })
      this.bytes += data.length + PIECE_COST
    }
    this.#end += data.length
    this.#onGrown(this.bytes)
    this.#notifier.notify()
  }

  /** No more will come. */
  end(exitCode: number): void {
    this.#exitCode = exitCode
    this.#notifier.notify()
  }

  /** Drops the oldest pieces until `bytes` have been freed. */
  forget(bytes: number): void {
    let freed = 0
    while (freed < bytes && this.#pieces.length > 0) {
      const { stream, data } = this.#pieces.shift()!
      this.#spare = data
      this.#dropped[stream] += data.length
      freed += data.length + PIECE_COST
    }
    this.bytes -= freed
  }

  /** Yields everything from the first kept byte to the exit. A reader that comes too late is told how many bytes it missed, by stream. */
  async *read(signal: AbortSignal): AsyncGenerator<OutputEvent> {
    const known: Record<Stream, number> = { stdout: 0, stderr: 0 }
    let at = 0
    for (;;) {
      const first = this.#pieces[0]?.at ?? this.#end
      if (at < first) {
        at = first
        const missed = { stdout: this.#dropped.stdout - known.stdout, stderr: this.#dropped.stderr - known.stderr }
        for (const stream of ['stdout', 'stderr'] as const) {
          known[stream] += missed[stream]
          if (missed[stream] > 0) yield { stream, data_b64: '', missed_bytes: missed[stream] }
        }
      } else if (at < this.#end) {
        const piece = this.#pieceAt(at)
        const data = piece.data.subarray(at - piece.at)
        at += data.length
        known[piece.stream] += data.length
        yield { stream: piece.stream, data_b64: data.toString('base64') }
      } else if (this.#exitCode === undefined) await this.#notifier.next(signal)
      else {
        yield { event: 'exit', exit_code: this.#exitCode }
        return
      }
    }
  }

  #copy(data: Buffer): Buffer {
    const memory = this.#spare?.length === data.length ? this.#spare : Buffer.allocUnsafeSlow(data.length)
    this.#spare = undefined
    data.copy(memory)
    return memory
  }

  /** The piece that contains byte `at`, which must be kept. */
  #pieceAt(at: number): Piece {
    let [low, high] = [0, this.#pieces.length - 1]
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (this.#pieces[middle]!.at <= at) low = middle
      else high = middle - 1
    }
    return this.#pieces[low]!
  }
}
