// One recording of the screen, from the first picture to the last byte.
import type { Log } from '../../base/log.ts'
import { Mutex } from '../../base/mutex.ts'
import type { Camera, Picture, Viewer } from './camera.ts'
import { BYTES_AT_ONCE, type EndOfRecording, type RecordingSpec, type RecordingStatus } from './contract.ts'
import { Encoder, even, type Size } from './encoder.ts'
import type { Packet } from './flv.ts'
import { AUDIO_ID, fileHead, fragment, stillThere, VIDEO_ID, type Sample } from './fragments.ts'
import type { Sound } from './sound.ts'
import type { OnCrash } from '../telemetry/crashes.ts'
import { DiskBuffer } from './disk-buffer.ts'

/** Functions of the session that a recording uses. */
export interface RecordingHooks {
  /** Called when an encoder has ended by itself. */
  onCrash: OnCrash
  /** Microseconds since 1970, on the clock that the session's telemetry has. */
  clock: () => number
}

/** How often new data is written to disk; a kill loses at most this much. */
const WRITE_EVERY_MS = 1_000
/** An unchanged screen is recorded again at this interval, because some players cannot handle frames of minutes. */
const REPEAT_MS = 5_000
/** A recording that exceeds this size is ended. The original's limit is not public; it is at most 10 GB. */
const MAX_BYTES = 4 * 1024 ** 3
/** How often an encoder that died (out of memory) is replaced. */
const MAX_ENCODER_DEATHS = 3
/** How much too early a timer may fire. */
const TIMER_EARLY_MS = 2

export class Recording implements Viewer, AsyncDisposable {
  readonly buffer: DiskBuffer
  /** Resolves when the first picture is encoded. @throws the reason when that fails */
  readonly begun: Promise<void>
  readonly #camera: Camera
  readonly #spec: RecordingSpec
  readonly #log: Log
  readonly #onCrash: OnCrash
  readonly #sound: Sound | undefined
  readonly #interval: number
  readonly #longest: number
  readonly #begin = Promise.withResolvers<void>()
  readonly #ended = Promise.withResolvers<void>()
  readonly #writes = new Mutex()
  readonly #startedWall = Date.now()
  readonly #startedClock: number
  readonly #started: number
  #timers: NodeJS.Timeout[] = []
  #encoder: Encoder | undefined
  #size: Size | undefined
  #deaths = 0
  #lastShown = -Infinity
  /** When the next picture is due. */
  #due = -Infinity
  /** Times of the pictures in the encoder. */
  #inside: number[] = []
  #encoded: { at: number; data: Buffer; isKey: boolean }[] = []
  #avcC: Buffer | undefined
  #hasHead = false
  #sequence = 0
  #writtenUntil = 0
  #isChanging = false
  #end: { reason: EndOfRecording; at: number } | undefined
  #hasEnded = false

  constructor(camera: Camera, spec: RecordingSpec, dir: string, sound: Sound | undefined, log: Log, { onCrash, clock }: RecordingHooks) {
    this.#startedClock = clock()
    this.#started = performance.now()
    this.#camera = camera
    this.#spec = spec
    this.#log = log
    this.#onCrash = onCrash
    this.#sound = sound
    this.#interval = 1000 / spec.framerate
    this.#longest = spec.maxDurationMs ?? Infinity
    this.buffer = new DiskBuffer(dir, BYTES_AT_ONCE)
    this.begun = this.#begin.promise
    this.begun.catch(() => {})
    camera.add(this)
    this.#timers.push(setInterval(() => void this.#beat(), WRITE_EVERY_MS))
    if (spec.maxDurationMs !== undefined) this.#timers.push(setTimeout(() => void this.stop('max_duration'), Math.min(spec.maxDurationMs, 0x7fffffff)))
  }

