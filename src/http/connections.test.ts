// The number of connections under a limit of descriptors.
import { expect, test } from 'vitest'
import { connectionsFor, descriptorLimit, descriptorProblem } from './connections.ts'

test('callers never get the file descriptors that instances and the database need, and always get some', () => {
  for (const descriptors of [64, 256, 1024, 20_000, 1_048_576])
    for (const instances of [1, 70, 1000]) {
      const taken = 2 * connectionsFor(descriptors, instances)
      expect(taken).toBeGreaterThanOrEqual(Math.floor(descriptors / 4))
      expect(descriptors - taken).toBeGreaterThanOrEqual(Math.min(descriptors / 2, 80 + 3 * instances))
    }
})

test('a limit of file descriptors that is too low is reported with a sufficient one', () => {
  const received = descriptorProblem(256, 70)
  expect(received).toMatch(/^256 open files are allowed/)
  const enough = Number(/allow (\d+)/.exec(received!)![1])
  expect([descriptorProblem(enough, 70), descriptorProblem(enough - 1, 70)]).toEqual([undefined, expect.any(String)])
  expect(descriptorLimit()).toBeGreaterThan(0)
})
