// Writes a fragmented MP4: a header, then a fragment with its own index about every second, so that the file can be played at any time.
import { box, fullBox, moov, u16, u32, u32s, u64 } from '../../base/boxes.ts'

/** One encoded picture, or one piece of sound. */
export interface Sample {
  data: Buffer
  /** In units of the track's timescale. */
  at: number
  duration: number
  isKey: boolean
}

export interface VideoTrack {
  width: number
  height: number
  /** The decoder's configuration (ISO/IEC 14496-15, 5.3.3.1). */
  avcC: Buffer
}

export interface AudioTrack {
  rate: number
  channels: number
  /** The decoder's configuration (ISO/IEC 14496-3, 1.6.2.1). */
  config: Buffer
}

export const VIDEO_ID = 1
export const AUDIO_ID = 2
/** Video counts milliseconds, audio its own samples. */
const VIDEO_TIMESCALE = 1000

const SAMPLE_IS_KEY = 0x02000000
const SAMPLE_IS_NO_KEY = 0x01010000

/** The beginning of the file. */
export function fileHead(video: VideoTrack, audio: AudioTrack | undefined): Buffer {
  const brands = ['isom', 'iso5', 'iso6', 'avc1', 'mp41'].map((name) => Buffer.from(name))
  const ftyp = box('ftyp', Buffer.from('isom'), 0x200, ...brands)
  const empty = [fullBox('stts', 0, 0, 0), fullBox('stsc', 0, 0, 0), fullBox('stsz', 0, 0, 0, 0), fullBox('stco', 0, 0, 0)]
  const none = { duration: 0, tables: empty }
  const tracks = [
    { ...none, id: VIDEO_ID, kind: 'video' as const, timescale: VIDEO_TIMESCALE, width: video.width, height: video.height, description: describeVideo(video) },
    ...(audio ? [{ ...none, id: AUDIO_ID, kind: 'audio' as const, timescale: audio.rate, width: 0, height: 0, description: describeAudio(audio) }] : []),
  ]
  const mvex = box('mvex', ...tracks.map(({ id }) => fullBox('trex', 0, 0, id, 1, 0, 0, 0)))
  return Buffer.concat([ftyp, moov(0, tracks, mvex)])
}

function describeVideo({ width, height, avcC }: VideoTrack): Buffer {
  const name = Buffer.alloc(32)
  const RESOLUTION_72_DPI = 0x480000
  const colours = box('colr', Buffer.from('nclx'), u16(1), u16(1), u16(1), Buffer.from([0]))
  const entry = box(
    'avc1',
    Buffer.alloc(6),
    u16(1),
    Buffer.alloc(16),
    u16(width),
    u16(height),
    RESOLUTION_72_DPI,
    RESOLUTION_72_DPI,
    0,
    u16(1),
    name,
    u16(24),
    u16(0xffff),
    box('avcC', avcC),
    colours,
  )
  return fullBox('stsd', 0, 0, 1, entry)
}

function describeAudio({ rate, channels, config }: AudioTrack): Buffer {
  const described = (tag: number, ...content: Buffer[]) => {
    const all = Buffer.concat(content)
    return Buffer.concat([Buffer.from([tag, all.length]), all])
  }
  const decoder = described(4, Buffer.from([0x40, 0x15, 0, 0, 0]), u32(0), u32(0), described(5, config))
  const esds = fullBox('esds', 0, 0, described(3, u16(AUDIO_ID), Buffer.from([0]), decoder, described(6, Buffer.from([2]))))
  const entry = box('mp4a', Buffer.alloc(6), u16(1), u64(0), u16(channels), u16(16), u32(0), u32(rate * 0x10000), esds)
  return fullBox('stsd', 0, 0, 1, entry)
}

/** One fragment: the samples of each track that has some, in order. */
export function fragment(sequence: number, tracks: readonly { id: number; samples: readonly Sample[] }[]): Buffer {
  const filled = tracks.filter(({ samples }) => samples.length > 0)
  // Offsets count from the start of the index; their values do not change its length.
  const index = (offset: number) => {
    let at = offset
    const trafs = filled.map(({ id, samples }) => {
      const tfhd = fullBox('tfhd', 0, 0x020000, id)
      const tfdt = fullBox('tfdt', 1, 0, u64(samples[0]!.at))
      const rows = samples.flatMap(({ duration, data, isKey }) => [duration, data.length, isKey ? SAMPLE_IS_KEY : SAMPLE_IS_NO_KEY])
      const trun = fullBox('trun', 0, 0x701, samples.length, at, u32s(rows))
      at += samples.reduce((sum, { data }) => sum + data.length, 0)
      return box('traf', tfhd, tfdt, trun)
    })
    return box('moof', fullBox('mfhd', 0, 0, sequence), ...trafs)
  }
  const moof = index(index(0).length + 8)
  return Buffer.concat([moof, box('mdat', ...filled.flatMap(({ samples }) => samples.map(({ data }) => data)))])
}

/** Records that the last picture was still on the screen at a time. A fragment would cost a picture; players skip this box. */
export const stillThere = (atMs: number): Buffer => box('free', Buffer.from('cob '), u64(atMs))
