// Pictures of the browser are read whatever filter their rows have, and refused when they are not what was asked for.
import { deflateSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { decodePng } from './png.ts'

const [WIDTH, HEIGHT] = [5, 10]

/** A PNG chunk. Its checksum is not read. */
function chunk(type: string, data: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(data.length)
  return Buffer.concat([length, Buffer.from(type, 'latin1'), data, Buffer.alloc(4)])
}

function png(colours: 3 | 4, rows: Buffer, bits = 8): Buffer {
  const head = Buffer.alloc(13)
  head.writeUInt32BE(WIDTH, 0)
  head.writeUInt32BE(HEIGHT, 4)
  head[8] = bits
  head[9] = colours === 3 ? 2 : 6
  const packed = deflateSync(rows)
  const [first, second] = [packed.subarray(0, 20), packed.subarray(20)]
  const signature = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')
  return Buffer.concat([signature, chunk('IHDR', head), chunk('IDAT', first), chunk('IDAT', second), chunk('IEND', Buffer.alloc(0))])
}

/** What a filter subtracts (PNG, 9.2): the byte on the left, the one above, the mean of both, or the one that is next to their sum less the corner. */
function predicted(filter: number, left: number, above: number, corner: number): number {
  const guess = left + above - corner
  const nearest = [left, above, corner].toSorted((a, b) => Math.abs(guess - a) - Math.abs(guess - b))[0]!
  return [0, left, above, (left + above) >> 1, nearest][filter]!
}

test.each([3, 4] as const)('rows with each filter, %i bytes a pixel', async (colours) => {
  const value = (x: number, y: number, channel: number) => (x * 50 + y * 31 + channel * 77 + x * y * 13) % 256
  const at = (x: number, y: number, channel: number) => (x < 0 || y < 0 ? 0 : value(x, y, channel))
  const rows = Array.from({ length: HEIGHT }, (_, y) => {
    const filter = y % 5
    const bytes = Array.from({ length: WIDTH * colours }, (_, index) => {
      const [x, c] = [Math.floor(index / colours), index % colours]
      return (at(x, y, c) - predicted(filter, at(x - 1, y, c), at(x, y - 1, c), at(x - 1, y - 1, c))) & 255
    })
    return Buffer.from([filter, ...bytes])
  })
  const { data, stride, width, height } = await decodePng(png(colours, Buffer.concat(rows)), 1_000)
  expect([stride, width, height]).toEqual([WIDTH * 4, WIDTH, HEIGHT])
  for (let y = 0; y < HEIGHT; y++)
    for (let x = 0; x < WIDTH; x++)
      expect([...data.subarray(y * stride + x * 4, y * stride + x * 4 + 3)]).toEqual([value(x, y, 2), value(x, y, 1), value(x, y, 0)])
})

const EMPTY = Buffer.alloc(HEIGHT * (1 + WIDTH * 3))

test.each([
  ['larger than asked for', png(3, EMPTY), WIDTH * HEIGHT * 4 - 1],
  ['of 16 bits', png(3, EMPTY, 16), 1_000],
  ['cut off', png(3, EMPTY.subarray(0, 40)), 1_000],
  ['with more rows than it says', png(3, Buffer.alloc(100_000)), 1_000],
  ['that is none', Buffer.from('<!doctype html>'.repeat(10)), 1_000],
  ['that is empty', Buffer.alloc(0), 1_000],
])('a picture %s is refused', async (_, picture, maxBytes) => {
  await expect(decodePng(picture, maxBytes)).rejects.toThrow()
})
