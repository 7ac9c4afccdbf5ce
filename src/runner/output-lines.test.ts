// Output as lines: line ends, longest lines, invalid text.
import { describe, expect, test } from 'vitest'
import { Events } from './events.ts'
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

describe('the events of a runner', () => {
  const read = async (events: Events, after: number) => {
    const found: { seq: number; type: string }[] = []
    for await (const text of events.follow(after, new AbortController().signal))
      for (const line of text.trimEnd().split('\n')) found.push(JSON.parse(line) as { seq: number; type: string })
    return found
  }

  test('are numbered without gaps, kept until they are acknowledged, and can be read from any number', async () => {
    const events = new Events()
    for (let i = 0; i < 200; i++) events.log(`line ${i}`)
    events.acknowledge(50)
    events.end({ type: 'failed', reason: 'x' })
    expect((await read(events, 50)).map(({ seq }) => seq)).toEqual(Array.from({ length: 151 }, (_, at) => at + 51))
    expect((await read(events, 199)).map(({ type }) => type)).toEqual(['log', 'failed'])
    expect(await read(events, 201)).toEqual([])
  })

  test('end with the last one', async () => {
    const events = new Events()
    events.end({ type: 'loaded', apps: [] })
    events.log('late')
    expect(await read(events, 0)).toHaveLength(1)
  })

  test('pause their source if nobody reads them, and resume it afterwards', () => {
    const events = new Events(1000)
    const source = { paused: false, pause: () => (source.paused = true), resume: () => (source.paused = false) }
    const forget = events.throttle(source)
    events.log('x'.repeat(500))
    expect(source.paused).toBe(false)
    events.log('x'.repeat(500))
    expect(source.paused).toBe(true)
    events.acknowledge(1)
    expect(source.paused).toBe(false)
    forget()
    events.log('x'.repeat(2000))
    expect(source.paused).toBe(false)
  })

  test('reach a waiting reader immediately', async () => {
    const events = new Events()
    const reading = read(events, 0)
    await new Promise(setImmediate)
    events.log('a')
    await new Promise(setImmediate)
    events.end({ type: 'loaded', apps: [] })
    expect((await reading).map(({ seq }) => seq)).toEqual([1, 2])
  })
})
