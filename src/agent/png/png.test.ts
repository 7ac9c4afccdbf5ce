// PNGs are lossless: for any screen a decoder gets the same pixels, and all checksums are correct.
import fc from 'fast-check'
import { inflateSync } from 'node:zlib'
import sharp from 'sharp'
import { describe, expect, test } from 'vitest'
import { seeded } from '../../../test/support/seeded.ts'
import type { Pixels } from '../display/display.ts'
import { encodePng } from './png.ts'

type Paint = (x: number, y: number, random: () => number) => number

const noise: Paint = (_x, _y, random) => random() * 2 ** 24
/** Typical screen contents: small steps, and equal pixels beside and below each other. */
const slope: Paint = (x, y) => ((x >> 1) << 16) | ((y >> 2) << 8) | ((x + y) >> 3)
const dither: Paint = (_x, _y, random) => 0x808080 + (random() < 0.3 ? 0x010101 : 0)
const text: Paint = (x, y) => ((x % 9) * (x % 7) * (y % 5) > 20 && y % 12 < 8 ? 0x202122 : 0xffffff)
const grey: Paint = (_x, _y, random) => Math.floor(random() * 30) * 0x010101
const stripes: Paint = (_x, y) => ((y >> 3) * 0x3f5a77) & 0xffffff
const paints: Record<string, Paint> = { noise, slope, dither, text, grey, stripes, black: () => 0, white: () => 0xffffff, red: () => 0xff0000 }
const mixed: Paint = (x, y, random) => Object.values(paints)[((x >> 6) + (y >> 5)) % Object.keys(paints).length]!(x, y, random)

/** A picture as in a framebuffer: rows may have padding, and the unused byte may have any value. */
function paint(width: number, height: number, pixel: Paint, seed = 1, gap = 0): Pixels {
  const random = seeded(seed)
  const stride = (width + gap) * 4
  const data = Buffer.alloc((height - 1) * stride + width * 4, 0xab)
  const unused = gap % 2 === 0 ? () => 255 : () => Math.floor(random() * 256)
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) data.writeUInt32LE((Math.floor(pixel(x, y, random)) | (unused() << 24)) >>> 0, y * stride + x * 4)
  return { data, stride, width, height }
}

async function piecesOf(pixels: Pixels): Promise<Buffer[]> {
  const pieces: Buffer[] = []
  for await (const piece of encodePng(pixels)) pieces.push(piece)
  return pieces
}

const encoded = async (pixels: Pixels): Promise<Buffer> => Buffer.concat(await piecesOf(pixels))

/** The compressed data of all chunks. */
function compressed(png: Buffer): Buffer {
  const parts: Buffer[] = []
  for (let at = 8; at < png.length; at += png.readUInt32BE(at) + 12)
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT') parts.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)))
  return Buffer.concat(parts)
}

async function expectSame(png: Buffer, { data, stride, width, height }: Pixels): Promise<void> {
  const { data: got, info } = await sharp(png, { failOn: 'warning' }).raw().toBuffer({ resolveWithObject: true })
  expect(info).toMatchObject({ width, height, channels: 3 })
  const wanted = Buffer.alloc(width * height * 3)
  for (let y = 0, to = 0; y < height; y++)
    for (let at = y * stride; at < y * stride + width * 4; at += 4) {
      wanted[to++] = data[at + 2]!
      wanted[to++] = data[at + 1]!
      wanted[to++] = data[at]!
    }
  expect(got.equals(wanted)).toBe(true)
  // The decoder may ignore Adler-32, but inflate checks it.
  expect(inflateSync(compressed(png)).length).toBe((width * 3 + 1) * height)
}

describe('a PNG equals the screen', () => {
  test('for any picture of a small size', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 200 }),
        fc.integer({ min: 1, max: 60 }),
        fc.constantFrom(...Object.values(paints), mixed),
        fc.integer({ min: 1, max: 1e9 }),
        fc.nat(9),
        async (width, height, pixel, seed, gap) => {
          const pixels = paint(width, height, pixel, seed, gap)
          await expectSame(await encoded(pixels), pixels)
        },
      ),
    )
  })

  test('for any bytes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 40 }), fc.uint8Array({ minLength: 160, maxLength: 4000 }), async (width, bytes) => {
        const pixels = { data: Buffer.from(bytes), stride: width * 4, width, height: Math.floor(bytes.length / width / 4) }
        await expectSame(await encoded(pixels), pixels)
      }),
    )
  })

  test.each([
    [1, 1],
    [1, 5000],
    [3, 700],
    [1919, 301],
    [1920, 1080],
    [2560, 1600],
    [8192, 40],
  ])('of %i x %i pixels, across the borders of strips', async (width, height) => {
    for (const pixel of [mixed, noise, paints.white!]) {
      const pixels = paint(width, height, pixel, width)
      await expectSame(await encoded(pixels), pixels)
    }
  })

  test.each([
    ['are rare', (x, y, random) => ((x * 7919 + y * 104_729) % 997 === 0 ? noise(x, y, random) : dither(x, y, random))],
    ['stand where none are counted', (x, y, random) => (x % 16 < 2 ? 0xff0000 : noise(x, y, random))],
  ] satisfies [string, Paint][])('for colours that %s when a code is chosen', async (_what, pixel) => {
    const pixels = paint(1920, 300, pixel, 3)
    await expectSame(await encoded(pixels), pixels)
  })
})

test('a PNG with a row that is too long is refused', async () => {
  await expect(encoded(paint(8193, 1, paints.black!))).rejects.toThrow('8193')
})

test('the pieces of a PNG do not change when the next picture is taken', async () => {
  const pixels = paint(640, 480, mixed)
  const pieces = await piecesOf(pixels)
  const before = Buffer.concat(pieces)
  await encoded(paint(640, 480, noise))
  expect(Buffer.concat(pieces).equals(before)).toBe(true)
  expect((await encoded(pixels)).equals(before)).toBe(true)
})

test('two pictures can be taken at the same time', async () => {
  const both = [paint(900, 700, mixed, 1), paint(901, 699, mixed, 2)]
  const pngs = await Promise.all(both.map(encoded))
  for (const [index, pixels] of both.entries()) await expectSame(pngs[index]!, pixels)
})

test('a picture whose caller leaves leaves nothing behind', async () => {
  const pixels = paint(1920, 300, mixed)
  for await (const _piece of encodePng(paint(1920, 300, noise))) break
  const half = encodePng(paint(1920, 300, noise))
  await half.next()
  await half.next()
  await half.return(undefined)
  await expectSame(await encoded(pixels), pixels)
})

test('the first bytes of a PNG come early, and the event loop runs between pieces', async () => {
  let turns = 0
  let running = true
  const count = () => {
    turns++
    if (running) setImmediate(count)
  }
  setImmediate(count)
  const pieces = await piecesOf(paint(1920, 1080, mixed))
  running = false
  expect(pieces[0]!.toString('latin1', 1, 4)).toBe('PNG')
  expect(pieces.length).toBeGreaterThan(15)
  expect(turns).toBeGreaterThanOrEqual(pieces.length - 3)
})