  get status(): RecordingStatus {
    return {
      startedAt: this.#startedWall,
      startedClock: this.#startedClock,
      durationMs: Math.round(this.#end?.at ?? this.#now()),
      bytes: this.buffer.length,
      ...(this.#hasEnded && { ended: this.#end!.reason }),
    }
  }

  dueAt(): number {
    if (this.#end || this.#isChanging || this.#now() >= this.#longest || (this.#encoder && !this.#encoder.hasRoom)) return Infinity
    return this.#due
  }

  show(picture: Picture, done: () => void): void {
    this.#lastShown = picture.at
    // A late picture does not delay the later ones, so the average rate is the requested one.
    this.#due = Math.max(this.#due + this.#interval, picture.at + this.#interval / 2)
    this.#size ??= even(picture)
    const { from } = this.#encoder ?? {}
    if (this.#encoder && (from?.width !== picture.width || from.height !== picture.height)) {
      done()
      void this.#change()
      return
    }
    this.#encoder ??= this.#open(picture, this.#size)
    // The first picture is at time 0, and no two have the same millisecond.
    const before = this.#inside.at(-1) ?? this.#encoded.at(-1)?.at ?? this.#writtenUntil - 1
    this.#inside.push(Math.max(before + 1, this.#sequence === 0 && before < 0 ? 0 : Math.round(picture.at - this.#started)))
    this.#encoder.encode(picture.pixels, done)
  }

  /** Ends the recording; resolves when the last byte is written. A second call does the same, and the first reason is kept. */
  async stop(reason: EndOfRecording): Promise<void> {
    if (!this.#end) {
      // Its own timer may be a millisecond early.
      const now = Math.min(this.#now() + (reason === 'max_duration' ? TIMER_EARLY_MS : 0), this.#longest)
      this.#end = { reason, at: Math.max(now, (this.#inside.at(-1) ?? 0) + 1) }
      this.#camera.remove(this)
      for (const timer of this.#timers) clearTimeout(timer)
      await this.#finish().catch((err: unknown) => this.#log.warn({ err, recording: this.#spec.id }, 'the end of a recording could not be written'))
      this.#begin.reject(new Error(`the recording ended before it began: ${reason}`))
      this.buffer.close()
      this.#hasEnded = true
      this.#ended.resolve()
    }
    await this.#ended.promise
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop('stopped')
    await this.buffer[Symbol.asyncDispose]()
  }

  #now(): number {
    return performance.now() - this.#started
  }

  async #finish(): Promise<void> {
    const encoder = this.#encoder
    try {
      await encoder?.drained()
    } finally {
      await this.#close(encoder, this.#sound)
      this.#inside = []
      if (this.#end!.reason !== 'disk_full') await this.#write(this.#end!.at)
    }
  }

  /** Never rejects: the recorded data is written even if a program does not end. */
  async #close(...programs: (Encoder | Sound | undefined)[]): Promise<void> {
    for (const end of await Promise.allSettled(programs.map(async (one) => one?.close())))
      if (end.status === 'rejected') this.#log.error({ err: end.reason, recording: this.#spec.id }, 'a program of a recording did not end')
  }

  #open(from: Size, to: Size): Encoder {
    const encoder = new Encoder(
      from,
      to,
      this.#spec.framerate,
      (packet) => this.#onPacket(packet),
      () => this.#camera.nudge(),
    )
    void encoder.ended.then((words) => this.#onEncoderEnd(encoder, words))
    return encoder
  }

  /** The screen has another size: drain the encoder and continue with a new one. */
  async #change(): Promise<void> {
    const encoder = this.#encoder!
    this.#isChanging = true
    await encoder.drained().catch((err: unknown) => this.#log.warn({ err }, 'an encoder did not finish'))
    this.#encoder = undefined
    this.#inside = []
    await this.#close(encoder)
    this.#isChanging = false
    this.#lastShown = -Infinity
    this.#due = -Infinity
    this.#camera.again(this)
  }

  #onEncoderEnd(encoder: Encoder, words: string): void {
    if (encoder !== this.#encoder || this.#end) return
    this.#log.error({ recording: this.#spec.id, words }, 'an encoder ended by itself')
    this.#encoder = undefined
    this.#inside = []
    this.#onCrash({ service: 'ffmpeg', phase: this.#avcC ? 'running' : 'startup', pid: encoder.pid })
    if (++this.#deaths > MAX_ENCODER_DEATHS || !this.#avcC) {
      this.#onCrash({ service: 'ffmpeg', phase: 'gave_up' })
      void this.stop('encoder_failed')
    } else this.#camera.again(this)
  }

  #onPacket(packet: Packet): void {
    if (packet.kind === 'description') {
      // The encoders of a recording have the same settings, so their configuration must be equal.
      if (this.#avcC && !this.#avcC.equals(packet.data)) {
        this.#log.error({ recording: this.#spec.id }, 'two encoders of one recording differ')
        void this.stop('encoder_failed')
      }
      this.#avcC ??= Buffer.from(packet.data)
      return
    }
    const at = this.#inside.shift()
    if (at === undefined) return
    this.#encoded.push({ at, data: packet.data, isKey: packet.isKey })
    if (this.#hasHead) return
    this.#hasHead = true
    this.#writeOrEnd().then(this.#begin.resolve, this.#begin.reject)
  }

  async #beat(): Promise<void> {
    if (this.#end) return
    await this.#writeOrEnd()
    if (performance.now() - this.#lastShown >= REPEAT_MS) this.#camera.again(this)
  }

  async #writeOrEnd(): Promise<void> {
    try {
      // On a busy machine this may run before an overdue timer that ends the recording.
      await this.#write(Math.min(Math.round(this.#now()), this.#longest))
      if (this.buffer.length > MAX_BYTES) void this.stop('too_large')
    } catch (err) {
      this.#log.warn({ err, recording: this.#spec.id }, 'the disk is too full for a recording')
      void this.stop('disk_full')
    }
  }

  /** Writes the encoded pictures; the last one was on the screen until `now`, or until the next one. */
  #write(now: number): Promise<void> {
    return this.#writes.run(async () => {
      if (!this.#avcC) return
      const pictures = this.#encoded.splice(0)
      const until = Math.max(this.#inside[0] ?? now, (pictures.at(-1)?.at ?? -1) + 1)
      const video: Sample[] = pictures.map((picture, index) => ({ ...picture, duration: (pictures[index + 1]?.at ?? until) - picture.at }))
      const audio = this.#sound?.take(this.#started) ?? []
      const parts: Buffer[] = []
      if (this.#sequence === 0 && video.length > 0) parts.push(fileHead({ ...this.#size!, avcC: this.#avcC }, this.#sound?.track))
      if (video.length > 0 || (audio.length > 0 && this.#sequence > 0))
        parts.push(fragment(++this.#sequence, [{ id: VIDEO_ID, samples: video }, { id: AUDIO_ID, samples: audio }])) // prettier-ignore
      if (video.length === 0 && until > this.#writtenUntil && this.#sequence > 0) parts.push(stillThere(until))
      this.#writtenUntil = Math.max(this.#writtenUntil, until)
      if (parts.length > 0) await this.buffer.append(Buffer.concat(parts))
    })
  }
}
