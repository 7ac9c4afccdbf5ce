// Makes the index of a recording as its bytes pass. They come from a sandbox, so everything is checked. A recording of another form than our recorder's is
// unreadable; it has no other effect.

import { Gathered } from '../../../base/gathered.ts'

/** One track: how to decode it, and its samples in their order. */
export interface Mp4Track {
  id: number
  kind: 'video' | 'audio'
  timescale: number
  width: number
  height: number
  /** Its stsd box. */
  description: Buffer
  count: number
  /** For each sample: bytes, duration, and whether decoding can begin there. */
  sizes: Uint32Array
  durations: Uint32Array
  keys: Uint32Array
  keyCount: number
  /** A group of consecutive samples: how many, and the file offset of the first. */
  runs: { count: number; at: number }[]
  /** When the first sample begins, and when the last one ends. */
  from: number
  until: number
}

/** The bytes have an unknown form. */
export class Unreadable extends Error {}

const MAX_HEADER = 64 * 1024
/** Limit on one index: 12 bytes for a sample, of which our recorder writes 67 a second, about once a second. */
const MAX_INDEX = 256 * 1024
/** Limit on the boxes in a box: the fullest that our recorder writes has five. */
const MAX_CHILDREN = 16
/** Limit on the samples of one recording that are held: two days at 20 frames a second. */
const MAX_SAMPLES = 4_000_000
/** Limit on its fragments: our recorder makes one a second, and no session records longer than three days. */
const MAX_RUNS = 300_000
/** The longest recording, in milliseconds: no session lives longer. */
const MAX_MS = 30 * 24 * 3600_000

const MOOF_BOXES = ['moof', 'mdat', 'free', 'ftyp', 'moov']

/** Parses a growing recording. After {@link Unreadable} it parses no more. `limit` tells how many samples and boxes it may have by now. */
export class Mp4Index {
  tracks: Mp4Track[] = []
  /** The offset after the last complete box. Bytes after it were cut off. */
  length = 0
  #at = 0
  /** The bytes so far of a box that is read whole. */
  readonly #held = new Gathered()
  #wanted = 8
  /** Bytes to skip. */
  #skip = 0
  /** Samples of the last index. They count once their bytes have arrived. */
  #announced: { track: Mp4Track; at: number; rows: { size: number; duration: number; isKey: boolean }[]; time: number }[] = []
  #announcedBytes = 0
  #problem: Unreadable | undefined
  /** How many samples and boxes it has had. Each costs memory or time, however few bytes it has. */
  #items = 0
  /** Its length when it became unreadable. */
  #lastedMs = 0
  readonly #limit: () => number

  constructor(limit: () => number = () => Infinity) {
    this.#limit = limit
  }

