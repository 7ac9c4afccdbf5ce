// The output of a run, for chunks of any size.
import fc from 'fast-check'
import { PassThrough } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { MAX_OUTPUT_BYTES, Output } from './printed.ts'

const MARK = '\n0123-mark\n'

/** The text in chunks that end at `cuts`. */
const pieces = (bytes: Buffer, cuts: readonly number[]): Buffer[] => {
  const ends = [...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length]
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end))
}

describe('the output of a run', () => {
  test('is everything before its mark, for any chunks, and nothing after it', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: fc.constantFrom('\n', '0', '1', 'é', '-', 'm'), maxLength: 60 }),
        fc.array(fc.nat(), { maxLength: 10 }),
        async (text, cuts) => {
          const stream = new PassThrough()
          const output = new Output(stream)
          stream.write('of a run before')
          output.begin(MARK)
          for (const piece of pieces(Buffer.from(`${text}${MARK}and after`), cuts)) stream.write(piece)
          await output.marked
          stream.write('more')
          expect(output.take()).toBe(text)
        },
      ),
    )
  })

  test('without a mark is everything that arrived', () => {
    const stream = new PassThrough()
    const output = new Output(stream)
    output.begin(MARK)
    stream.write(`a${MARK.slice(0, 5)}`)
    expect(output.take()).toBe(`a${MARK.slice(0, 5)}`)
  })

  test('is kept up to 1 MiB with the number of dropped bytes; the next run starts empty', async () => {
    const stream = new PassThrough()
    const output = new Output(stream)
    output.begin(MARK)
    for (let i = 0; i < 300; i++) stream.write(Buffer.alloc(10_000, 'x'))
    stream.write(MARK)
    await output.marked
    const text = output.take()
    expect(text.slice(0, MAX_OUTPUT_BYTES)).toBe('x'.repeat(MAX_OUTPUT_BYTES))
    expect(text.slice(MAX_OUTPUT_BYTES)).toBe(`\n[${3_000_000 - MAX_OUTPUT_BYTES} more bytes were dropped]\n`)
    output.begin(MARK)
    stream.write(`next${MARK}`)
    await output.marked
    expect(output.take()).toBe('next')
  })
})
