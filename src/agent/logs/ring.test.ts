// The last output of a program: the kept lines, or only new ones.
import { expect, test } from 'vitest'
import { LogRing } from './ring.ts'

const never = new AbortController().signal

async function kept(ring: LogRing): Promise<string[]> {
  const lines: string[] = []
  for await (const { text } of ring.read(false, never)) lines.push(text)
  return lines
}

test('a follower that is too slow gets a line with the number of missed lines', async () => {
  const ring = new LogRing(1_000)
  const lines = ring.read(true, never)
  for (let i = 0; i < 50; i++) ring.add(`line ${i}`)
  const last = (await kept(ring)).length
  expect((await lines.next()).value!.text).toBe(`[${50 - last} lines were dropped before they were read]`)
  expect((await lines.next()).value!.text).toBe(`line ${50 - last}`)
})

test('neither many short lines nor few long ones exceed the limit', async () => {
  const ring = new LogRing(50_000)
  for (let i = 0; i < 10_000; i++) ring.add('')
  expect((await kept(ring)).length).toBeLessThanOrEqual(500)
  ring.add('x'.repeat(10_000_000))
  const lines = await kept(ring)
  expect(lines.at(-1)!.length).toBe(16 * 1024 + 1)
})
