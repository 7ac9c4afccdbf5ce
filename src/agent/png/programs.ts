// The per-pixel work, as WebAssembly: it has vectors and 64-bit integers, and is fast from the first call. Operands that are numbers are constants.
// png.ts defines the memory layout; these are the addresses that the programs use.
import {
  add,
  add64,
  and,
  and64,
  below,
  bytesSub,
  dot,
  I32,
  I64,
  int,
  intsAdd,
  load,
  loadByte,
  loadByteLong,
  loadLong,
  loop,
  narrow,
  or64,
  pattern,
  set,
  shl,
  shl64,
  shortsShr,
  shr,
  shr64,
  store,
  storeLong,
  tee,
  V128,
  vectorAnd,
  vectorLoad,
  vectorStore,
  when,
  widen,
  type Code,
  type Operand,
  type Program,
} from './wasm.ts'

/** How often each byte occurs among residuals: 256 words. */
export const COUNTS = 2048
/** The sums of `filter`: three vectors of four words. */
export const SUMS = 4096

/**
 * Writes residuals, `row` minus `other`, and three vectors to SUMS: column sums of the bytes, the running sum of those, and the correction of the
 * weights of green and blue.
 */
const filter: Program = (local, row, other, out, end) => {
  const [pixels, green, sums, twice, less] = [local(V128), local(V128), local(V128), local(V128), local(V128)]
  const four = [
    ...vectorStore(out, tee(pixels, vectorAnd(bytesSub(vectorLoad(row), vectorLoad(other)), pattern(255, 255, 255, 0)))),
    ...set(green, dot(shortsShr(pixels, int(8)), pattern(1, 0, 0, 0))),
    ...set(pixels, vectorAnd(pixels, pattern(255, 0, 255, 0))),
    ...set(less, intsAdd(less, intsAdd(green, dot(pixels, pattern(2, 0, 0, 0))))),
    ...set(sums, intsAdd(sums, intsAdd(green, dot(pixels, pattern(1, 0, 1, 0))))),
    ...set(twice, intsAdd(twice, sums)),
    ...set(row, add(row, 16)),
    ...set(other, add(other, 16)),
  ]
  const results = [...vectorStore(SUMS, sums), ...vectorStore(SUMS + 16, twice), ...vectorStore(SUMS + 32, less)]
  return [...loop(four, below(tee(out, add(out, 16)), end)), ...results, ...int(0)]
}

/** Loops over tokens, and over the residuals of each. */
const eachToken = (token: Code, end: Code, source: Code, stop: Code, step: Operand, residual: Code, rest: Code): Code =>
  loop(
    [...set(stop, load(token, 4)), ...when(below(tee(source, load(token)), stop), loop(residual, below(tee(source, add(source, step)), stop))), ...rest],
    below(tee(token, add(token, 16)), end),
  )

/** Counts the bytes of residuals in COUNTS. */
const count: Program = (local, token, end, step) => {
  const [source, stop, symbol] = [local(I32), local(I32), local(I32)]
  const one = (byte: number) => [...set(symbol, shl(loadByte(source, byte), 2)), ...store(symbol, add(load(symbol, COUNTS), 1), COUNTS)]
  return [...eachToken(token, end, source, stop, step, [...one(0), ...one(1), ...one(2)], []), ...int(0)]
}

/** Writes tokens from a bit position on, and returns the position after them. */
const write: Program = (local, token, end, bit) => {
  const [source, stop, at] = [local(I32), local(I32), local(I32)]
  const [red, green, blue, waiting, bits] = [local(I64), local(I64), local(I64), local(I64), local(I64)]
  const append = (code: Code, length: Code) => [
    ...storeLong(at, tee(waiting, or64(waiting, shl64(code, bits)))),
    ...set(bits, add64(bits, and64(length, 63))),
    ...set(at, add(at, narrow(shr64(bits, 3)))),
    ...set(waiting, shr64(waiting, and64(bits, 56))),
    ...set(bits, and64(bits, 7)),
  ]
  // Shifts use only the lowest 6 bits of their second operand: there each code has its length, and a sum of codes has the sum of the lengths.
  const two = or64(shr64(red, 6), shl64(shr64(green, 6), red))
  const pixel = [
    ...set(red, loadLong(shl(loadByte(source, 2), 2))),
    ...set(green, loadLong(shl(loadByte(source, 1), 2))),
    ...set(blue, loadLong(shl(loadByte(source), 2))),
    ...append(or64(two, shl64(shr64(blue, 6), add64(red, green))), add64(add64(red, green), blue)),
  ]
  const behind = [...set(red, loadLong(token, 8)), ...set(green, loadLong(token, 12)), ...append(two, add64(red, green))]
  const begin = [...set(at, shr(bit, 3)), ...set(bits, widen(and(bit, 7))), ...set(waiting, loadByteLong(at))]
  return [...begin, ...eachToken(token, end, source, stop, 4, pixel, behind), ...add(shl(at, 3), narrow(bits))]
}

export const programs = { filter, count, write }
