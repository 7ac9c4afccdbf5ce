// The typing rhythm of a person, and their typos: the resulting text is always correct.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { seeded } from '../../../test/support/seeded.ts'
import { evenTyping, humanTyping, type Keypress } from './typing.ts'

/** The text after these keys. @throws when Backspace would delete text from before */
function typed(keys: readonly Keypress[]): string {
  const left: string[] = []
  for (const { character } of keys) {
    if (character !== undefined) left.push(character)
    else if (left.pop() === undefined) throw new Error('Backspace with nothing to take back')
  }
  return left.join('')
}

const human = (text: string, meanMs: number | undefined, chance: number, seed: number) => humanTyping(Array.from(text), meanMs, chance, seeded(seed))

/** Any text, and texts of letters, where typos occur. */
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 100 }),
  fc.string({ unit: 'grapheme', maxLength: 50 }),
  fc.string({ unit: fc.constantFrom(...Array.from('aabbLlQqPpZzMm .\n')), maxLength: 200 }),
)
const chance = fc.oneof(fc.constantFrom(0, 0.1, 1), fc.double({ min: 0, max: 1, noNaN: true }))
const mean = fc.option(fc.nat(1_000), { nil: undefined })
const seed = fc.integer()

const SENTENCES =
  'The quick brown fox jumps over the lazy dog, and then it sleeps. People write mails like this one: short words, a few commas, and now and then a question? '
const PROSE = SENTENCES.repeat(60)
const average = (numbers: readonly number[]): number => numbers.reduce((sum, each) => sum + each, 0) / numbers.length
/** The spread of numbers: standard deviation divided by the mean. */
function spread(numbers: readonly number[]): number {
  const mean = average(numbers)
  return Math.sqrt(average(numbers.map((each) => (each - mean) ** 2))) / mean
}
const waits = (keys: readonly Keypress[]): number[] => keys.slice(1).map(({ waitMs }) => waitMs)

