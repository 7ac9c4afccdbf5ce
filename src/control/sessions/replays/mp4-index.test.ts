// Parsing recordings: every form that our recorder makes, and no forged ones.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { box, fullBox, u64 } from '../../../base/boxes.ts'
import { AUDIO_ID, fileHead, fragment, stillThere, VIDEO_ID, type Sample } from '../../../agent/recording/fragments.ts'
import { Mp4Index, Unreadable } from './mp4-index.ts'
import { activityOf, mp4HeaderOf } from './mp4-header.ts'

const video = { width: 640, height: 480, avcC: Buffer.from([1, 66, 192, 30, 255, 225, 0, 0, 0]) }
const audio = { rate: 48_000, channels: 2, config: Buffer.from([0x11, 0x90]) }
const sample = (at: number, duration: number, size: number, isKey = false): Sample => ({ at, duration, isKey, data: Buffer.alloc(size, at) })

const parts = [
  fileHead(video, audio),
  fragment(1, [
    { id: VIDEO_ID, samples: [sample(0, 100, 500, true), sample(100, 150, 20)] },
    { id: AUDIO_ID, samples: [sample(4800, 1024, 30), sample(5824, 1024, 40)] },
  ]),
  stillThere(1_000),
  stillThere(2_000),
  fragment(2, [{ id: VIDEO_ID, samples: [sample(2_500, 100, 77)] }]),
  stillThere(3_000),
]
const whole = Buffer.concat(parts)

/** The bytes up to the end of their first box of this name, with twenty empty boxes added to it. */
function padded(bytes: Buffer, name: string): Buffer {
  const at = bytes.indexOf(name) - 4
  const inside = bytes.subarray(at + 8, at + bytes.readUInt32BE(at))
  return Buffer.concat([bytes.subarray(0, at), box(name, inside, ...Array.from({ length: 20 }, () => box('free')))])
}

function read(bytes: Buffer, piece = bytes.length): Mp4Index {
  const index = new Mp4Index()
  for (let at = 0; at < bytes.length; at += piece) index.push(bytes.subarray(at, at + piece))
  return index
}

test.each([1, 3, 7, 100, 10_000])('a recording read in pieces of %d bytes gives the same index', (piece) => {
  const index = read(whole, piece)
  const [pictures, sound] = index.tracks
  expect(index.length).toBe(whole.length)
  expect(index.durationMs).toBe(3_000)
  expect([...pictures!.sizes.subarray(0, pictures!.count)]).toEqual([500, 20, 77])
  // A frame lasts until the next one, or for as long as the recorder says that it was still shown.
  expect([...pictures!.durations.subarray(0, pictures!.count)]).toEqual([100, 2_400, 500])
  expect([...pictures!.keys.subarray(0, pictures!.keyCount)]).toEqual([1])
  expect(sound!.from).toBe(4800)
  expect(pictures!.runs.map(({ at, count }) => whole.subarray(at, at + count).every((byte) => byte === whole[at]))).toEqual([true, true])
  expect(mp4HeaderOf(index)).toEqual(mp4HeaderOf(read(whole)))
  expect(activityOf(index, 3)).toEqual([99, expect.any(Number), expect.any(Number)])
})

test('an incomplete end is dropped, wherever the file is cut', () => {
  const ends = parts.map((_, index) => Buffer.concat(parts.slice(0, index + 1)).length)
  for (let length = 0; length <= whole.length; length++) {
    const index = read(whole.subarray(0, length))
    // A fragment begins with its index, which is useless without its samples.
    expect(index.length).toBeLessThanOrEqual(length)
    const last = Math.max(0, ...ends.filter((end) => end <= length))
    if (last > parts[0]!.length) expect(index.length).toBe(last)
    if (last > ends[0]!) expect(mp4HeaderOf(index)!.readBigUInt64BE(mp4HeaderOf(index)!.length - 8)).toBe(BigInt(16 + index.length))
  }
})

test('a recording without a picture gives no video', () => {
  expect(mp4HeaderOf(read(Buffer.alloc(0)))).toBe(undefined)
  expect(mp4HeaderOf(read(parts[0]!))).toBe(undefined)
})

