// One ffmpeg that makes H.264 of pictures: raw pictures in, packets out, each packet for the picture that is due. It knows no times.
import { spawn, type ChildProcess } from 'node:child_process'
import { within } from '../../base/wait.ts'
import { FlvReader, type Packet } from './flv.ts'

export interface Size {
  width: number
  height: number
}

/** Time for what is in the encoder to come out: 20 ms a picture were seen. */
const DRAIN_MS = 5_000

/** A key picture this often while the screen moves; seeking decodes from there. */
const KEY_EVERY_SECONDS = 5

/** H.264 in the usual form of colours has no odd sizes. */
export const even = ({ width, height }: Size): Size => ({ width: width + (width & 1), height: height + (height & 1) })

/** Pictures of the same size are padded to an even one; others are fitted into it whole, with bars. */
function fitted(from: Size, to: Size): string[] {
  const asIs = [`pad=${to.width}:${to.height}`]
  const scaled = [`scale=${to.width}:${to.height}:force_original_aspect_ratio=decrease:flags=bilinear`, `pad=${to.width}:${to.height}:(ow-iw)/2:(oh-ih)/2`]
  const same = even(from).width === to.width && even(from).height === to.height
  return [
    ...(same ? (from.width === to.width && from.height === to.height ? [] : asIs) : scaled),
    'scale=out_color_matrix=bt709:out_range=tv:flags=fast_bilinear',
  ]
}

/**
 * superfast: two thirds of the CPU of veryfast at the same size of file, and ultrafast's files are half as large again. zerolatency and
 * one thread: each picture comes out before the next one is taken, and nothing is lost with the encoder.
 */
function command(from: Size, to: Size, framerate: number): string[] {
  const said = ['-nostdin', '-hide_banner', '-loglevel', 'error', '-nostats']
  const input = ['-probesize', '32', '-analyzeduration', '0', '-f', 'rawvideo', '-pixel_format', 'bgr0', '-video_size', `${from.width}x${from.height}`, '-framerate', `${framerate}`, '-i', 'pipe:0'] // prettier-ignore
  const codec = ['-c:v', 'libx264', '-preset', 'superfast', '-tune', 'zerolatency', '-crf', '23', '-threads', '1', '-g', `${framerate * KEY_EVERY_SECONDS}`]
  const colours = ['-pix_fmt', 'yuv420p', '-colorspace', 'bt709', '-color_primaries', 'bt709', '-color_trc', 'bt709', '-color_range', 'tv']
  const output = ['-fps_mode', 'passthrough', '-f', 'flv', '-flvflags', 'no_duration_filesize+no_metadata', '-flush_packets', '1', 'pipe:1']
  return [...said, ...input, '-filter_threads', '1', '-vf', fitted(from, to).join(','), '-an', ...codec, ...colours, ...output]
}

export class Encoder {
  readonly from: Size
  /** Resolves with the last words when it has ended, by itself or by us. */
  readonly ended: Promise<string>
  readonly #child: ChildProcess
  #inside = 0
  #writing = false
  #hasEnded = false
  #empty = Promise.withResolvers<void>()

  /** `onPacket` gets the packets, in the order of the pictures; `onRoom` is told when another picture can be taken. */
  constructor(from: Size, to: Size, framerate: number, onPacket: (packet: Packet) => void, onRoom: () => void) {
    this.from = from
    this.#child = spawn('ffmpeg', command(from, to, framerate), { stdio: ['pipe', 'pipe', 'pipe'] })
    const reader = new FlvReader()
    this.#child.stdout!.on('data', (chunk: Buffer) => {
      for (const packet of reader.push(chunk)) {
        if (packet.kind === 'frame' && --this.#inside === 0) this.#empty.resolve()
        onPacket(packet)
      }
      onRoom()
    })
    let words = ''
    this.#child.stderr!.on('data', (chunk: Buffer) => void (words = (words + chunk.toString()).slice(-2000)))
    const gone = Promise.withResolvers<string>()
    this.ended = gone.promise
    this.#child.on('error', (error) => gone.resolve(error.message))
    this.#child.on('close', (code, signal) => gone.resolve(`ffmpeg ended with ${String(signal ?? code)} ${words}`.trim()))
    void this.ended.then(() => {
      this.#hasEnded = true
      this.#empty.resolve()
    })
    this.#child.stdin!.on('error', () => {}) // it has ended, which is heard of
    this.#onRoom = onRoom
  }

  readonly #onRoom: () => void

  /** Whether it takes a picture now: it has read the last one, and is not behind. */
  get hasRoom(): boolean {
    return !this.#writing && this.#inside < 2 && !this.#hasEnded
  }

  /** Gives it a picture; `done` is called when its bytes are no longer needed. */
  encode(pixels: Buffer, done: () => void): void {
    if (this.#inside++ === 0) this.#empty = Promise.withResolvers()
    this.#writing = true
    this.#child.stdin!.write(pixels, () => {
      this.#writing = false
      done()
      this.#onRoom()
    })
  }

  /** Resolves when every picture has come out, or it has ended. */
  async drained(): Promise<void> {
    if (this.#inside === 0 || this.#hasEnded) return
    await within('the encoder', DRAIN_MS, this.#empty.promise)
  }

  /** Ends it; what is in it is lost. */
  async close(): Promise<void> {
    if (!this.#hasEnded) this.#child.kill('SIGKILL')
    await this.ended
  }
}
