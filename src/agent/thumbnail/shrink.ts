// Makes a small picture of a large one.
import type { Pixels } from '../display/display.ts'

/**
 * Pixels of the large picture that are averaged for one of the small one, in each direction: with one, text becomes noise; with all, a 1080p screen takes three
 * times as long.
 */
const SAMPLES = 3

/** A picture whose longer side has at most `side` pixels, with the proportions of `from`. `from.data` begins at a multiple of 4, and so does each row. */
export function shrink({ data, stride, width, height }: Pixels, side: number): Pixels {
  const scale = Math.max(1, width / side, height / side)
  const [w, h] = [Math.max(1, Math.round(width / scale)), Math.max(1, Math.round(height / scale))]
  const source = new Uint32Array(data.buffer, data.byteOffset, data.length >> 2)
  const small = Buffer.allocUnsafeSlow(w * h * 4)
  const into = new Uint32Array(small.buffer)
  const place = (count: number, from: number) =>
    Uint32Array.from({ length: count * SAMPLES }, (_, at) => Math.min(from - 1, Math.floor(((at + 0.5) * from) / (count * SAMPLES))))
  const [columns, rows] = [place(w, width), place(h, height)]
  const row = stride >> 2
  for (let y = 0; y < h; y++)
    for (let x = 0; x < w; x++) {
      // Red and blue are summed in one number, 16 bits apart.
      let [ends, middle] = [0, 0]
      for (let down = 0; down < SAMPLES; down++) {
        const line = rows[y * SAMPLES + down]! * row
        for (let across = 0; across < SAMPLES; across++) {
          const pixel = source[line + columns[x * SAMPLES + across]!]!
          ends += pixel & 0xff00ff
          middle += pixel & 0xff00
        }
      }
      const count = SAMPLES * SAMPLES
      into[y * w + x] = (Math.round((ends >>> 16) / count) << 16) | (Math.round((middle >>> 8) / count) << 8) | Math.round((ends & 0xffff) / count)
    }
  return { data: small, stride: w * 4, width: w, height: h }
}