test.each([
  ['another box', Buffer.concat([parts[0]!, box('evil', u64(1))])],
  ['samples without an index', Buffer.concat([parts[0]!, box('mdat', Buffer.alloc(10))])],
  ['fewer samples than announced', Buffer.concat([parts[0]!, parts[1]!.subarray(0, parts[1]!.readUInt32BE(0)), box('mdat', Buffer.alloc(10))])],
  ['two indexes behind each other', Buffer.concat([parts[0]!, parts[1]!.subarray(0, parts[1]!.readUInt32BE(0)), parts[1]!])],
  ['a second header', Buffer.concat([parts[0]!, parts[0]!])],
  ['a header of megabytes', box('moov', Buffer.alloc(1024 * 1024))],
  ['a header without tracks', box('moov', fullBox('mvhd', 0, 0))],
  ['an unknown track', Buffer.concat([parts[0]!, fragment(1, [{ id: 7, samples: [sample(0, 1, 1)] }])])],
  ['a year', Buffer.concat([parts[0]!, fragment(1, [{ id: VIDEO_ID, samples: [sample(365 * 24 * 3600_000, 1, 1)] }])])],
  ['time that goes back', Buffer.concat([parts[0]!, parts[4]!, fragment(1, [{ id: VIDEO_ID, samples: [sample(0, 1, 1)] }])])],
  ['a header with very many boxes in it', padded(parts[0]!, 'moov')],
  ['an index with very many boxes in it', Buffer.concat([parts[0]!, padded(parts[1]!, 'moof')])],
  [
    'an index of more samples than a recorder makes',
    Buffer.concat([parts[0]!, fragment(1, [{ id: VIDEO_ID, samples: Array.from({ length: 22_000 }, (_, at) => sample(at, 1, 0)) }])]),
  ],
  ['a box that is too short', Buffer.from([0, 0, 0, 4, ...Buffer.from('free')])],
])('%s is refused', (_what, bytes) => {
  expect(() => read(bytes)).toThrow(Unreadable)
  expect(() => read(bytes, 5)).toThrow(Unreadable)
})

test('a recording has no more samples and boxes than its time allows; what was read of it is dropped', () => {
  let allowed = 20
  const index = new Mp4Index(() => allowed)
  index.push(whole)
  expect(index.durationMs).toBe(3_000)
  const boxes = Buffer.concat(Array.from({ length: 20 }, () => box('free')))
  expect(() => index.push(boxes)).toThrow('more samples and boxes than a recorder makes in its time')
  expect([index.tracks, index.durationMs]).toEqual([[], 3_000])
  allowed = 40
  const later = new Mp4Index(() => allowed)
  later.push(Buffer.concat([whole, boxes]))
  expect(later.length).toBe(whole.length + boxes.length)
})

test('changed bytes are read or refused, and never cause another error', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ at: fc.nat(whole.length - 1), to: fc.nat(255) }), { minLength: 1, maxLength: 6 }),
      fc.integer({ min: 1, max: 500 }),
      (changes, piece) => {
        const bytes = Buffer.from(whole)
        for (const { at, to } of changes) bytes[at] = to
        const index = new Mp4Index()
        try {
          for (let at = 0; at < bytes.length; at += piece) index.push(bytes.subarray(at, at + piece))
        } catch (error) {
          expect(error).toBeInstanceOf(Unreadable)
          expect(index.problem).toBe(error)
          return
        }
        expect(index.length).toBeLessThanOrEqual(bytes.length)
        mp4HeaderOf(index)
        activityOf(index, 120)
      },
    ),
    { numRuns: 3_000 },
  )
})

test('the header of an hour at the full frame rate takes little CPU time', () => {
  const index = new Mp4Index()
  index.push(fileHead(video, undefined))
  for (let second = 0; second < 3_600; second++)
    index.push(fragment(second + 1, [{ id: VIDEO_ID, samples: Array.from({ length: 20 }, (_, at) => sample(second * 1000 + at * 50, 50, 100)) }]))
  const from = process.cpuUsage()
  expect(mp4HeaderOf(index)!.length).toBeGreaterThan(72_000 * 4)
  expect(process.cpuUsage(from).user / 1000).toBeLessThan(2_000)
})
