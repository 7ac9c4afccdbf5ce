// Encodes pixels of the screen as a PNG, strip by strip. The per-pixel work is in loops.ts. Times and sizes, beside those of libraries, are in
// docs/decisions/0003-display-xvfb.md.
import { setImmediate as turn } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import type { Pixels } from '../display/display.ts'
import { count, filter, write } from './loops.ts'

/** Pixels per strip; each strip has its own prefix code and takes 1 ms. With twice as many the rich page is 3 % larger, with half 7 % slower. */
const STRIP = 1 << 17
/** Pixels of a row; screens have at most 7680. */
const MAX_WIDTH = 8192

/** Row filters (PNG, 9.2): the difference from the pixel on the left, or from the one above. */
const [SUB, UP] = [1, 2]

// Symbols of deflate (RFC 1951, 3.2.5): literal bytes, end of block, lengths; and distances.
const [END, LENGTHS, SYMBOLS, DISTANCES] = [256, 257, 286, 30]
const MAX_BITS = 15
/** With up to 13 extra bits, and 6 bits for the total length, a distance code has to fit into a 32-bit word. */
const MAX_DISTANCE_BITS = 12
/** Pixels of the longest match, 258 bytes. */
const MAX_MATCH = 86
/** When more pixels than this are written as literals, only every 16th is counted to choose the code: 0.1 % larger, but 4 ms faster. */
const SAMPLED = 1 << 15
/** Pixels after a run of zeros that are looked up among earlier ones. Pages of text become 40 % smaller, for 1.3 ms. */
const LOOK_UPS = 32

// The memory layout, in bytes. At 0 are the codes of the symbols, one word each: the bits, and in the lowest 6 bits their number. A zero
// pixel follows.
const ZERO = 4224
/** Two row buffers, for the current row and the one above, which swap. Left of each is a black pixel. */
const ROW = MAX_WIDTH * 4 + 64
const ROWS = [8192, 8192 + ROW] as const
const RESIDUALS = 8192 + 2 * ROW
const TOKENS = RESIDUALS + STRIP * 4
const OUT = TOKENS + STRIP * 8
const SIZE = OUT + STRIP * 6 + 4096

/**
 * Yields a PNG (8 bits, RGB) in chunks, one per strip; the event loop runs between them. The pixels must not change until the end, so read all chunks
 * at full speed even for a slow client. The caller may keep the chunks.
 */
export async function* encodePng(pixels: Pixels): AsyncGenerator<Buffer> {
  const { width, height } = pixels
  if (width > MAX_WIDTH) throw new Error(`rows of ${width} pixels are too long`)
  const head = Buffer.from([0, 0, width >> 8, width, 0, height >> 16, height >> 8, height, 8, 2, 0, 0, 0])
  yield Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', head), chunk('IDAT', Buffer.from([0x78, 1]))])
  const encoder = (shared ??= new Encoder())
  const adler: Adler = { low: 1, high: 0, length: width * 3 + 1 }
  const rows = Math.floor(STRIP / (width + 4))
  for (let from = 0; from < height; from += rows) {
    yield chunk('IDAT', encoder.encode(pixels, from, Math.min(height, from + rows), adler))
    await turn()
  }
  // An empty last block, and the checksum.
  const { low, high } = adler
  yield Buffer.concat([chunk('IDAT', Buffer.from([3, 0, high >> 8, high, low >> 8, low])), chunk('IEND', Buffer.alloc(0))])
}

function chunk(type: string, data: Buffer): Buffer {
  const out = Buffer.allocUnsafeSlow(data.length + 12)
  out.writeUInt32BE(data.length, 0)
  out.write(type, 4, 'latin1')
  data.copy(out, 8)
  out.writeUInt32BE(crc32(out.subarray(4, data.length + 8)), data.length + 8)
  return out
}

/** Adler-32 of all filtered bytes so far, in its two halves. `length` is that of a row, including its filter byte. */
type Adler = Record<'low' | 'high' | 'length', number>

/** Adds a row: its filter byte, the sum of its other bytes, and their sum weighted by the distance from the end. */
function addRow(adler: Adler, filtered: number, sum: number, weighted: number): void {
  adler.high = (adler.high + adler.length * (adler.low + filtered) + weighted) % 65_521
  adler.low = (adler.low + filtered + sum) % 65_521
}

let shared: Encoder | undefined

/**
 * Encodes strips. The filter turns pixels into residuals, one word each. Residuals become tokens of four words: start and end of the residuals that
 * are written as literals, then a length and a distance in pixels, or 0 and a symbol (-1 for none).
 */
