// The available memory.
import { expect, test } from 'vitest'
import { inactiveFile, memoryNow } from './memory.ts'

test('there is some, and no more than all of it', () => {
  const { totalBytes, freeBytes } = memoryNow()
  expect(totalBytes).toBeGreaterThan(100 * 1024 * 1024)
  expect(freeBytes).toBeGreaterThan(0)
  expect(freeBytes).toBeLessThanOrEqual(totalBytes)
})

test('files that the kernel would give back are found in both forms of memory.stat', () => {
  expect(inactiveFile('anon 5\nfile 900\ninactive_file 800\nactive_file 100\n')).toBe(800)
  expect(inactiveFile('cache 1\ninactive_file 3\ntotal_cache 2\ntotal_inactive_file 4\n')).toBe(4)
  expect(inactiveFile('')).toBe(0)
})
