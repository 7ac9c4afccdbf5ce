// One connection of an RFB server (RFC 6143, and https://github.com/rfbproto/rfbproto for Tight and Fence) that sends pictures in JPEG and takes no input.
import type { Duplex } from 'node:stream'
import type { Point } from '../../computer/path.ts'
import { ClientMessages, type ClientMessage } from '../../live/messages.ts'
import { ARROW_SIZE, arrowRuns } from './arrow.ts'

/** A picture of the page. */
export interface Frame {
  jpeg: Buffer
  width: number
  height: number
}

export interface RfbViewer {
  /** Whether it has asked for a picture and has taken all that was sent. Only then may it get another one, so at most one picture is held for it. */
  readonly isWaiting: boolean
  /** Sends what it does not have yet: a new size, or the picture with the mouse cursor at `pointer`. `pointer` is undefined while the cursor is hidden. */
  show(frame: Frame, pointer: Point | undefined): void
}

interface Rectangle {
  x: number
  y: number
  width: number
  height: number
  encoding: number
  data: Buffer[]
}

const TIGHT = 7
/** Pseudo-encodings: the shape of the cursor, which the viewer draws at its own mouse; another size of the screen. */
const [CURSOR, DESKTOP_SIZE] = [-239, -223]
/** Tight's compression controls: one colour, in 3 bytes for the pixels that are allowed here; a picture in JPEG. */
const [FILL, JPEG] = [0x80, 0x90]
/** The security type "None". */
const NONE = 1
const [SET_PIXEL_FORMAT, SET_ENCODINGS, UPDATE_REQUEST] = [0, 2, 3]
const VERSION = 'RFB 003.008\n'
const NAME = 'Cob'
/** 32 bits a pixel, 24 of them used, little endian, true colour; 8 bits a colour: red at bit 16, green at 8, blue at 0. Three bytes of padding. */
const PIXEL_FORMAT = [32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0]

/** A viewer sees its own mouse. For this long after that has moved, the session's cursor, which follows it, is not drawn beside it. X0tigervnc's number. */
const OWN_POINTER_MS = 1_000

/**
 * Serves a viewer at `connection`; `size`: the first size of the screen. `onReady` is called when the viewer may have become one that waits. A viewer that breaks
 * the protocol, that cannot show JPEG or another size, or wants pixels other than of 32 bits with 24 of colour, is disconnected.
 */
