// The work on every pixel. png.ts defines the memory: `words` and `view` are all of it, and positions are in words. V8 makes fast code of these loops
// because nearly all of their numbers are 32-bit integers.

/** Writes residuals, `row` minus `other`. Returns the sum of their bytes, and the sum weighted by the distance from the row's end. */
export function filter(words: Int32Array, row: number, other: number, out: number, width: number): { sum: number; weighted: number } {
  let sum = 0
  let less = 0
  let weighted = 0
  for (let x = 0; x < width; x++) {
    const a = words[row + x]!
    const b = words[other + x]!
    // Three bytes at once: the highest bit of each is set, so that no byte borrows from the next, and corrected afterwards.
    const residual = (((a & 0xffffff) | 0x808080) - (b & 0x7f7f7f)) ^ ((a ^ ~b) & 0x808080)
    words[out + x] = residual
    const green = (residual >> 8) & 255
    const blue = residual & 255
    sum = (sum + (residual >> 16) + green + blue) | 0
    less = (less + green + 2 * blue) | 0
    weighted += sum
  }
  return { sum, weighted: 3 * weighted - less }
}

/** Adds to `counts` how often each byte occurs among every `step`-th of the literals. */
export function count(words: Int32Array, token: number, end: number, step: number, counts: Uint32Array): void {
  for (; token < end; token += 4) {
    const to = words[token + 1]!
    for (let at = words[token]!; at < to; at += step) {
      const residual = words[at]!
      counts[residual >> 16]! += step
      counts[(residual >> 8) & 255]! += step
      counts[residual & 255]! += step
    }
  }
}

/** Writes tokens from a bit position on, and returns the position after them. */
export function write(words: Int32Array, view: DataView, token: number, end: number, bit: number): number {
  let at = bit >> 3
  let bits = bit & 7
  let waiting = view.getUint8(at)
  for (; token < end; token += 4) {
    const to = words[token + 1]!
    for (let source = words[token]!; source < to; source++) {
      const residual = words[source]!
      const red = words[residual >> 16]!
      const green = words[(residual >> 8) & 255]!
      const blue = words[residual & 255]!
      const two = (red & 63) + (green & 63)
      // At most 7 bits are pending. The codes of a pixel usually have 20 bits together; each has at most 15.
      if (two + (blue & 63) <= 25) {
        waiting |= ((red >> 6) | ((green >> 6) << (red & 63)) | ((blue >> 6) << two)) << bits
        bits += two + (blue & 63)
      } else {
        waiting |= (red >> 6) << bits
        bits += red & 63
        view.setInt32(at, waiting, true)
        at += bits >> 3
        waiting = (waiting >>> (bits & 24)) | ((green >> 6) << (bits &= 7))
        bits += green & 63
        view.setInt32(at, waiting, true)
        at += bits >> 3
        waiting = (waiting >>> (bits & 24)) | ((blue >> 6) << (bits &= 7))
        bits += blue & 63
      }
      view.setInt32(at, waiting, true)
      at += bits >> 3
      waiting = bits === 32 ? 0 : waiting >>> (bits & 24)
      bits &= 7
    }
    for (let part = 2; part < 4; part++) {
      const code = words[token + part]!
      waiting |= (code >>> 6) << bits
      bits += code & 63
      view.setInt32(at, waiting, true)
      at += bits >> 3
      // A distance with its extra bits can fill the word.
      waiting = bits === 32 ? 0 : waiting >>> (bits & 24)
      bits &= 7
    }
  }
  return at * 8 + bits
}
