// Readers of a program's output, at any time and at any speed.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { OutputEvent, Stream } from './contract.ts'
import { OutputMemory, type Output } from './output-log.ts'

const never = new AbortController().signal
const bytes = (event: OutputEvent): Buffer => Buffer.from(event.data_b64 ?? '', 'base64')

async function all(output: Output, onEvent: (event: OutputEvent) => void = () => {}): Promise<OutputEvent[]> {
  const events: OutputEvent[] = []
  for await (const event of output.read(never)) {
    events.push(event)
    onEvent(event)
  }
  return events
}

/** A reader's view of a stream: its bytes, and how many were reported missing. */
function of(events: OutputEvent[], stream: Stream): { text: string; missed: number } {
  const mine = events.filter((event) => event.stream === stream)
  return { text: Buffer.concat(mine.map(bytes)).toString(), missed: mine.reduce((sum, { missed_bytes }) => sum + (missed_bytes ?? 0), 0) }
}

describe("readers of a program's output", () => {
  test('all get everything from the start in order, and the exit last', async () => {
    const output = new OutputMemory().open()
    const early = all(output)
    for (let i = 0; i < 3; i++) {
      output.add('stdout', Buffer.from(`o${i}`))
      output.add('stderr', Buffer.from(`e${i}`))
      await new Promise(setImmediate)
    }
    output.end(7)
    const expected = ['o0', 'e0', 'o1', 'e1', 'o2', 'e2']
    for (const events of [await early, await all(output)]) {
      expect(events.slice(0, -1).map((event) => bytes(event).toString())).toEqual(expected)
      expect(events.at(-1)).toEqual({ event: 'exit', exit_code: 7 })
    }
  })

  test('that come late learn per stream how many bytes are gone, and get the rest', async () => {
    const output = new OutputMemory(Infinity, 30_000).open()
    output.add('stderr', Buffer.alloc(100, 'e'))
    for (let i = 0; i < 10; i++) output.add('stdout', Buffer.alloc(9_000, String(i)))
    output.end(0)
    const events = await all(output)
    expect(of(events, 'stderr')).toEqual({ text: '', missed: 100 })
    expect(of(events, 'stdout')).toEqual({ text: '7'.repeat(9_000) + '8'.repeat(9_000) + '9'.repeat(9_000), missed: 63_000 })
  })

  test('get nothing that comes after the exit', async () => {
    const output = new OutputMemory().open()
    output.add('stdout', Buffer.from('in time'))
    output.end(0)
    output.add('stdout', Buffer.from('too late'))
    expect(of(await all(output), 'stdout')).toEqual({ text: 'in time', missed: 0 })
  })

  test('that leave are released immediately', async () => {
    const leaving = new AbortController()
    const output = new OutputMemory().open()
    const reading = output.read(leaving.signal).next()
    leaving.abort(new Error('left'))
    await expect(reading).rejects.toThrow('left')
  })

  test('get all of the output or its number of missed bytes, at any timing, and memory stays within its limits', async () => {
    const print = fc.record({ stream: fc.constantFrom<Stream>('stdout', 'stderr'), size: fc.oneof(fc.nat(20), fc.nat(20_000)), pause: fc.boolean() })
    await fc.assert(
      fc.asyncProperty(fc.array(print, { maxLength: 40 }), fc.integer({ min: 1_000, max: 60_000 }), fc.nat(30), async (prints, limit, joinsAt) => {
        const memory = new OutputMemory(limit * 2, limit)
        const [output, other] = [memory.open(), memory.open()]
        const readers: Promise<OutputEvent[]>[] = []
        const printed: Record<Stream, Buffer[]> = { stdout: [], stderr: [] }
        for (const [index, { stream, size, pause }] of prints.entries()) {
          if (index === joinsAt) readers.push(all(output))
          const data = Buffer.alloc(size, index)
          printed[stream].push(Buffer.from(data))
          output.add(stream, data)
          data.fill(255) // the caller reuses its buffer
          other.add('stdout', Buffer.alloc(size))
          expect(output.bytes).toBeLessThanOrEqual(limit)
          expect(memory.bytes).toBeLessThanOrEqual(limit * 2)
          if (pause) await new Promise(setImmediate)
        }
        output.end(0)
        for (const events of await Promise.all([...readers, all(output)]))
          for (const stream of ['stdout', 'stderr'] as const) {
            const whole = Buffer.concat(printed[stream])
            let at = 0
            for (const event of events.filter((each) => each.stream === stream)) {
              at += event.missed_bytes ?? 0
              expect(bytes(event).equals(whole.subarray(at, at + bytes(event).length))).toBe(true)
              at += bytes(event).length
            }
            expect(at).toBe(whole.length)
          }
      }),
      { numRuns: 200 },
    )
  })
})

describe('the memory of outputs', () => {
  test('is the same for a program that prints byte by byte as for one that prints all at once', () => {
    const memory = new OutputMemory(Infinity, 100_000)
    const output = memory.open()
    for (let i = 0; i < 50_000; i++) output.add(i % 2 ? 'stdout' : 'stderr', Buffer.from('x'))
    expect(memory.bytes).toBeLessThanOrEqual(100_000)
  })

  test('is limited for all programs together: the one that holds most loses its oldest output', async () => {
    const memory = new OutputMemory(10_000, 9_000)
    const [small, large] = [memory.open(), memory.open()]
    small.add('stdout', Buffer.alloc(1_000, 's'))
    for (let i = 0; i < 20; i++) large.add('stdout', Buffer.alloc(1_000, 'l'))
    small.end(0)
    expect(of(await all(small), 'stdout')).toEqual({ text: 's'.repeat(1_000), missed: 0 })
    memory.close(large)
    expect(memory.bytes).toBeLessThan(2_000)
  })
})
