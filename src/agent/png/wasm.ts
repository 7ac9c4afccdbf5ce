// A small WebAssembly assembler: instructions as their bytes (WebAssembly 2.0, chapter 5). It makes a few hundred bytes in 2 ms, when they are first
// needed, so the repository needs no compiler and no binary file.

export type Code = number[]
export type Operand = Code | number
export type Program = (local: (type: number) => Code, ...parameters: Code[]) => Code
declare const WebAssembly: {
  Memory: new (size: { initial: number }) => { buffer: ArrayBuffer }
  Module: new (bytes: Uint8Array) => object
  Instance: new (module: object, imports: object) => { exports: unknown }
}

export const [I32, I64, V128] = [0x7f, 0x7e, 0x7b]
const unsigned = (value: number): Code => (value < 128 ? [value] : [(value & 127) | 128, ...unsigned(value >>> 7)])
const signed = (value: number): Code => (value >= -64 && value < 64 ? [value & 127] : [(value & 127) | 128, ...signed(value >> 7)])
export const int = (value: Operand): Code => (typeof value === 'number' ? [0x41, ...signed(value)] : value)
const long = (value: Operand): Code => (typeof value === 'number' ? [0x42, ...signed(value)] : value)
export const set = (variable: Code, value: Code): Code => [...value, 0x21, variable[1]!]
export const tee = (variable: Code, value: Code): Code => [...value, 0x22, variable[1]!]
export const loop = (body: Code, again: Code): Code => [0x03, 0x40, ...body, ...again, 0x0d, 0, 0x0b]
export const when = (condition: Code, body: Code): Code => [...condition, 0x04, 0x40, ...body, 0x0b]

const onInts = (code: number) => (a: Operand, b: Operand) => [...int(a), ...int(b), code]
export const [add, and, shl, shr, below] = [onInts(0x6a), onInts(0x71), onInts(0x74), onInts(0x76), onInts(0x49)]
const onLongs = (code: number) => (a: Operand, b: Operand) => [...long(a), ...long(b), code]
export const [add64, and64, or64, shl64, shr64] = [onLongs(0x7c), onLongs(0x83), onLongs(0x84), onLongs(0x86), onLongs(0x88)]
export const [narrow, widen] = [(a: Code): Code => [...a, 0xa7], (a: Code): Code => [...a, 0xad]]
const onVectors = (code: number) => (a: Code, b: Code) => [...a, ...b, 0xfd, ...unsigned(code)]
export const [vectorAnd, bytesSub, shortsShr, intsAdd, dot] = [onVectors(78), onVectors(113), onVectors(141), onVectors(174), onVectors(186)]
export const pattern = (...bytes: number[]): Code => [0xfd, 12, ...bytes, ...bytes, ...bytes, ...bytes]

const loads =
  (...code: number[]) =>
  (address: Operand, offset = 0): Code => [...int(address), ...code, 0, ...unsigned(offset)]
export const [load, loadByte, loadLong, loadByteLong, vectorLoad] = [loads(0x28), loads(0x2d), loads(0x35), loads(0x31), loads(0xfd, 0)]
const stores =
  (...code: number[]) =>
  (address: Operand, value: Code, offset = 0): Code => [...int(address), ...value, ...code, 0, ...unsigned(offset)]
export const [store, storeLong, vectorStore] = [stores(0x36), stores(0x37), stores(0xfd, 11)]

/** A memory of at least this many bytes, for programs to work in. */
export const makeMemory = (bytes: number): { buffer: ArrayBuffer } => new WebAssembly.Memory({ initial: Math.ceil(bytes / 65_536) })

/** Makes callable functions of programs; parameters and results are 32-bit integers. */
export function assemble<Name extends string>(programs: Record<Name, Program>, memory: object): Record<Name, (...parameters: number[]) => number> {
  const list = (items: Code[]): Code => [...unsigned(items.length), ...items.flat()]
  const sized = (code: Code): Code => [...unsigned(code.length), ...code]
  const all = Object.entries<Program>(programs)
  const bodies = all.map(([, program]) => {
    const [parameters, locals] = [program.length - 1, [] as number[]]
    const variables = Array.from({ length: parameters }, (_, index) => [0x20, index])
    const code = program((type) => [0x20, parameters + locals.push(type) - 1], ...variables)
    return sized([...list(locals.map((type) => [1, type])), ...code, 0x0b])
  })
  const sections: [number, Code[]][] = [
    [1, all.map(([, { length }]) => [0x60, ...list(Array.from({ length: length - 1 }, () => [I32])), 1, I32])],
    [2, [[1, 0x6d, 1, 0x6d, 2, 0, 1]]],
    [3, all.map((_, index) => [index])],
    [7, all.map(([name], index) => [...sized([...Buffer.from(name)]), 0, index])],
    [10, bodies],
  ]
  const bytes = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, ...sections.flatMap(([id, items]) => [id, ...sized(list(items))])]
  return new WebAssembly.Instance(new WebAssembly.Module(Uint8Array.from(bytes)), { m: { m: memory } }).exports as Record<Name, () => number>
}
