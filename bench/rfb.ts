// A live view client that draws nothing: it speaks RFB as noVNC does, skips the pictures, and tracks the colour of one place.
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { WebSocket } from 'ws'
import { within } from '../src/base/wait.ts'

export interface Point {
  x: number
  y: number
}

export interface View extends Disposable {
  /** Moves the pointer to a place, then presses and releases the first button. */
  click(at: Point): void
  /** Resolves after the first complete update in which the watched place has that colour. */
  shows(colour: number): Promise<void>
  /** All bytes received from the service so far, including framing. */
  bytes(): number
}

const SHOWN_MS = 10_000
const VERSION = 'RFB 003.008\n'
/** The same settings as noVNC: Tight with its usual qualities, a cursor drawn by the client, continuous updates. */
const [COPY_RECT, TIGHT, LAST_RECT, CURSOR, FENCE, CONTINUOUS, QUALITY_6, COMPRESS_2] = [1, 7, -224, -239, -312, -313, -26, -254]
/** 32 bits per pixel, 24 of them colour (8 each), red in the lowest byte. */
const FORMAT = Buffer.from([0, 0, 0, 0, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 0, 8, 16, 0, 0, 0])
const PIXEL_BYTES = 3
/** Tight does not compress shorter data. */
const COMPRESSED_FROM = 12

/** Opens a live view by its page's address. It tracks the colour of the place `watched`; the area around it must have a single colour. */
export async function openView(address: string, watched: Point, signal: AbortSignal): Promise<View> {
  const socket = new WebSocket(`${address.replace(/^http/, 'ws')}/socket`, { perMessageDeflate: false })
  const incoming = new Incoming()
  const upgraded = once(socket, 'upgrade', { signal }) as Promise<[IncomingMessage]>
  socket.on('message', (data, isBinary) => isBinary && incoming.push(data as Buffer))
  socket.on('close', (code) => incoming.end(new Error(`the live view was closed with ${code}`)))
  const [{ socket: line }] = await within('the live view', SHOWN_MS, upgraded, signal)

  let colour: number | undefined
  let onUpdate = () => {}
  const client = new Reader(incoming, socket, (x, y, width, height, filled) => {
    const isThere = watched.x >= x && watched.x < x + width && watched.y >= y && watched.y < y + height
    if (isThere) colour = filled
  })
  await within('the greeting of the live view', SHOWN_MS, client.greet(), signal)
  // This ends with the connection. A wait for a colour ends by its timeout or by this.
  const ended = client.follow(() => onUpdate())
  ended.catch(() => {})
  return {
    click({ x, y }) {
      const event = (buttons: number) => Buffer.from([5, buttons, x >> 8, x & 255, y >> 8, y & 255])
      socket.send(Buffer.concat([event(0), event(1), event(0)]))
    },
    async shows(wanted) {
      const { promise, resolve } = Promise.withResolvers<void>()
      onUpdate = () => colour === wanted && resolve()
      onUpdate()
      await within(`#${wanted.toString(16)} in the live view`, SHOWN_MS, Promise.race([promise, ended]), signal)
    },
    bytes: () => line.bytesRead,
    [Symbol.dispose]: () => socket.terminate(),
  }
}

/** The binary messages as one stream. */
class Incoming {
  #held: Buffer = Buffer.alloc(0)
  #wake = Promise.withResolvers<void>()
  #error: Error | undefined

  push(chunk: Buffer): void {
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    this.#wake.resolve()
  }

  end(error: Error): void {
    this.#error = error
    this.#wake.resolve()
  }

  async take(bytes: number): Promise<Buffer> {
    while (this.#held.length < bytes) {
      if (this.#error) throw this.#error
      this.#wake = Promise.withResolvers()
      await this.#wake.promise
    }
    const taken = this.#held.subarray(0, bytes)
    this.#held = this.#held.subarray(bytes)
    return taken
  }
}

/** Called for every rectangle. `colour` (0xRRGGBB) is set when the rectangle has a single colour. */
type OnRect = (x: number, y: number, width: number, height: number, colour: number | undefined) => void

class Reader {
  readonly #incoming: Incoming
  readonly #socket: WebSocket
  readonly #onRect: OnRect
  #size = { width: 0, height: 0 }

  constructor(incoming: Incoming, socket: WebSocket, onRect: OnRect) {
    this.#incoming = incoming
    this.#socket = socket
    this.#onRect = onRect
  }

  readonly #take = (bytes: number) => this.#incoming.take(bytes)

