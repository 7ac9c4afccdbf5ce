// Parses the messages of a viewer's RFB client (RFC 6143 and its registered extensions). Only messages with `pass` may go to the picture server. Keys, buttons,
// texts and resize requests never do, for any viewer.

/** A message, or a part of the handshake. */
export type ClientMessage =
  | { kind: 'picture'; pass: Buffer }
  | { kind: 'key'; keysym: number; down: boolean }
  | { kind: 'pointer'; x: number; y: number; buttons: number; pass: Buffer }
  | { kind: 'dropped' }

/** The client sent something that we do not support. */
export class ProtocolError extends Error {}

const VERSION = 'RFB 003.008\n'
/** Lengths of the handshake before the first message: version, security type (None), shared flag. The server answers each of them. */
const HANDSHAKE = [VERSION.length, 1, 1]

/** Most encodings that a client may list; real clients list fewer. */
const MAX_ENCODINGS = 256
/** Messages that are dropped: texts and resize requests. */
const DROPPED = [6, 251]
const MAX_CUT_TEXT = 16 * 1024 * 1024

/**
 * Encodings that are removed from the client's list: with them, keys, texts and buttons would come in forms that we do not parse. QEMU's keys and LEDs,
 * client-side resizing, xvp, extended clipboard and mouse buttons.
 */
const UNWANTED = new Set([-258, -261, -308, -309, -316, 0xc0a1e5ce | 0])

/** Parses a client's stream from chunks of any size. */
export class ClientMessages {
  #held: Buffer = Buffer.alloc(0)
  /** Bytes of a dropped message that are still to come. They are never held: a text has up to 16 MiB, and may come a byte at a time. */
  #skip = 0
  /** How many parts of the handshake have arrived. */
  #steps = 0

  /** The messages that `chunk` completes. @throws {@link ProtocolError} */
  push(chunk: Buffer): ClientMessage[] {
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    const found: ClientMessage[] = []
    for (;;) {
      const skipped = Math.min(this.#skip, this.#held.length)
      this.#held = this.#held.subarray(skipped)
      this.#skip -= skipped
      if (this.#skip > 0) return found
      const step = this.#steps
      const length = HANDSHAKE[step] ?? lengthOf(this.#held)
      if (length === undefined) return found
      if (step >= HANDSHAKE.length && DROPPED.includes(this.#held[0]!)) {
        this.#skip = length
        found.push({ kind: 'dropped' })
        continue
      }
      if (this.#held.length < length) return found
      const message = this.#held.subarray(0, length)
      this.#held = this.#held.subarray(length)
      if (step === 0) checkVersion(message)
      if (step < HANDSHAKE.length) this.#steps++
      found.push(step < HANDSHAKE.length ? { kind: 'picture', pass: message } : read(message))
    }
  }
}

function checkVersion(message: Buffer): void {
  if (message.toString('latin1') !== VERSION) throw new ProtocolError('only RFB version 3.8 is supported')
}

/** The length of the first message; undefined when more bytes are needed to know it. */
function lengthOf(bytes: Buffer): number | undefined {
  if (bytes.length === 0) return undefined
  const behind = (head: number, rest: () => number) => (bytes.length < head ? undefined : rest())
  switch (bytes[0]) {
    case 0: // SetPixelFormat
      return 20
    case 2: // SetEncodings
      return behind(4, () => 4 + 4 * bounded('encodings', bytes.readUInt16BE(2), MAX_ENCODINGS))
    case 3: // FramebufferUpdateRequest
    case 150: // EnableContinuousUpdates
      return 10
    case 4: // KeyEvent
      return 8
    case 5: // PointerEvent
      return 6
    case 6: // ClientCutText; a negative length is that of the extended form
      return behind(8, () => 8 + bounded('a cut text', Math.abs(bytes.readInt32BE(4)), MAX_CUT_TEXT))
    case 248: // Fence
      return behind(9, () => 9 + bounded('a fence', bytes[8]!, 64))
    case 251: // SetDesktopSize
      return behind(8, () => 8 + 16 * bytes[6]!)
    case 255: // QEMU: extended key event
      if (bytes.length > 1 && bytes[1] !== 0) throw new ProtocolError(`no message 255 of kind ${bytes[1]} is supported`)
      return 12
    default:
      throw new ProtocolError(`message ${bytes[0]} is not supported`)
  }
}

function bounded(what: string, count: number, max: number): number {
  if (count > max) throw new ProtocolError(`${what}: ${count} is more than ${max}`)
  return count
}

function read(message: Buffer): ClientMessage {
  switch (message[0]) {
    case 2:
      return { kind: 'picture', pass: withoutUnwanted(message) }
    case 4:
      return { kind: 'key', keysym: message.readUInt32BE(4), down: message[1] !== 0 }
    case 5:
      return { kind: 'pointer', buttons: message[1]!, x: message.readUInt16BE(2), y: message.readUInt16BE(4), pass: message }
    case 255:
      return { kind: 'key', keysym: message.readUInt32BE(4), down: message.readUInt16BE(2) !== 0 }
    default:
      return { kind: 'picture', pass: message }
  }
}

function withoutUnwanted(message: Buffer): Buffer {
  const encodings = Array.from({ length: message.readUInt16BE(2) }, (_, index) => message.readInt32BE(4 + 4 * index))
  const wanted = encodings.filter((encoding) => !UNWANTED.has(encoding))
  const out = Buffer.alloc(4 + 4 * wanted.length)
  out[0] = 2
  out.writeUInt16BE(wanted.length, 2)
  wanted.forEach((encoding, index) => out.writeInt32BE(encoding, 4 + 4 * index))
  return out
}
