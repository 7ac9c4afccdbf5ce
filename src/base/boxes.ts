// Boxes, the pieces of MP4 files (ISO/IEC 14496-12, 4.2): a length, a four-letter name, a content.
import { endianness } from 'node:os'

type Part = Buffer | number

/** A box with parts; numbers are 32 bits each. */
export const box = (name: string, ...parts: (Part | Part[])[]): Buffer => Buffer.concat(piecesOf(name, ...parts))

/** The pieces of a box, for use in another box: large tables are then copied once and not at every level. */
const piecesOf = (name: string, ...parts: (Part | Part[])[]): Buffer[] => {
  const content = parts.flat().map((part) => (typeof part === 'number' ? u32(part) : part))
  const length = content.reduce((sum, part) => sum + part.length, 8)
  return [u32(length), Buffer.from(name, 'latin1'), ...content]
}

/** A box that begins with a version and flags. */
export const fullBox = (name: string, version: number, flags: number, ...parts: (Part | Part[])[]): Buffer =>
  box(name, ((version << 24) | flags) >>> 0, ...parts)

export const u16 = (value: number): Buffer => {
  const bytes = Buffer.allocUnsafe(2)
  bytes.writeUInt16BE(value)
  return bytes
}

export const u32 = (value: number): Buffer => {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeUInt32BE(value >>> 0)
  return bytes
}

export const u64 = (value: number): Buffer => {
  const bytes = Buffer.allocUnsafe(8)
  // A time that is converted to another scale may not be a whole number.
  bytes.writeBigUInt64BE(BigInt(Math.max(0, Math.round(value))))
  return bytes
}

/** Many 32-bit numbers. There may be millions, so they are not written one by one. */
export const u32s = (values: ArrayLike<number>): Buffer => {
  const bytes = Buffer.from(new Uint32Array(values).buffer)
  return endianness() === 'LE' ? bytes.swap32() : bytes
}

/** The unity matrix: the video is neither rotated nor scaled. */
const UNITY = u32s([0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000])

/** One track of a video: its description, and its sample tables, or none (the samples then follow in fragments). */
export interface BoxTrack {
  id: number
  kind: 'video' | 'audio'
  timescale: number
  /** In units of the timescale. */
  duration: number
  width: number
  height: number
  /** The stsd box. */
  description: Buffer
  /** Boxes of stbl that follow stsd. */
  tables: Buffer[]
  /** Time from the start of the video to the start of the track, in milliseconds. */
  startsAtMs?: number
}

export const FILM_TIMESCALE = 1000

const LANGUAGE_UNDETERMINED = 0x55c4

/** The moov box. `more` are boxes that follow the tracks. */
export function moov(durationMs: number, tracks: readonly BoxTrack[], ...more: Buffer[]): Buffer {
  const mvhd = fullBox(
    'mvhd',
    1,
    0,
    u64(0),
    u64(0),
    FILM_TIMESCALE,
    u64(durationMs),
    0x10000,
    u16(0x100),
    Buffer.alloc(10),
    UNITY,
    Buffer.alloc(24),
    tracks.length + 1,
  )
  return box('moov', mvhd, ...tracks.flatMap(trak), ...more)
}

function trak({ id, kind, timescale, duration, width, height, description, tables, startsAtMs = 0 }: BoxTrack): Buffer[] {
  const isVideo = kind === 'video'
  const durationMs = Math.round((duration * FILM_TIMESCALE) / timescale)
  const shown = startsAtMs + durationMs
  const tkhd = fullBox(
    'tkhd',
    1,
    3,
    u64(0),
    u64(0),
    id,
    0,
    u64(shown),
    0,
    0,
    u16(0),
    u16(isVideo ? 0 : 1),
    u16(isVideo ? 0 : 0x100),
    u16(0),
    UNITY,
    width * 0x10000,
    height * 0x10000,
  )
  // A pause (media time -1), then the track from its beginning.
  const edits = fullBox('elst', 1, 0, 2, u64(startsAtMs), Buffer.alloc(8, 0xff), 0x10000, u64(durationMs), u64(0), 0x10000)
  const mdhd = fullBox('mdhd', 1, 0, u64(0), u64(0), timescale, u64(duration), u16(LANGUAGE_UNDETERMINED), u16(0))
  const hdlr = fullBox('hdlr', 0, 0, 0, Buffer.from(isVideo ? 'vide' : 'soun', 'latin1'), 0, 0, 0, Buffer.from('Cob\0', 'latin1'))
  const header = isVideo ? fullBox('vmhd', 0, 1, u64(0)) : fullBox('smhd', 0, 0, 0)
  const dinf = box('dinf', fullBox('dref', 0, 0, 1, fullBox('url ', 0, 1)))
  const minf = piecesOf('minf', header, dinf, piecesOf('stbl', description, ...tables))
  return piecesOf('trak', tkhd, ...(startsAtMs > 0 ? [box('edts', edits)] : []), piecesOf('mdia', mdhd, hdlr, minf))
}
