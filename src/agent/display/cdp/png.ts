// Pixels of a PNG as Chromium writes it: 8 bits a colour, with or without alpha, not interlaced.
import { promisify } from 'node:util'
import { inflate } from 'node:zlib'
import type { Pixels } from '../display.ts'

const inflated = promisify(inflate)

/** The colour types of PNG that are read, and the bytes of their pixels. */
const COLOURS: Readonly<Record<number, number>> = { 2: 3, 6: 4 }
/** Signature and IHDR. */
const HEAD_BYTES = 8 + 25

/** Decodes a picture of at most `maxBytes` of pixels. @throws when it is another kind of PNG, or larger */
export async function decodePng(png: Buffer, maxBytes: number): Promise<Pixels> {
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)]
  const size = COLOURS[png[25]!]
  if (png.toString('latin1', 12, 16) !== 'IHDR' || png[24] !== 8 || size === undefined || png[28] !== 0) throw new Error('the browser sent no PNG of colours')
  if (width * height * 4 > maxBytes) throw new Error(`the browser sent a picture of ${width}x${height}`)
  const parts: Buffer[] = []
  for (let at = HEAD_BYTES; at + 8 <= png.length; at += png.readUInt32BE(at) + 12)
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT') parts.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)))
  const row = width * size
  const rows: Buffer = await inflated(Buffer.concat(parts), { maxOutputLength: (row + 1) * height })
  if (rows.length !== (row + 1) * height) throw new Error('the browser sent a part of a picture')
  const data = Buffer.allocUnsafeSlow(width * height * 4)
  for (let y = 0; y < height; y++) {
    const at = y * (row + 1) + 1
    unfilter(rows, at, row, size, rows[at - 1]!, y > 0)
    for (let from = at, to = y * width * 4; from < at + row; from += size, to += 4) {
      data[to] = rows[from + 2]!
      data[to + 1] = rows[from + 1]!
      data[to + 2] = rows[from]!
      data[to + 3] = 0
    }
  }
  return { data, stride: width * 4, width, height }
}

/** Undoes the filter of one row (PNG, 9.2) in place. The row above is before it, and a byte for its own filter between them. */
function unfilter(rows: Buffer, at: number, length: number, size: number, filter: number, hasAbove: boolean): void {
  const up = length + 1
  for (let from = at; from < at + length; from++) {
    const left = from - at >= size ? rows[from - size]! : 0
    const above = hasAbove ? rows[from - up]! : 0
    if (filter === 1) rows[from] = rows[from]! + left
    else if (filter === 2) rows[from] = rows[from]! + above
    else if (filter === 3) rows[from] = rows[from]! + ((left + above) >> 1)
    else if (filter === 4) rows[from] = rows[from]! + paeth(left, above, hasAbove && from - at >= size ? rows[from - up - size]! : 0)
  }
}

function paeth(left: number, above: number, corner: number): number {
  const guess = left + above - corner
  const [toLeft, toAbove, toCorner] = [Math.abs(guess - left), Math.abs(guess - above), Math.abs(guess - corner)]
  return toLeft <= toAbove && toLeft <= toCorner ? left : toAbove <= toCorner ? above : corner
}