class Encoder {
  readonly #memory = new ArrayBuffer(SIZE)
  readonly #words = new Int32Array(this.#memory)
  readonly #bytes = Buffer.from(this.#memory)
  readonly #view = new DataView(this.#memory)
  readonly #counts = new Uint32Array(SYMBOLS)
  readonly #distances = new Uint32Array(DISTANCES)
  /** The last position of three pixels, by their hash; verified before use. */
  readonly #seen = new Int32Array(4096)
  #present = 0
  #token = 0
  #literals = 0

  /** Returns the strip's part of the compressed data in whole bytes, valid until the next strip. */
  encode(pixels: Pixels, from: number, to: number, adler: Adler): Buffer {
    const { width, stride, data } = pixels
    this.#counts.fill(0)
    this.#distances.fill(0)
    this.#token = TOKENS >> 2
    this.#literals = 0
    const above = ROWS[this.#present]!
    if (from > 0) data.copy(this.#bytes, above, (from - 1) * stride, (from - 1) * stride + width * 4)
    else this.#bytes.fill(0, above, above + width * 4)
    for (let y = from, residuals = RESIDUALS >> 2; y < to; y++, residuals += width) this.#row(pixels, y, residuals, adler)
    this.#add(0, 0, 0, END)
    return this.#bytes.subarray(OUT, this.#write())
  }

  #row({ width, stride, data }: Pixels, y: number, residuals: number, adler: Adler): void {
    const words = this.#words
    const at = y * stride
    const length = width * 4
    if (y > 0 && data.compare(data, at - stride, at - stride + length, at, at + length) === 0) {
      addRow(adler, UP, 0, 0)
      this.#add(0, 0, 0, UP)
      this.#match(ZERO >> 2, (ZERO >> 2) + 1, width - 1, 1)
      return
    }
    const above = ROWS[this.#present]! >> 2
    const row = ROWS[(this.#present ^= 1)]! >> 2
    data.copy(this.#bytes, row * 4, at, at + length)
    let gain = 0
    for (let x = 0; x < width; x += 16) gain += unlike(words[row + x]!, words[row + x - 1]!) - unlike(words[row + x]!, words[above + x]!)
    const chosen = gain > 0 ? UP : SUB
    const other = gain > 0 ? above : row - 1
    const { sum, weighted } = filter(words, row, other, residuals, width)
    addRow(adler, chosen, sum, weighted)
    this.#add(0, 0, 0, chosen)
    this.#find(residuals, residuals + width)
  }

  /** Makes tokens of a row's residuals: finds runs of zeros, and after each run a repeat of earlier pixels. Positions are in words. */
  #find(start: number, end: number): void {
    const words = this.#words
    let from = start
    for (let x = start; x + 3 < end;) {
      if ((words[x]! | words[x + 1]! | words[x + 2]! | words[x + 3]!) !== 0) {
        x += 4
        continue
      }
      let first = x
      while (first > from && words[first - 1] === 0) first--
      for (x += 4; x + 3 < end && (words[x]! | words[x + 1]! | words[x + 2]! | words[x + 3]!) === 0;) x += 4
      while (x < end && words[x] === 0) x++
      this.#match(from, first + 1, x - first - 1, 1)
      from = x
      // A small difference after the run is a gradient; looking it up would cost 4 ms for 3 %.
      if (x < end && (((words[x]! >> 8) + 1) & 255) < 3) continue
      for (let left = LOOK_UPS; left > 0 && x + 2 < end; left--) {
        const hash = Math.imul(words[x]! ^ (words[x + 1]! << 5) ^ (words[x + 2]! << 10), 0x9e3779b1) >>> 20
        const before = this.#seen[hash]!
        this.#seen[hash] = x
        let length = 0
        if (before >= start && before < x) while (x + length < end && words[before + length] === words[x + length]) length++
        if (length < 3) x++
        else {
          this.#match(from, x, length, x - before)
          from = x += length
          left = LOOK_UPS
        }
      }
    }
    this.#match(from, end, 0, 0)
  }

  #match(from: number, to: number, length: number, distance: number): void {
    this.#add(from, to, Math.min(length, MAX_MATCH), length > 0 ? distance : -1)
    for (let rest = length - MAX_MATCH; rest > 0; rest -= MAX_MATCH) this.#add(0, 0, Math.min(rest, MAX_MATCH), distance)
  }

  #add(from: number, to: number, length: number, value: number): void {
    const words = this.#words
    words[this.#token] = from
    words[this.#token + 1] = to
    words[this.#token + 2] = length
    words[this.#token + 3] = value
    this.#token += 4
    this.#literals += to - from
    if (length > 0) {
      this.#counts[LENGTHS + (place(length * 3 - 3, 2) & 255)]!++
      this.#distances[place(value * 3 - 1, 1) & 255]!++
    } else if (value >= 0) this.#counts[value]!++
  }

  /** Writes all tokens as one block, then an empty stored block to fill the last byte. Returns the end. */
  #write(): number {
    const [words, bytes, counts] = [this.#words, this.#bytes, this.#counts]
    const step = this.#literals > SAMPLED ? 16 : 1
    count(words, TOKENS >> 2, this.#token, step, counts)
    const lengths = [codeLengths(counts, MAX_BITS), codeLengths(this.#distances, MAX_DISTANCE_BITS)] as const
    const [codes, distances] = [codesOf(lengths[0]), codesOf(lengths[1])]
    words.set(codes)
    for (let at = TOKENS >> 2; at < this.#token; at += 4) {
      const length = words[at + 2]!
      const value = words[at + 3]!
      words[at + 2] = length > 0 ? withExtra(codes, LENGTHS, place(length * 3 - 3, 2)) : value < 0 ? 0 : codes[value]!
      words[at + 3] = length > 0 ? withExtra(distances, 0, place(value * 3 - 1, 1)) : 0
    }
    let bit = OUT * 8
    bytes[OUT] = 0
    const put = (value: number, bits: number) => {
      bytes.writeUInt32LE(bytes[bit >> 3]! | (value << (bit & 7)), bit >> 3)
      bit += bits
    }
    // A block with dynamic codes for 286 and 30 symbols, whose lengths are all written with 4 bits.
    put(4 | (29 << 3) | (29 << 8) | (15 << 13), 17)
    for (const length of [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]) put(length > 15 ? 0 : 4, 3)
    for (const part of lengths) for (const length of part) put(reversed(length, 4), 4)
    return bytes.writeUInt32BE(0xffff, (write(words, this.#view, TOKENS >> 2, this.#token, bit) + 10) >> 3)
  }
}

/** How different two pixels are, by their green value. Above 16 the difference does not change the number of bits. */
const unlike = (a: number, b: number): number => Math.min(16, Math.abs(((a >> 8) & 255) - ((b >> 8) & 255)))

/** Position of a value on a scale of `1 << bits` symbols per power of two: the symbol (8 bits), the number of its extra bits (4), the extra bits. */
function place(value: number, bits: number): number {
  if (value < 2 << bits) return value
  if (value === 255 && bits === 2) return 28 // the longest match has its own symbol
  const extra = 31 - Math.clz32(value) - bits
  return (((extra + 1) << bits) + ((value >> extra) & ((1 << bits) - 1))) | (extra << 8) | ((value & ((1 << extra) - 1)) << 12)
}

function withExtra(codes: Int32Array, base: number, at: number): number {
  const code = codes[base + (at & 255)]!
  return (((code >> 6) | ((at >> 12) << (code & 63))) << 6) | ((code & 63) + ((at >> 8) & 15))
}

/** Code lengths that give every symbol a code: Shannon's lengths, then the unused code space goes to the symbols that gain most. */
function codeLengths(counts: Uint32Array, limit: number): Uint8Array {
  let total = 1
  for (const count of counts) total += count
  // Added to each count, so that no symbol needs more bits than the limit.
  const least = (total / ((1 << limit) - counts.length)) * 1.001
  const whole = total + least * counts.length
  const lengths = new Uint8Array(counts.length)
  let space = 1 << limit
  for (let symbol = 0; symbol < lengths.length; symbol++) {
    lengths[symbol] = Math.max(1, Math.ceil(Math.log2(whole / (counts[symbol]! + least))))
    space -= 1 << (limit - lengths[symbol]!)
  }
  for (let gain = 2; space > 0; gain *= 0.75)
    for (let symbol = 0; symbol < lengths.length; symbol++) {
      const length = lengths[symbol]!
      const cost = 1 << (limit - length)
      if (cost > space || length === 1 || (counts[symbol]! + least) * (1 << length) < gain * whole) continue
      space -= cost
      lengths[symbol] = length - 1
    }
  return lengths
}

/** The canonical code of these lengths (RFC 1951, 3.2.2), in the table's form: the bits, first one lowest, and in the lowest 6 bits their number. */
function codesOf(lengths: Uint8Array): Int32Array {
  const codes = new Int32Array(lengths.length)
  for (let length = 1, code = 0; length <= MAX_BITS; length++, code <<= 1)
    for (let symbol = 0; symbol < lengths.length; symbol++) if (lengths[symbol] === length) codes[symbol] = (reversed(code++, length) << 6) | length
  return codes
}

function reversed(value: number, bits: number): number {
  let out = 0
  for (let bit = 0; bit < bits; bit++) out |= ((value >> bit) & 1) << (bits - 1 - bit)
  return out
}