export function serveRfb(connection: Duplex, size: { width: number; height: number }, onReady: () => void): RfbViewer {
  const messages = new ClientMessages()
  let { width, height } = size
  let steps = 0
  let encodings = new Set<number>()
  let hasAsked = false
  let hasCursor = false
  /** What it shows. */
  let shown: { frame: Frame; arrow: string } | undefined
  let own: Point | undefined
  let ownMovedAt = -Infinity
  let later: NodeJS.Timeout | undefined

  const send = (...parts: Buffer[]) => connection.write(Buffer.concat(parts), () => onReady())
  const answers = [
    () => send(Buffer.from([1, NONE])),
    // The result: 0 in four bytes.
    (type: Buffer) => (type[0] === NONE ? send(Buffer.alloc(4)) : connection.destroy()),
    () => send(words(width, height), Buffer.from(PIXEL_FORMAT), Buffer.from([0, 0, 0, NAME.length]), Buffer.from(NAME, 'latin1')),
  ]

  function take(message: ClientMessage): void {
    if (message.kind === 'pointer') {
      own = [message.x, message.y]
      ownMovedAt = performance.now()
    }
    if (message.kind !== 'picture') return
    const bytes = message.pass
    if (steps < answers.length) return void answers[steps++]!(bytes)
    if (bytes[0] === SET_ENCODINGS) encodings = new Set(Array.from({ length: bytes.readUInt16BE(2) }, (_, index) => bytes.readInt32BE(4 + 4 * index)))
    else if (bytes[0] === SET_PIXEL_FORMAT && (bytes[4] !== 32 || bytes[5] !== 24 || bytes[7] === 0)) connection.destroy()
    else if (bytes[0] === UPDATE_REQUEST) {
      if (!encodings.has(TIGHT)) return void connection.destroy()
      hasAsked = true
      if (bytes[1] === 0) shown = undefined
      onReady()
    }
    // The others, fences and continuous updates, are for servers that have announced them.
  }

  const update = (rectangles: Rectangle[]) => {
    hasAsked = false
    const parts = rectangles.flatMap(({ x, y, width: across, height: down, encoding, data }) => [words(x, y, across, down), number(encoding), ...data])
    send(Buffer.from([0, 0]), words(rectangles.length), ...parts)
  }

  /** Where the cursor is drawn into the picture, if it is. */
  function arrowAt(pointer: Point | undefined): Point | undefined {
    if (!pointer || (own?.[0] === pointer[0] && own[1] === pointer[1])) return undefined
    const left = ownMovedAt + OWN_POINTER_MS - performance.now()
    if (left <= 0) return pointer
    clearTimeout(later)
    later = setTimeout(onReady, left + 1).unref()
    return undefined
  }

  send(Buffer.from(VERSION, 'latin1'))
  connection.on('data', (chunk: Buffer) => {
    try {
      messages.push(chunk).forEach(take)
    } catch {
      connection.destroy()
    }
  })
  connection.on('error', () => {}) // it closes
  connection.once('close', () => clearTimeout(later))
  return {
    get isWaiting() {
      return hasAsked && connection.writable && connection.writableLength === 0
    },
    show(frame, pointer) {
      if (frame.width !== width || frame.height !== height) {
        if (!encodings.has(DESKTOP_SIZE)) return void connection.destroy()
        ;({ width, height } = frame)
        shown = undefined
        // The new size is the last rectangle of its update. The viewer then asks for the picture.
        return update([{ x: 0, y: 0, width, height, encoding: DESKTOP_SIZE, data: [] }])
      }
      const at = arrowAt(pointer)
      const arrow = String(at)
      if (shown?.frame === frame && shown.arrow === arrow) return
      shown = { frame, arrow }
      const picture = { x: 0, y: 0, width, height, encoding: TIGHT, data: [Buffer.from([JPEG]), compact(frame.jpeg.length), frame.jpeg] }
      // The cursor in Tight, too: noVNC 1.7 takes other bytes for the pixels of a Raw rectangle that comes while a JPEG is decoded (Display.blitImage).
      const runs = at
        ? arrowRuns(at, frame).map((run) => ({ ...run, height: 1, encoding: TIGHT, data: [Buffer.from([FILL, run.value, run.value, run.value])] }))
        : []
      const shape = encodings.has(CURSOR) && !hasCursor ? [{ x: 0, y: 0, ...ARROW_SIZE, encoding: CURSOR, data: cursorShape() }] : []
      hasCursor = true
      update([...shape, picture, ...runs])
    },
  }
}

/** Pixels of the whole arrow, black and white in every format, and a bit for each that is visible, each row from a new byte. */
function cursorShape(): Buffer[] {
  const { width, height } = ARROW_SIZE
  const [pixels, row] = [Buffer.alloc(width * height * 4), Math.ceil(width / 8)]
  const mask = Buffer.alloc(row * height)
  for (const run of arrowRuns([0, 0], ARROW_SIZE)) {
    pixels.fill(run.value, (run.y * width + run.x) * 4, (run.y * width + run.x + run.width) * 4)
    for (let x = run.x; x < run.x + run.width; x++) mask[run.y * row + (x >> 3)]! |= 0x80 >> (x & 7)
  }
  return [pixels, mask]
}

function words(...values: number[]): Buffer {
  const bytes = Buffer.alloc(2 * values.length)
  values.forEach((value, index) => bytes.writeUInt16BE(value, 2 * index))
  return bytes
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

/** A length in Tight: 7 bits, 7 bits and 8 bits, the lowest first; less than 4 MiB. */
function compact(length: number): Buffer {
  if (length < 1 << 7) return Buffer.from([length])
  if (length < 1 << 14) return Buffer.from([(length & 127) | 128, length >> 7])
  return Buffer.from([(length & 127) | 128, ((length >> 7) & 127) | 128, length >> 14])
}
