// Lines do not depend on the size of chunks, and long ones take no memory.
import fc from 'fast-check'
import { PassThrough } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { LineSplitter, readLines } from './lines.ts'

/** The bytes in chunks that end at `cuts`. */
const pieces = (bytes: Buffer, cuts: readonly number[]): Buffer[] => {
  const ends = [...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length]
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end))
}

test('every line has its beginning up to the limit, and the number of its other bytes', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: fc.constantFrom('a', 'é', '\r'), maxLength: 12 }), { maxLength: 8 }),
      fc.boolean(),
      fc.array(fc.nat(), { maxLength: 10 }),
      fc.nat(10),
      (lines, isEnded, cuts, max) => {
        const splitter = new LineSplitter(max)
        const found: [string, number][] = []
        // One buffer for all chunks, as readers of files use it.
        const memory = Buffer.alloc(1_000)
        for (const piece of pieces(Buffer.from(lines.join('\n') + (isEnded && lines.length > 0 ? '\n' : '')), cuts)) {
          piece.copy(memory)
          for (const { bytes, dropped } of splitter.add(memory.subarray(0, piece.length))) found.push([bytes.toString('latin1'), dropped])
        }
        const rest = splitter.rest()
        if (rest) found.push([rest.bytes.toString('latin1'), rest.dropped])
        const wanted = (!isEnded && lines.at(-1) === '' ? lines.slice(0, -1) : lines).map((line) => Buffer.from(line))
        expect(found).toEqual(wanted.map((line) => [line.subarray(0, max).toString('latin1'), Math.max(0, line.length - max)]))
      },
    ),
  )
})

describe('messages in lines', () => {
  test('are read for any chunks, and only a line feed ends one', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: fc.constantFrom('a', '\u2028', '\r', 'é'), maxLength: 8 }), { maxLength: 8 }),
        fc.array(fc.nat(), { maxLength: 10 }),
        (lines, cuts) => {
          const stream = new PassThrough()
          const read: (string | undefined)[] = []
          readLines(stream, 1_000, (line) => read.push(line))
          for (const piece of pieces(Buffer.from(lines.map((line) => `${line}\n`).join('')), cuts)) stream.write(piece)
          expect(read).toEqual(lines)
        },
      ),
    )
  })

  test.each([
    ['before they end', ['fine\n', 'x'.repeat(11), '\nmore\n']],
    ['in one chunk', [`fine\n${'x'.repeat(11)}\nmore\n`]],
  ])('that are too long end the channel, %s', (_, chunks) => {
    const stream = new PassThrough()
    const read: (string | undefined)[] = []
    readLines(stream, 10, (line) => read.push(line))
    for (const chunk of chunks) stream.write(chunk)
    expect(read).toEqual(['fine', undefined])
  })
})
