// One ffmpeg process that encodes H.264: raw pictures in, packets out, one packet for each picture in order. It handles no times.
import { spawn, type ChildProcess } from 'node:child_process'
import { endProcessGroup } from '../../base/processes.ts'
import { within } from '../../base/wait.ts'
import { FlvReader, type Packet } from './flv.ts'

export interface Size {
  width: number
  height: number
}

/** Time for the encoder to finish its pictures; 20 ms per picture were measured. */
const DRAIN_MS = 5_000

/** Seconds between key frames while the screen changes; seeking decodes from there. */
const KEY_EVERY_SECONDS = 5

/** H.264 with 4:2:0 colours needs even sizes. */
export const even = ({ width, height }: Size): Size => ({ width: width + (width & 1), height: height + (height & 1) })

/** Pictures of the same size are padded to an even size; others are scaled to fit, with bars. */
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
 * superfast uses two thirds of the CPU of veryfast for the same file size; ultrafast's files are half as large again. zerolatency and one thread:
 * each picture comes out before the next goes in, so nothing is lost with the encoder.
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
  /** Resolves with ffmpeg's last output when it has ended, by itself or by us. */
  readonly ended: Promise<string>
  readonly #child: ChildProcess
  #inside = 0
  #writing = false
  #hasEnded = false
  #empty = Promise.withResolvers<void>()

  /** `onPacket` gets the packets in the order of the pictures; `onRoom` is called when another picture can be taken. */
  constructor(from: Size, to: Size, framerate: number, onPacket: (packet: Packet) => void, onRoom: () => void) {
    this.from = from
    this.#child = spawn('ffmpeg', command(from, to, framerate), { detached: true, stdio: ['pipe', 'pipe', 'pipe'] })
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
    this.#child.stdin!.on('error', () => {}) // write errors mean that it has ended, which `ended` reports
    this.#onRoom = onRoom
  }

  readonly #onRoom: () => void

  /** Undefined when it could not be started. */
  get pid(): number | undefined {
    return this.#child.pid
  }

  /** Whether it can take a picture now: it has read the last one and keeps up. */
  get hasRoom(): boolean {
    return !this.#writing && this.#inside < 2 && !this.#hasEnded
  }

  /** Encodes a picture; `done` is called when its bytes are not needed any longer. */
  encode(pixels: Buffer, done: () => void): void {
    if (this.#inside++ === 0) this.#empty = Promise.withResolvers()
    this.#writing = true
    this.#child.stdin!.write(pixels, () => {
      this.#writing = false
      done()
      this.#onRoom()
    })
  }

  /** Resolves when every picture has come out, or ffmpeg has ended. */
  async drained(): Promise<void> {
    if (this.#inside === 0 || this.#hasEnded) return
    await within('the encoder', DRAIN_MS, this.#empty.promise)
  }

  /** Ends ffmpeg; pictures inside it are lost. */
  async close(): Promise<void> {
    await endProcessGroup('ffmpeg', this.#child, this.ended)
  }
}
