// Output as lines: line ends, longest lines, invalid text.
import { describe, expect, test } from 'vitest'
import { Lines } from './output-lines.ts'

function linesOf(chunks: (string | Buffer)[], max?: number): string[] {
  const found: string[] = []
  const lines = new Lines((line) => found.push(line), max)
  for (const chunk of chunks) lines.write(Buffer.from(chunk))
  lines.end()
  return found
}

describe('lines of output', () => {
  test('are split at newlines, for any chunks; the last one needs no newline', () => {
    expect(linesOf(['a', 'b\nc\n', '\n', 'd'])).toEqual(['ab', 'c', '', 'd'])
    expect(linesOf(['a\n'])).toEqual(['a'])
    expect(linesOf([])).toEqual([])
  })

  test('lose one carriage return at their end, and keep others', () => {
    expect(linesOf(['a\r\nb\r', '\nc\rd\n', 'e\r\r\n'])).toEqual(['a', 'b', 'c\rd', 'e\r'])
  })

  test('that are too long are cut between characters, and the rest is dropped', () => {
    expect(linesOf(['abcdefgh\nij\n'], 4)).toEqual(['abcd', 'ij'])
    expect(linesOf(['aaé€\n'], 4)).toEqual(['aaé'])
    expect(linesOf(['aé€\n'], 4)).toEqual(['aé'])
    expect(linesOf(['a🙂b\n'], 4)).toEqual(['a'])
    expect(linesOf(['abcd\r\n'], 4)).toEqual(['abcd'])
  })

  test('are UTF-8: invalid bytes are replaced, and count with the size of the replacement', () => {
    expect(linesOf([Buffer.from([0x61, 0xff, 0x62, 0x0a])])).toEqual(['a\ufffdb'])
    expect(linesOf([Buffer.from([0xff, 0xff, 0xff, 0x0a])], 6)).toEqual(['\ufffd\ufffd'])
    expect(linesOf([Buffer.from([0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x0a])], 4)).toEqual(['\ufffd'])
  })

  test('keep a character that is split between chunks', () => {
    const euro = Buffer.from('€')
    expect(linesOf([euro.subarray(0, 1), euro.subarray(1), '\n'])).toEqual(['€'])
  })
})
