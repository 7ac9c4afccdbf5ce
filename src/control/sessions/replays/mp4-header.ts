// Makes a recording seekable: a header with the whole index, whose samples are in the unchanged recording. The header followed by the recording is
// the video. The header ends with the declaration that all following bytes are samples, so no byte is moved.
import { box, fullBox, moov, u32s, u64 } from '../../../base/boxes.ts'
import type { Mp4Index, Mp4Track } from './mp4-index.ts'

/** The declaration that the next bytes are samples: a box header with a 64-bit length. */
const MDAT_HEADER = 16

/** The header of a video whose recording is `index.length` bytes long; undefined when there is nothing to see in it. */
export function mp4HeaderOf(index: Mp4Index): Buffer | undefined {
  const tracks = index.tracks.filter(({ count }) => count > 0)
  if (!tracks.some(({ kind }) => kind === 'video')) return undefined
  const ftyp = box('ftyp', Buffer.from('isom'), 0x200, ...['isom', 'iso2', 'avc1', 'mp41'].map((name) => Buffer.from(name)))
  // A hostile session's recording may have millions of samples: the tables that do not depend on the length of the header are made once.
  const made = tracks.map((track) => ({ track, fixed: tables(track) }))
  const make = (offset: number) =>
    moov(
      index.durationMs,
      made.map(({ track, fixed }) => ({
        id: track.id,
        kind: track.kind,
        timescale: track.timescale,
        width: track.width,
        height: track.height,
        duration: track.until - track.from,
        description: track.description,
        tables: [...fixed, placesOf(track, offset)],
        startsAtMs: Math.round((track.from * 1000) / track.timescale),
      })),
    )
  const length = ftyp.length + make(0).length + MDAT_HEADER
  return Buffer.concat([ftyp, make(length), u32s([1]), Buffer.from('mdat'), u64(MDAT_HEADER + index.length)])
}

function tables(track: Mp4Track): Buffer[] {
  const { count, sizes, durations, keys, keyCount, runs } = track
  const times = new Uint32Array(2 * count)
  let rows = 0
  for (let at = 0; at < count; at++) {
    if (rows > 0 && times[2 * rows - 1] === durations[at]) times[2 * rows - 2]!++
    else {
      times[2 * rows] = 1
      times[2 * rows + 1] = durations[at]!
      rows++
    }
  }
  // Consecutive samples of equal length need one row.
  const perRun: number[] = []
  for (let index = 0; index < runs.length; index++)
    if (index === 0 || runs[index - 1]!.count !== runs[index]!.count) perRun.push(index + 1, runs[index]!.count, 1)
  return [
    fullBox('stts', 0, 0, rows, u32s(times.subarray(0, 2 * rows))),
    ...(track.kind === 'video' ? [fullBox('stss', 0, 0, keyCount, u32s(keys.subarray(0, keyCount)))] : []),
    fullBox('stsc', 0, 0, perRun.length / 3, u32s(perRun)),
    fullBox('stsz', 0, 0, 0, count, u32s(sizes.subarray(0, count))),
  ]
}

/** Where each group of samples begins in a video whose recording begins at `offset`. */
function placesOf({ runs }: Mp4Track, offset: number): Buffer {
  const places = new Uint32Array(2 * runs.length)
  for (let index = 0; index < runs.length; index++) {
    const place = offset + runs[index]!.at
    places[2 * index] = Math.floor(place / 2 ** 32)
    places[2 * index + 1] = place % 2 ** 32
  }
  return fullBox('co64', 0, 0, runs.length, u32s(places))
}

/** How much changed on the screen in each of `parts` equal parts of the video, from 0 to 99. */
export function activityOf(index: Mp4Index, parts: number): number[] {
  const video = index.tracks.find(({ kind }) => kind === 'video')
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