  async greet(): Promise<void> {
    const version = (await this.#take(VERSION.length)).toString('latin1')
    if (version !== VERSION) throw new Error(`the live view speaks ${version}`)
    this.#socket.send(Buffer.from(VERSION, 'latin1'))
    const [kinds] = (await this.#take(1)) as unknown as [number]
    await this.#take(kinds)
    this.#socket.send(Buffer.from([1])) // security type: None
    if ((await this.#take(4)).readUInt32BE(0) !== 0) throw new Error('the live view refused us')
    this.#socket.send(Buffer.from([1])) // shared
    const init = await this.#take(24)
    this.#size = { width: init.readUInt16BE(0), height: init.readUInt16BE(2) }
    await this.#take(init.readUInt32BE(20))
    this.#socket.send(FORMAT)
    const wanted = [COPY_RECT, TIGHT, QUALITY_6, COMPRESS_2, LAST_RECT, FENCE, CONTINUOUS, CURSOR]
    const encodings = Buffer.alloc(4 + 4 * wanted.length)
    encodings[0] = 2
    encodings.writeUInt16BE(wanted.length, 2)
    wanted.forEach((encoding, at) => encodings.writeInt32BE(encoding, 4 + 4 * at))
    this.#socket.send(encodings)
    this.#socket.send(this.#about(3, 0)) // the whole picture
  }

  /** A message about the whole screen. */
  #about(kind: number, flag: number): Buffer {
    const { width, height } = this.#size
    return Buffer.from([kind, flag, 0, 0, 0, 0, width >> 8, width & 255, height >> 8, height & 255])
  }

  async follow(onUpdate: () => void): Promise<never> {
    let isContinuous = false
    for (;;) {
      const kind = (await this.#take(1))[0]
      if (kind === 0) {
        await this.#update()
        onUpdate()
        if (!isContinuous) this.#socket.send(this.#about(3, 1))
      } else if (kind === 3) {
        await this.#take((await this.#take(7)).readInt32BE(3)) // skip a copied text
      } else if (kind === 150) {
        // The server sends this once when it supports continuous updates, and again when they have ended.
        if (!isContinuous) this.#socket.send(this.#about(150, 1))
        isContinuous = true
      } else if (kind === 248) {
        await this.#answerFence()
      } else if (kind !== 2) throw new Error(`the live view sent a message ${kind}, which is not known here`)
    }
  }

  async #answerFence(): Promise<void> {
    const head = await this.#take(8)
    const flags = head.readUInt32BE(3)
    const payload = await this.#take(head[7]!)
    const answer = Buffer.alloc(9)
    answer[0] = 248
    answer.writeUInt32BE(flags & 7, 4)
    answer[8] = payload.length
    this.#socket.send(Buffer.concat([answer, payload]))
  }

  async #update(): Promise<void> {
    const count = (await this.#take(3)).readUInt16BE(1)
    for (let i = 0; i < count; i++) {
      const head = await this.#take(12)
      const [x, y, width, height] = [0, 2, 4, 6].map((at) => head.readUInt16BE(at)) as [number, number, number, number]
      const encoding = head.readInt32BE(8)
      if (encoding === LAST_RECT) return
      if (encoding === CURSOR) await this.#take(width * height * 4 + Math.ceil(width / 8) * height)
      else if (encoding === TIGHT) this.#onRect(x, y, width, height, await this.#tight(width, height))
      else if (encoding === COPY_RECT) {
        await this.#take(4)
        this.#onRect(x, y, width, height, undefined)
      } else throw new Error(`the live view sent a picture in encoding ${encoding}, which was not asked for`)
    }
  }

  /** Skips a rectangle, and returns its colour if it has only one. */
  async #tight(width: number, height: number): Promise<number | undefined> {
    const [control] = (await this.#take(1)) as unknown as [number]
    const kind = control >> 4
    if (kind === 8) return (await this.#take(PIXEL_BYTES)).readUIntBE(0, PIXEL_BYTES)
    if (kind === 9) {
      await this.#take(await this.#length()) // JPEG
      return undefined
    }
    let bytes = width * height * PIXEL_BYTES
    if (kind & 4 && (await this.#take(1))[0] === 1) {
      const colours = (await this.#take(1))[0]! + 1
      await this.#take(colours * PIXEL_BYTES)
      bytes = colours === 2 ? Math.ceil(width / 8) * height : width * height
    }
    await this.#take(bytes < COMPRESSED_FROM ? bytes : await this.#length())
    return undefined
  }

  /** A length with seven bits per byte, lowest first, in at most three bytes. */
  async #length(): Promise<number> {
    let length = 0
    for (const shift of [0, 7, 14]) {
      const [byte] = (await this.#take(1)) as unknown as [number]
      length |= (shift === 14 ? byte : byte & 127) << shift
      if (byte < 128) break
    }
    return length
  }
}
