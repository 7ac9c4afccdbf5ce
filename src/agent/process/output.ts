// What a program printed last, for any number of readers, each at its own pace. The program never waits for a reader.
import { Bell } from '../../base/bell.ts'
import type { OutputEvent, Stream } from './contract.ts'

/** Bytes kept of one program; what is older goes. */
export const KEPT_BYTES = 4 * 1024 * 1024

/** Bytes kept of all programs of a session together; whoever holds most gives way. */
export const KEPT_IN_ALL_BYTES = 64 * 1024 * 1024

/** What a piece costs beside its bytes. Counted, or a program that prints byte by byte would take a hundred times what it prints. */
const PIECE_COST = 256

/** Pieces smaller than this are put together. */
const JOINED_BYTES = 8 * 1024

interface Piece {
  /** Bytes printed before it, of both streams. */
  at: number
  stream: Stream
  data: Buffer
}

/** The memory that outputs share. */
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

  /** Lets go of an output and all that it keeps. */
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

/** What one program printed, as far as it is kept. */
export class Output {
  readonly #onGrown: (bytes: number) => void
  readonly #bell = new Bell()
  readonly #dropped: Record<Stream, number> = { stdout: 0, stderr: 0 }
  #pieces: Piece[] = []
  #end = 0
  #exitCode: number | undefined
  /** Memory of the piece that went last, for the next one of its size: or much output would be as much garbage. */
  #spare: Buffer | undefined
  /** What is kept, with what it costs to keep it. */
  bytes = 0

  constructor(onGrown: (bytes: number) => void) {
    this.#onGrown = onGrown
  }

  /** After the end nothing is added: others that hold the program's output may still print. */
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
    this.#bell.ring()
  }

  /** No more will come. */
  end(exitCode: number): void {
    this.#exitCode = exitCode
    this.#bell.ring()
  }

  /** Drops the oldest pieces, until `bytes` have been freed. */
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

  /** All from the first byte that is kept to the exit. A reader who is too late for some of it is told how much that was, by stream. */
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
      } else if (this.#exitCode === undefined) await this.#bell.heard(signal)
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

  /** The piece with byte `at`, which is kept. */
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
