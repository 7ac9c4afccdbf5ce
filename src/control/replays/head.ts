// Makes a recording seekable: a head with the whole index, whose samples are in the unchanged recording. The head followed by the recording is
// the film. The head ends with the declaration that all following bytes are samples, so no byte is moved.
import { box, fullBox, moov, u32s, u64 } from '../../base/boxes.ts'
import type { Film, FilmTrack } from './film.ts'

/** The declaration that the next bytes are samples: a box header with a 64-bit length. */
const MDAT_HEAD = 16

/** The head of a film whose recording is `film.length` bytes long; undefined when there is nothing to see in it. */
export function headOf(film: Film): Buffer | undefined {
  const tracks = film.tracks.filter(({ count }) => count > 0)
  if (!tracks.some(({ kind }) => kind === 'video')) return undefined
  const ftyp = box('ftyp', Buffer.from('isom'), 0x200, ...['isom', 'iso2', 'avc1', 'mp41'].map((name) => Buffer.from(name)))
  const make = (offset: number) =>
    moov(
      film.durationMs,
      tracks.map((track) => ({
        id: track.id,
        kind: track.kind,
        timescale: track.timescale,
        width: track.width,
        height: track.height,
        duration: track.until - track.from,
        description: track.description,
        tables: tables(track, offset),
        startsAtMs: Math.round((track.from * 1000) / track.timescale),
      })),
    )
  const length = ftyp.length + make(0).length + MDAT_HEAD
  return Buffer.concat([ftyp, make(length), u32s([1]), Buffer.from('mdat'), u64(MDAT_HEAD + film.length)])
}

function tables(track: FilmTrack, offset: number): Buffer[] {
  const { count, sizes, durations, keys, runs } = track
  const times: number[] = []
  for (let at = 0; at < count; at++) {
    if (times.length > 0 && times.at(-1) === durations[at]) times[times.length - 2]!++
    else times.push(1, durations[at]!)
  }
  // Consecutive samples of equal length need one row.
  const perRun = runs.flatMap((run, index) => (index > 0 && runs[index - 1]!.count === run.count ? [] : [index + 1, run.count, 1]))
  const places = Buffer.allocUnsafe(runs.length * 8)
  runs.forEach(({ at }, index) => places.writeBigUInt64BE(BigInt(offset + at), index * 8))
  return [
    fullBox('stts', 0, 0, times.length / 2, u32s(times)),
    ...(track.kind === 'video' ? [fullBox('stss', 0, 0, keys.length, u32s(keys))] : []),
    fullBox('stsc', 0, 0, perRun.length / 3, u32s(perRun)),
    fullBox('stsz', 0, 0, 0, count, u32s(Array.from(sizes.subarray(0, count)))),
    fullBox('co64', 0, 0, runs.length, places),
  ]
}

/** How much changed on the screen in each of `parts` equal parts of the film, from 0 to 99. */
export function activityOf(film: Film, parts: number): number[] {
  const video = film.tracks.find(({ kind }) => kind === 'video')
  const sums = Array.from({ length: parts }, () => 0)
  if (!video || video.until <= video.from) return sums
  const span = video.until - video.from
  let time = 0
  for (let at = 0; at < video.count; at++) {
    sums[Math.min(parts - 1, Math.floor((time / span) * parts))]! += video.sizes[at]!
    time += video.durations[at]!
  }
  const most = Math.max(...sums)
  return sums.map((sum) => (most === 0 ? 0 : Math.round((Math.log1p(sum) / Math.log1p(most)) * 99)))
}
