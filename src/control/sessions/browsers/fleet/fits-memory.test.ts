// How many ready browsers fit into the memory.
import { expect, test } from 'vitest'
import { fitsMemory } from './fits-memory.ts'

const GIB = 1024 ** 3

test('ready browsers may take a quarter of the memory', () => {
  expect([fitsMemory({ totalBytes: 2 * GIB, freeBytes: 0 }), fitsMemory({ totalBytes: 16 * GIB, freeBytes: 0 })]).toEqual([2, 16])
})