  /** Takes the next bytes. @throws Unreadable */
  push(chunk: Buffer): void {
    if (this.#problem) throw this.#problem
    try {
      this.#read(chunk)
    } catch (error) {
      this.#problem = error instanceof Unreadable ? error : new Unreadable(String(error))
      this.#lastedMs = this.durationMs
      this.tracks = []
      this.#announced = []
      this.#held.clear()
      throw this.#problem
    }
  }

  get problem(): Unreadable | undefined {
    return this.#problem
  }

  /** Its length, in milliseconds. */
  get durationMs(): number {
    return Math.round(Math.max(this.#lastedMs, ...this.tracks.map(({ until, timescale }) => (until * 1000) / timescale)))
  }

  #read(chunk: Buffer): void {
    let rest = chunk
    while (rest.length > 0) {
      if (this.#skip > 0) {
        const passed = Math.min(this.#skip, rest.length)
        this.#skip -= passed
        this.#at += passed
        rest = rest.subarray(passed)
        if (this.#skip === 0) this.#boxEnds()
        continue
      }
      const taken = Math.min(this.#wanted - this.#held.length, rest.length)
      this.#held.add(rest.subarray(0, taken))
      this.#at += taken
      rest = rest.subarray(taken)
      if (this.#held.length === this.#wanted) this.#held8orBox()
    }
  }

  #held8orBox(): void {
    const { bytes } = this.#held
    const size = bytes.readUInt32BE(0)
    const name = bytes.toString('latin1', 4, 8)
    if (bytes.length === 8) {
      this.#count(1)
      if (!MOOF_BOXES.includes(name) || size < 8) throw new Unreadable(`a box of ${size} bytes with the name ${JSON.stringify(name)}`)
      if (name === 'mdat') {
        if (size - 8 !== this.#announcedBytes) throw new Unreadable(`${size - 8} bytes of samples where ${this.#announcedBytes} were announced`)
        this.#held.clear()
        this.#skip = size - 8
        if (this.#skip === 0) this.#boxEnds()
        return
      }
      if (size > (name === 'moof' ? MAX_INDEX : MAX_HEADER)) throw new Unreadable(`a ${name} of ${size} bytes`)
      if (size > 8) {
        this.#wanted = size
        return
      }
    }
    this.#held.clear()
    this.#wanted = 8
    if (name === 'moov') this.#onMoov(bytes)
    else if (name === 'moof') return this.#onMoof(bytes)
    else if (name === 'free') this.#onFree(bytes)
    this.#boxEnds()
  }

  #count(items: number): void {
    this.#items += items
    if (this.#items > this.#limit()) throw new Unreadable('more samples and boxes than a recorder makes in its time')
  }

  #boxEnds(): void {
    for (const { track, at, rows, time } of this.#announced) append(track, at, rows, time)
    this.#announced = []
    this.#announcedBytes = 0
    this.length = this.#at
  }

  #onMoov(bytes: Buffer): void {
    if (this.tracks.length > 0) throw new Unreadable('a second header')
    for (const trak of children(bytes.subarray(8)).filter(({ name }) => name === 'trak')) {
      const [tkhd, mdia] = [child(trak.content, 'tkhd'), child(trak.content, 'mdia')]
      const [mdhd, hdlr] = [child(mdia, 'mdhd'), child(mdia, 'hdlr')]
      const stbl = child(child(mdia, 'minf'), 'stbl')
      const kind = hdlr.toString('latin1', 8, 12) === 'vide' ? 'video' : 'audio'
      const timescale = mdhd.readUInt32BE(20)
      if (timescale === 0) throw new Unreadable('a track without a timescale')
      const description = children(stbl).find(({ name }) => name === 'stsd')
      if (!description) throw new Unreadable('a track that is not described')
      this.tracks.push({
        id: tkhd.readUInt32BE(20),
        kind,
        timescale,
        width: tkhd.readUInt16BE(88),
        height: tkhd.readUInt16BE(92),
        description: Buffer.from(description.whole),
        count: 0,
        sizes: new Uint32Array(1024),
        durations: new Uint32Array(1024),
        keys: new Uint32Array(64),
        keyCount: 0,
        runs: [],
        from: 0,
        until: 0,
      })
    }
    if (this.tracks.length === 0 || this.tracks.length > 2 || new Set(this.tracks.map(({ id }) => id)).size !== this.tracks.length)
      throw new Unreadable(`${this.tracks.length} tracks`)
  }

  #onMoof(bytes: Buffer): void {
    if (this.#announced.length > 0) throw new Unreadable('an index without its samples')
    const start = this.#at - bytes.length
    let next = bytes.length + 8
    for (const traf of children(bytes.subarray(8)).filter(({ name }) => name === 'traf')) {
      const id = child(traf.content, 'tfhd').readUInt32BE(4)
      const time = Number(child(traf.content, 'tfdt').readBigUInt64BE(4))
      const trun = child(traf.content, 'trun')
      const track = this.tracks.find((known) => known.id === id)
      if (!track || this.#announced.some((known) => known.track === track)) throw new Unreadable(`samples of track ${id}`)
      const count = trun.readUInt32BE(4)
      if (trun.readUInt32BE(0) !== 0x701 || trun.length !== 12 + count * 12 || count === 0) throw new Unreadable('a table of samples of another form')
      if (trun.readUInt32BE(8) !== next) throw new Unreadable('samples that lie elsewhere')
      this.#count(count)
      if (track.count + count > MAX_SAMPLES) throw new Unreadable(`more than ${MAX_SAMPLES} samples`)
      if (time < track.until && track.count > 0 ? time < track.until - lastDuration(track) : time > (MAX_MS / 1000) * track.timescale)
        throw new Unreadable(`samples at ${time}`)
      const rows = Array.from({ length: count }, (_, index) => {
        const at = 12 + index * 12
        return { duration: trun.readUInt32BE(at), size: trun.readUInt32BE(at + 4), isKey: (trun.readUInt32BE(at + 8) & 0x10000) === 0 }
      })
      const bytesOfRun = rows.reduce((sum, { size }) => sum + size, 0)
      const lasts = rows.reduce((sum, { duration }) => sum + duration, 0)
      if ((time + lasts) / track.timescale > MAX_MS / 1000) throw new Unreadable(`samples until ${time + lasts}`)
      this.#announced.push({ track, at: start + next, rows, time })
      next += bytesOfRun
      this.#announcedBytes += bytesOfRun
    }
    if (this.#announced.length === 0) throw new Unreadable('an index of nothing')
  }

  /** Our recorder's mark that the last frame was still shown. */
  #onFree(bytes: Buffer): void {
    const video = this.tracks.find(({ kind }) => kind === 'video')
    if (bytes.length !== 20 || bytes.toString('latin1', 8, 12) !== 'cob ' || !video || video.count === 0) return
    const until = (Number(bytes.readBigUInt64BE(12)) * video.timescale) / 1000
    if (until > video.until && until <= (MAX_MS / 1000) * video.timescale) prolong(video, until)
  }
}

const lastDuration = (track: Mp4Track): number => track.durations[track.count - 1]!

/** Extends the last sample to a time. */
function prolong(track: Mp4Track, until: number): void {
  track.durations[track.count - 1] = lastDuration(track) + until - track.until
  track.until = until
}

function append(track: Mp4Track, at: number, rows: readonly { size: number; duration: number; isKey: boolean }[], time: number): void {
  if (track.count === 0) track.from = track.until = time
  else prolong(track, time)
  if (track.count + rows.length > track.sizes.length) {
    const larger = Math.max(track.sizes.length * 2, track.count + rows.length)
    track.sizes = grown(track.sizes, larger)
    track.durations = grown(track.durations, larger)
  }
  if (track.runs.length === MAX_RUNS) throw new Unreadable(`more than ${MAX_RUNS} fragments`)
  track.runs.push({ count: rows.length, at })
  for (const { size, duration, isKey } of rows) {
    track.sizes[track.count] = size
    track.durations[track.count] = duration
    track.until += duration
    track.count++
    if (!isKey) continue
    if (track.keyCount === track.keys.length) track.keys = grown(track.keys, track.keyCount * 2)
    track.keys[track.keyCount++] = track.count
  }
}

function grown(old: Uint32Array, length: number): Uint32Array {
  const made = new Uint32Array(length)
  made.set(old)
  return made
}

interface Inner {
  name: string
  whole: Buffer
  content: Buffer
}

/** The boxes in a box. @throws Unreadable when they do not fill it exactly */
function children(bytes: Buffer): Inner[] {
  const found: Inner[] = []
  for (let at = 0; at < bytes.length;) {
    const size = bytes.length - at >= 8 ? bytes.readUInt32BE(at) : 0
    if (size < 8 || at + size > bytes.length) throw new Unreadable('a box that reaches out of the one around it')
    if (found.length === MAX_CHILDREN) throw new Unreadable(`more than ${MAX_CHILDREN} boxes in a box`)
    found.push({ name: bytes.toString('latin1', at + 4, at + 8), whole: bytes.subarray(at, at + size), content: bytes.subarray(at + 8, at + size) })
    at += size
  }
  return found
}

function child(bytes: Buffer, name: string): Buffer {
  const found = children(bytes).find((inner) => inner.name === name)
  if (!found) throw new Unreadable(`there is no ${name}`)
  return found.content
}
