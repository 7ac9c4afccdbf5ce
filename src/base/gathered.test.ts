// Pieces of bytes in one buffer.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Gathered } from './gathered.ts'

test('any pieces give their bytes in order, and the pieces stay as they are', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 30 }), (arrays) => {
      const pieces = arrays.map((array) => Buffer.from(array))
      const gathered = new Gathered()
      for (const piece of pieces) gathered.add(piece)
      expect(gathered.bytes.equals(Buffer.concat(arrays))).toBe(true)
      expect(gathered.length).toBe(gathered.bytes.length)
      expect(pieces.map((piece) => [...piece])).toEqual(arrays.map((array) => [...array]))
      gathered.clear()
      expect(gathered.bytes).toHaveLength(0)
    }),
  )
})

test('a million tiny pieces take little more than their bytes', () => {
  const gathered = new Gathered()
  const source = Buffer.alloc(1_000_000, 7)
  const before = process.memoryUsage().heapUsed
  for (let at = 0; at < source.length; at++) gathered.add(source.subarray(at, at + 1))
  expect(gathered.bytes.equals(source)).toBe(true)
  globalThis.gc?.()
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(100 * 1024 * 1024)
})
