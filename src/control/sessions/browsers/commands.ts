// Finds commands of a CDP or BiDi connection that have no answer yet: a sleeping page would never answer them. Reads only the beginning and the end of each
// message as it passes. Ignores messages that it cannot parse.

/** Bytes that are read at the beginning and at the end of a message. An id is among the first members, or the last ones. */
const LOOKED_AT = 256
/** Commands of one connection that are remembered. A client that leaves more unanswered loses the oldest. */
const MAX_COMMANDS = 1024

const FIN = 0x80
const COMPRESSED = 0x40
const MASKED = 0x80
const TEXT = 1

/** Calls back with the beginning and the end of each text message in one direction of a WebSocket. */
export class MessageEnds {
  readonly #said: (head: string, tail: string) => void
  #header: number[] = []
  #left = 0
  #mask: readonly number[] | undefined
  /** The position of the next byte in its frame. */
  #at = 0
  #isLast = false
  #isText = false
  /** Whether the frame belongs to a message. Others are pings, pongs and closes, also in the middle of a message. */
  #isData = false
  #head = ''
  #tail = ''

  constructor(said: (head: string, tail: string) => void) {
    this.#said = said
  }

  push(chunk: Uint8Array): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#left === 0) {
        this.#header.push(chunk[at++]!)
        if (this.#begins() && this.#left === 0) this.#over()
        continue
      }
      const step = Math.min(this.#left, chunk.length - at)
      if (this.#isData && this.#isText) this.#look(chunk.subarray(at, at + step))
      this.#at += step
      this.#left -= step
      at += step
      if (this.#left === 0) this.#over()
    }
  }

  /** Whether the header is complete. */
  #begins(): boolean {
    const header = this.#header
    if (header.length < 2) return false
    const short = header[1]! & 0x7f
    const lengthBytes = short === 126 ? 2 : short === 127 ? 8 : 0
    const isMasked = (header[1]! & MASKED) !== 0
    if (header.length < 2 + lengthBytes + (isMasked ? 4 : 0)) return false
    const opcode = header[0]! & 0x0f
    this.#isData = opcode < 8
    if (this.#isData) {
      this.#isLast = (header[0]! & FIN) !== 0
      if (opcode !== 0) {
        this.#isText = opcode === TEXT && (header[0]! & COMPRESSED) === 0
        this.#head = this.#tail = ''
      }
    }
    this.#left = short < 126 ? short : header.slice(2, 2 + lengthBytes).reduce((sum, byte) => sum * 256 + byte, 0)
    this.#mask = isMasked ? header.slice(-4) : undefined
    this.#at = 0
    this.#header = []
    return true
  }

  #look(piece: Uint8Array): void {
    const room = LOOKED_AT - this.#head.length
    if (room > 0) this.#head += this.#plain(piece, 0, Math.min(room, piece.length))
    const end = this.#plain(piece, Math.max(0, piece.length - LOOKED_AT), piece.length)
    this.#tail = end.length === LOOKED_AT ? end : (this.#tail + end).slice(-LOOKED_AT)
  }

  /** One character for each byte: names and ids are ASCII. */
  #plain(piece: Uint8Array, from: number, to: number): string {
    const bytes = Buffer.from(piece.subarray(from, to))
    const mask = this.#mask
    if (mask) for (let i = 0; i < bytes.length; i++) bytes[i]! ^= mask[(this.#at + from + i) & 3]!
    return bytes.toString('latin1')
  }

  #over(): void {
    if (this.#isData && this.#isLast && this.#isText) this.#said(this.#head, this.#tail)
  }
}

/** A command, with its id at the beginning (as Playwright sends it) or at the end (as Puppeteer does). */
const ID_FIRST = /^\s*\{\s*"id"\s*:\s*(\d+)\b/
const ID_LAST = /"id"\s*:\s*(\d+)\s*(?:,\s*"sessionId"\s*:\s*"[^"]*"\s*)?\}\s*$/
const SESSION = /"sessionId"\s*:\s*"([^"]*)"/
/** An answer of CDP, or of BiDi. */
const ANSWER = /^\{(?:"type":"(?:success|error)",)?"id":(\d+)\b/
/** A CDP session has ended: its open commands get no answer any more. */
const DETACHED = /^\{"method":"Target\.detachedFromTarget","params":\{"sessionId":"([^"]*)"/

export class Commands {
  /** Commands without an answer by their ids, with the CDP session that each is for. */
  readonly #open = new Map<string, string>()
  readonly #sent = new MessageEnds((head, tail) => {
    const id = (ID_FIRST.exec(head) ?? ID_LAST.exec(tail))?.[1]
    if (id === undefined) return
    this.#open.set(id, (SESSION.exec(tail) ?? SESSION.exec(head))?.[1] ?? '')
    if (this.#open.size > MAX_COMMANDS) this.#open.delete(this.#open.keys().next().value!)
  })
  readonly #received = new MessageEnds((head) => {
    const id = ANSWER.exec(head)?.[1]
    if (id !== undefined) return void this.#open.delete(id)
    const gone = DETACHED.exec(head)?.[1]
    if (gone !== undefined) for (const [command, session] of this.#open) if (session === gone) this.#open.delete(command)
  })

  get any(): boolean {
    return this.#open.size > 0
  }

  /** Data that the client sends. */
  sent(chunk: Uint8Array): void {
    this.#sent.push(chunk)
  }

  /** Data that the browser sends. */
  received(chunk: Uint8Array): void {
    this.#received.push(chunk)
  }
}
