// The picture server's connection to the display. It passes through here because one error would end the picture server.
import { rmSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { pipeline, Transform, type TransformCallback } from 'node:stream'

// X11 protocol, "Encoding": every message of the server begins with 32 bytes; replies and generic events may be longer.
const HEAD_BYTES = 32
const SETUP_HEAD_BYTES = 8
const ERROR = 0
const REPLY = 1
const GENERIC_EVENT = 35
const BAD_MATCH = 8
/** MIT-SHM's ShmGetImage. No other extension that the picture server uses answers its request 4 with BadMatch. */
const SHM_GET_IMAGE = 4
const FIRST_EXTENSION = 128
const TRUE_COLOUR_DEPTH = 24

/**
 * Passes on the messages of an X server, in little endian. A `ShmGetImage` that was refused with BadMatch gets a reply, as if the picture had not changed.
 * X0tigervnc 1.12 exits on any X error, and a screen that shrinks between its look at the size and its request causes this one. It gets the new size right
 * afterwards, and then takes the whole picture.
 */
export class WithoutImageErrors extends Transform {
  /** The beginning of a message, until its head is complete. */
  #head = Buffer.alloc(0)
  /** Bytes of the current message that follow its head. */
  #rest = 0
  #isSetUp = false

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#rest > 0) {
        const end = Math.min(chunk.length, at + this.#rest)
        this.push(chunk.subarray(at, end))
        this.#rest -= end - at
        at = end
        continue
      }
      const size = this.#isSetUp ? HEAD_BYTES : SETUP_HEAD_BYTES
      const end = Math.min(chunk.length, at + size - this.#head.length)
      this.#head = Buffer.concat([this.#head, chunk.subarray(at, end)])
      at = end
      if (this.#head.length < size) break
      this.push(this.#isSetUp ? this.#take(this.#head) : this.#setUp(this.#head))
      this.#head = Buffer.alloc(0)
    }
    done()
  }

  #setUp(head: Buffer): Buffer {
    this.#isSetUp = true
    this.#rest = 4 * head.readUInt16LE(6)
    return head
  }

  #take(head: Buffer): Buffer {
    const kind = head[0]!
    if (kind === REPLY || (kind & 0x7f) === GENERIC_EVENT) this.#rest = 4 * head.readUInt32LE(4)
    const isRefusedImage = kind === ERROR && head[1] === BAD_MATCH && head.readUInt16LE(8) === SHM_GET_IMAGE && head[10]! >= FIRST_EXTENSION
    if (!isRefusedImage) return head
    const reply = Buffer.alloc(HEAD_BYTES)
    reply[0] = REPLY
    reply[1] = TRUE_COLOUR_DEPTH
    // The number of the request.
    head.copy(reply, 2, 2, 4)
    return reply
  }
}

/** Serves the display `target`, a Unix socket, at the Unix socket `path`, for the picture server. */
export function servePictureDisplay(path: string, target: string): Server {
  const server = createServer((picture: Socket) => {
    const display = connect(target)
    // If either end breaks or closes, both end; the picture server then exits, and its viewers are told.
    pipeline(picture, display, () => picture.destroy())
    pipeline(display, new WithoutImageErrors(), picture, () => display.destroy())
  })
  rmSync(path, { force: true })
  return server.listen(path)
}
