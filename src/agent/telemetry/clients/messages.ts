// Reads the messages of a WebSocket client as its bytes pass, while there is a reader. Its memory is bounded, and it skips what it cannot parse: the bytes come
// from strangers, and pass in any case.
import { Gathered } from '../../../base/gathered.ts'
import { FrameBoundary } from '../../../http/splice.ts'
import { LOOKED_AT, MAX_MESSAGE } from '../limits.ts'

const FIN = 0x80
const RESERVED = 0x70
const MASKED = 0x80
const [TEXT, CLOSE] = [1, 8]

export interface Reader {
  /** Whether a text message with this beginning is wanted. `isWhole`: it is the complete message. */
  wants(beginning: Buffer, isWhole: boolean): boolean
  /** A wanted message. */
  got(text: Buffer): void
  /** A message could not be read, was too long, or began before there was a reader. */
  lost(): void
  /** A message has passed completely, read or not. */
  passed(): void
  /** A close frame has passed. */
  closes(): void
}

export class Messages {
  #reader: Reader | undefined
  readonly #boundary = new FrameBoundary({
    begins: (header) => this.#begins(header),
    payload: (chunk, from, to) => this.#take(chunk, from, to),
    ends: () => this.#ends(),
  })
  #mask: readonly number[] = []
  /** The position of the next byte in its frame. */
  #at = 0
  #isData = false
  #isLast = false
  /** For the current message: whether its beginning was read, and whether it is a readable text. */
  #isRead = false
  #isText = false
  #isWanted: boolean | undefined
  readonly #beginning = Buffer.alloc(LOOKED_AT)
  #beginningLength = 0
  #body = new Gathered()

  /** Sets the reader, from the next message on. */
  set reader(reader: Reader | undefined) {
    this.#reader = reader
    this.#isRead = false
  }

  push(chunk: Uint8Array): void {
    this.#boundary.push(chunk)
  }

  #begins(header: readonly number[]): void {
    const first = header[0]!
    const opcode = first & 0x0f
    this.#mask = header[1]! >= MASKED ? header.slice(-4) : [0, 0, 0, 0]
    this.#at = 0
    this.#isData = opcode < CLOSE
    if (opcode === CLOSE) this.#reader?.closes()
    if (!this.#isData) return
    this.#isLast = first >= FIN
    if (opcode === 0) return
    this.#isRead = this.#reader !== undefined
    // Compressed messages are not read.
    this.#isText = opcode === TEXT && (first & RESERVED) === 0
    this.#isWanted = undefined
    this.#beginningLength = 0
    if (this.#body.length > 0) this.#body.clear()
  }

  #take(chunk: Uint8Array, from: number, to: number): void {
    if (this.#isData && this.#isText && this.#isRead && this.#isWanted !== false) {
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
    this.#isWanted = this.#reader!.wants(beginning, isWhole)
    if (this.#isWanted) this.#body.add(beginning)
  }

  #add(piece: Buffer): void {
    if (this.#body.length + piece.length <= MAX_MESSAGE) return this.#body.add(piece)
    this.#isWanted = false
    this.#body.clear()
    this.#reader!.lost()
  }

  /** `at`: the position of the first byte in its frame. */
  #unmask(chunk: Uint8Array, from: number, to: number, at: number, into: Uint8Array, begin: number): void {
    for (let index = from; index < to; index++) into[begin + index - from] = chunk[index]! ^ this.#mask[(at + index - from) & 3]!
  }

  #ends(): void {
    if (!this.#isData || !this.#isLast) return
    if (!this.#isRead) return this.#reader?.lost()
    if (this.#isText && this.#isWanted === undefined) this.#decide(true)
    if (!this.#isText) this.#reader!.lost()
    else if (this.#isWanted) this.#reader!.got(this.#body.bytes)
    if (this.#body.length > 0) this.#body.clear()
    this.#reader!.passed()
    this.#isRead = false
  }
}
