// Splits bytes in chunks of any size into lines.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Lines, MAX_LINE_BYTES } from './log-lines.ts'

test('lines are the same, however the text is split into chunks', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.string({ unit: 'grapheme' }).map((text) => text.replaceAll(/[\r\n]/g, '')),
        { maxLength: 20 },
      ),
      fc.constantFrom('\n', '\r\n'),
      fc.boolean(),
      fc.array(fc.nat(50), { maxLength: 30 }),
      (wanted, end, isEnded, cuts) => {
        const bytes = Buffer.from(wanted.join(end) + (isEnded && wanted.length > 0 ? end : ''))
        const lines = new Lines()
        const found: string[] = []
        let at = 0
        for (const length of cuts) found.push(...lines.add(bytes.subarray(at, (at += length))))
        found.push(...lines.add(bytes.subarray(at)), ...lines.rest())
        // An empty last part without a line end is not a line.
        const expected = !isEnded && wanted.at(-1) === '' ? wanted.slice(0, -1) : wanted
        expect(found).toEqual(expected)
      },
    ),
  )
})

test('a line that is too long is cut and marked, and only its beginning is held in memory', () => {
  const lines = new Lines()
  const megabyte = Buffer.alloc(1024 * 1024, 'x')
  for (let i = 0; i < 50; i++) expect(lines.add(megabyte)).toEqual([])
  const [line, next] = lines.add(Buffer.from('end\nnext\n'))
  expect(line).toBe(`${'x'.repeat(MAX_LINE_BYTES)}… [${50 * megabyte.length + 3 - MAX_LINE_BYTES} bytes of this line were cut]`)
  expect(next).toBe('next')
  const exact = 'y'.repeat(MAX_LINE_BYTES)
  expect(lines.add(Buffer.from(`${exact}\n`))).toEqual([exact])
})

test('invalid UTF-8 is replaced, and NUL characters are kept', () => {
  expect(new Lines().add(Buffer.from([0x61, 0xff, 0x62, 0xc3, 0x0a, 0x00, 0x0a, 0x0a]))).toEqual(['a\ufffdb\ufffd', '\0', ''])
})

test('a line does not change if the caller reuses its buffer', () => {
  const lines = new Lines()
  const memory = Buffer.from('begun')
  lines.add(memory)
  memory.fill('z')
  expect(lines.add(Buffer.from('\n'))).toEqual(['begun'])
})