describe('typing like a person', () => {
  test('leaves exactly the requested text, for any text, chance of mistakes and seed', () => {
    fc.assert(
      fc.property(text, mean, chance, seed, (wanted, ms, part, from) => {
        expect(typed(human(wanted, ms, part, from))).toBe(wanted)
      }),
      { numRuns: 1_000 },
    )
  })

  test('with a mistake chance of 0 makes no corrections: one key per character', () => {
    fc.assert(
      fc.property(text, mean, seed, (wanted, ms, from) => {
        expect(human(wanted, ms, 0, from).map(({ character }) => character)).toEqual(Array.from(wanted))
      }),
    )
  })

  test('mistypes letters only, as other letters, and deletes as many characters as were wrong', () => {
    fc.assert(
      fc.property(text, seed, (wanted, from) => {
        const keys = human(wanted, undefined, 1, from)
        const wrong = keys.filter(({ character }) => character === undefined).length
        expect(keys.length).toBe(Array.from(wanted).length + 2 * wrong)
        if (!/[a-z]/i.test(wanted)) expect(wrong).toBe(0)
        else expect(wrong).toBeGreaterThan(0)
        const extra = [...new Set(keys.map(({ character }) => character ?? ''))].filter((character) => !wanted.includes(character))
        expect(extra.every((character) => /^[a-z]$/i.test(character))).toBe(true)
      }),
    )
  })

  test('corrects a mistake after at most two more keys', () => {
    const keys = human(PROSE, undefined, 0.1, 11)
    // A correction deletes all keys since the typo: one or two wrong ones, and two more.
    const longest = Math.max(...keys.map((_, at) => keys.slice(at).findIndex(({ character }) => character !== undefined)))
    expect(longest).toBe(3)
  })

  test('makes three kinds of mistakes: a neighbouring key, a repeated key, two swapped keys', () => {
    const kinds = new Map<string, number>()
    const left: string[] = []
    const rows = ['qwertyuiop', 'asdfghjkl', 'zxcvbnm']
    let wrong: string[] = []
    for (const { character } of human(PROSE, undefined, 0.1, 21)) {
      if (character === undefined) wrong.unshift(left.pop()!)
      else {
        if (wrong.length > 0) {
          const [right = '', next = ''] = PROSE.slice(left.length, left.length + 2)
          const row = rows.find((keys) => keys.includes(right.toLowerCase()))!
          const beside = Math.abs(row.indexOf(wrong[0]!.toLowerCase()) - row.indexOf(right.toLowerCase())) === 1 && row.includes(wrong[0]!.toLowerCase())
          const kind =
            wrong.join('') === right + right ? 'twice' : wrong.join('') === next + right ? 'swapped' : beside ? 'beside' : `"${wrong.join('')}" for "${right}"`
          kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
          wrong = []
        }
        left.push(character)
      }
    }
    expect([...kinds.keys()].toSorted()).toEqual(['beside', 'swapped', 'twice'])
    for (const count of kinds.values()) expect(count).toBeGreaterThan(50)
  })

  test('makes about the requested share of mistakes', () => {
    const letters = PROSE.replaceAll(/[^a-z]/gi, '').length
    for (const part of [0.01, 0.05, 0.1]) {
      const keys = human(PROSE, undefined, part, 7)
      const mistakes = keys.filter(({ character }, at) => character === undefined && keys[at - 1]!.character !== undefined).length
      // Four standard deviations of a binomial distribution.
      expect(Math.abs(mistakes - letters * part)).toBeLessThan(4 * Math.sqrt(letters * part * (1 - part)))
    }
  })

  test.each([20, 50, 100, 400])('of prose has the requested mean of %i ms between keys, within a tenth', (ms) => {
    for (const from of [1, 2, 3]) {
      const between = average(waits(human(PROSE, ms, 0, from)))
      expect(between).toBeGreaterThan(ms * 0.9)
      expect(between).toBeLessThan(ms * 1.1)
    }
  })

  test('has the speed of a practised typist by default: 60 to 150 words a minute', () => {
    const minutes = waits(human(PROSE, undefined, 0, 5)).reduce((sum, ms) => sum + ms, 0) / 60_000
    const words = PROSE.length / 5
    expect(words / minutes).toBeGreaterThan(60)
    expect(words / minutes).toBeLessThan(150)
  })

  test('is irregular: all intervals differ, few are much longer, and they depend on the characters', () => {
    for (const ms of [undefined, 50]) {
      const keys = human(PROSE, ms, 0, 3)
      expect(new Set(waits(keys)).size).toBe(keys.length - 1)
      expect(spread(waits(keys))).toBeGreaterThan(0.3)
      const before = (wanted: RegExp) => average(keys.flatMap(({ waitMs }, at) => (wanted.test(keys[at - 1]?.character ?? '') ? [waitMs] : [])))
      expect(before(/\./)).toBeGreaterThan(before(/,/))
      expect(before(/,/)).toBeGreaterThan(before(/ /))
      expect(before(/ /)).toBeGreaterThan(before(/[a-z]/))
    }
    // Also for a single repeated letter, where no pause applies.
    expect(spread(waits(human('x'.repeat(2_000), 50, 0, 3)))).toBeGreaterThan(0.2)
  })

  test('starts immediately, never goes back in time, and holds no key longer than half of the interval to the next', () => {
    fc.assert(
      fc.property(text, mean, chance, seed, (wanted, ms, part, from) => {
        const keys = human(wanted, ms, part, from)
        expect(keys[0]?.waitMs ?? 0).toBe(0)
        for (const [index, { waitMs, holdMs }] of keys.entries())
          expect(waitMs >= 0 && holdMs >= 0 && holdMs <= (keys[index + 1]?.waitMs ?? 200) / 2 && Number.isFinite(waitMs)).toBe(true)
      }),
    )
  })

  test('waits at most 14 times the mean before a key, so the duration of a call is limited', () => {
    expect(Math.max(...waits(human(PROSE.repeat(5), 50, 0.1, 9)))).toBeLessThanOrEqual(50 * 14)
  })

  test('is the same for the same seed, and different for another seed', () => {
    expect(human(SENTENCES, 50, 0.1, 4)).toEqual(human(SENTENCES, 50, 0.1, 4))
    expect(human(SENTENCES, 50, 0.1, 4)).not.toEqual(human(SENTENCES, 50, 0.1, 5))
  })

  test('of an empty text presses no key', () => {
    expect(human('', undefined, 1, 1)).toEqual([])
  })
})

describe('typing with a fixed delay', () => {
  test('presses one key per character, the first immediately and each next one after the delay', () => {
    fc.assert(
      fc.property(text, fc.nat(10_000), (wanted, delay) => {
        const characters = Array.from(wanted)
        expect(evenTyping(characters, delay)).toEqual(characters.map((character, at) => ({ character, waitMs: at === 0 ? 0 : delay, holdMs: 0 })))
      }),
    )
  })
})
