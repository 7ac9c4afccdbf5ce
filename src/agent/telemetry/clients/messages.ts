// Reads the messages of a client of a WebSocket as its bytes pass. It may begin in the middle of a connection. What it keeps is bounded, and what it
// cannot read is not read: the bytes are of strangers, and pass whatever they are.
import { Gathered } from '../../../base/gathered.ts'

/** Bytes of the beginning of a message that are looked at, to see whether the whole of it is wanted. */
export const LOOKED_AT = 512
/** Longer messages are not kept. */
export const MAX_MESSAGE = 1024 * 1024

const FIN = 0x80
const RESERVED = 0x70
const MASKED = 0x80
const TEXT = 1
const CLOSE = 8
/** Continuation, text, binary; close, ping, pong. */
const OPCODES = new Set([0, 1, 2, 8, 9, 10])

export interface Reader {
  /** Whether a text message that begins like this is wanted. `isWhole`: there is no more of it. */
  wants(beginning: Buffer, isWhole: boolean): boolean
  /** A wanted message. */
  got(text: Buffer): void
  /** A message that could not be read, or was too long; or bytes that belong to no message that is known. */
  lost(): void
  /** A message has passed, read or not. */
  passed(): void
  /** A close frame has passed. */
  closes(): void
}

export class Messages {
  readonly #reader: Reader
  /** Whether the next byte is known to be at its place in a frame. */
  #isInStep: boolean
  /** Of a header that is not complete. */
  readonly #partial = new Uint8Array(14)
  #headerLength = 0
  #left = 0
  readonly #mask = new Uint8Array(4)
  /** The position of the next byte in its frame. */
  #at = 0
  #isData = false
  #isLast = false
  /** Of the message: whether its beginning was seen and can be read. */
  #isText = false
  #isWanted: boolean | undefined
  readonly #beginning = Buffer.alloc(LOOKED_AT)
  #beginningLength = 0
  #body = new Gathered()

  /** `fromStart`: no byte has passed yet. */
  constructor(fromStart: boolean, reader: Reader) {
    this.#isInStep = fromStart
    this.#reader = reader
  }

  push(chunk: Uint8Array): void {
    if (!this.#isInStep) {
      // Frames mostly begin a chunk: a client sends one message, and waits for its answer.
      this.#isInStep = this.#looksLikeFrame(chunk)
      if (!this.#isInStep) return this.#reader.lost()
    }
    for (let at = 0; at < chunk.length;) {
      if (this.#left === 0) {
        const size = this.#begin(chunk, at)
        if (size < 0) return this.#outOfStep()
        at += size
        if (this.#headerLength > 0) continue
      }
      const step = Math.min(this.#left, chunk.length - at)
      if (step > 0) this.#take(chunk, at, at + step)
      this.#left -= step
      at += step
      if (this.#left === 0) this.#over()
    }
  }

  /** Whether a message of JSON begins here: by accident that is so once in millions. */
  #looksLikeFrame(chunk: Uint8Array): boolean {
    const short = (chunk[1] ?? 0) & 0x7f
    const mask = 2 + (short === 126 ? 2 : short === 127 ? 8 : 0)
    if (chunk.length < mask + 6 || (chunk[0]! & ~FIN) !== TEXT || chunk[1]! < MASKED) return false
    if (short === 126 && chunk[2]! === 0 && chunk[3]! < 126) return false
    const [first, second] = [chunk[mask + 4]! ^ chunk[mask]!, chunk[mask + 5]! ^ chunk[mask + 1]!]
    return first === 0x7b && (second === 0x22 || second === 0x20 || second === 0x0a)
  }

  /** Takes bytes of a header; how many, or -1 for what cannot be one. While the header is not complete, `#headerLength` is not 0. */
  #begin(chunk: Uint8Array, at: number): number {
    if (this.#headerLength === 0) {
      // Most headers lie in one chunk.
      const size = this.#header(chunk, at, chunk.length - at)
      if (size !== 0) return size
    }
    this.#partial[this.#headerLength++] = chunk[at]!
    const size = this.#header(this.#partial, 0, this.#headerLength)
    if (size !== 0) this.#headerLength = 0
    return size < 0 ? size : 1
  }

  /** Reads a header; its length, 0 when it is not complete, -1 when there cannot be one. */
  #header(bytes: Uint8Array, at: number, length: number): number {
    const first = bytes[at]!
    const opcode = first & 0x0f
    // The reserved bit of compression is a matter of the message. Others belong to extensions that nobody has agreed on.
    if (!OPCODES.has(opcode) || (first & (RESERVED ^ 0x40)) !== 0) return -1
    if (length < 2) return 0
    const second = bytes[at + 1]!
    if (second < MASKED) return -1
    const short = second & 0x7f
    const begin = 2 + (short === 126 ? 2 : short === 127 ? 8 : 0)
    const size = begin + 4
    if (length < size) return 0
    let payload = short < 126 ? short : 0
    for (let index = 2; index < begin; index++) payload = payload * 256 + bytes[at + index]!
    if (!Number.isSafeInteger(payload)) return -1
    this.#left = payload
    for (let index = begin; index < size; index++) this.#mask[index - begin] = bytes[at + index]!
    this.#at = 0
    this.#isData = opcode < CLOSE
    if (opcode === CLOSE) this.#reader.closes()
    if (!this.#isData) return size
    this.#isLast = first >= FIN
    if (opcode === 0) return size
    this.#isText = opcode === TEXT && (first & RESERVED) === 0
    this.#isWanted = undefined
    this.#beginningLength = 0
    return size
  }

  #outOfStep(): void {
    this.#isInStep = false
    this.#headerLength = this.#left = 0
    this.#isText = false
    this.#body.clear()
    this.#reader.lost()
  }

  #take(chunk: Uint8Array, from: number, to: number): void {
    if (this.#isData && this.#isText && this.#isWanted !== false) {
      const looked = Math.min(from + LOOKED_AT - this.#beginningLength, to)
      if (this.#beginningLength < LOOKED_AT) {
        this.#unmask(chunk, from, looked, this.#at, this.#beginning, this.#beginningLength)
        this.#beginningLength += looked - from
        if (this.#beginningLength === LOOKED_AT) this.#decide(false)
      }
      if (this.#isWanted && looked < to) {
        const plain = Buffer.allocUnsafe(to - looked)
        this.#unmask(chunk, looked, to, this.#at + looked - from, plain, 0)
        this.#add(plain)
      }
    }
    this.#at += to - from
  }

  #decide(isWhole: boolean): void {
    const beginning = this.#beginning.subarray(0, this.#beginningLength)
    this.#isWanted = this.#reader.wants(beginning, isWhole)
    if (this.#isWanted) this.#body.add(beginning)
  }

  #add(piece: Buffer): void {
    if (this.#body.length + piece.length <= MAX_MESSAGE) return this.#body.add(piece)
    this.#isWanted = false
    this.#body.clear()
    this.#reader.lost()
  }

  /** `at`: the position of the first byte in its frame. */
  #unmask(chunk: Uint8Array, from: number, to: number, at: number, into: Uint8Array, begin: number): void {
    const mask = this.#mask
    for (let index = from; index < to; index++) into[begin + index - from] = chunk[index]! ^ mask[(at + index - from) & 3]!
  }

  /** The end of a frame. */
  #over(): void {
    if (!this.#isData || !this.#isLast) return
    if (this.#isText && this.#isWanted === undefined) this.#decide(true)
    if (!this.#isText) this.#reader.lost()
    else if (this.#isWanted) this.#reader.got(this.#body.bytes)
    this.#isText = false
    if (this.#body.length > 0) this.#body.clear()
    this.#reader.passed()
  }
}
