// Values of a flow are found in texts and addresses in whatever form, and nothing else is.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { REDACTED } from '../../../../base/redact/ranges.ts'
import { Scrubber } from './scrub.ts'

const R = REDACTED
const knowing = (...values: [value: string, kind?: 'password' | 'once' | 'identifier' | 'other'][]): Scrubber => {
  const scrubber = new Scrubber()
  for (const [value, kind = 'identifier'] of values) scrubber.note(value, kind)
  return scrubber
}

describe('a text', () => {
  test.each([
    ['the password you entered for the username jane is incorrect', `the password you entered for the username ${R} is incorrect`],
    ['JANE, janet and jane', `${R}, ${R}t and ${R}`],
    ['nobody is called john', 'nobody is called john'],
  ])('has no value of four characters in it: %s', (text, clean) => {
    expect(knowing(['jane']).scrub(text)).toBe(clean)
  })
  test('has no short name, password or code in it that stands alone, and keeps the words which it is a part of', () => {
    const scrubber = knowing(['bob'], ['pin', 'password'], ['12', 'once'], ['de', 'other'])
    expect(scrubber.scrub('bob: pin 12 is wrong (bobsled, pinned, 120, de)')).toBe(`${R}: ${R} ${R} is wrong (bobsled, pinned, 120, de)`)
  })
  test.each(['jane doe+x@example.com', 'j%61ne', 'größe ünd 価格', '💶💶💶', 'a/b?c=d&e#f'])('has no value in it that is encoded: %s', (value) => {
    const form = new URLSearchParams({ value }).toString().slice('value='.length)
    const bytes = Buffer.from(value).toString('hex').replace(/../g, '%$&')
    const written = [value, encodeURIComponent(value), encodeURI(value), form, bytes, bytes.toUpperCase(), encodeURIComponent(encodeURIComponent(value))]
    for (const text of written) expect([text, knowing([value]).scrub(`[${text}]`)]).toEqual([text, `[${R}]`])
  })
  test('that was cut has no beginning of a value at its end', () => {
    const text = `${'The site says so much that nobody reads all of it. '.repeat(2)}Wrong: correct-horse-bat`
    expect(knowing(['correct-horse-battery', 'password']).scrub(text)).toBe(text.replace('correct-horse-bat', R))
    expect(knowing(['correct-horse-battery', 'password']).scrub('Wrong: correct')).toBe('Wrong: correct')
  })
  test('of any kind is the same without the values, and never has them', () => {
    const value = fc
      .string({ unit: 'grapheme', minLength: 4, maxLength: 20 })
      .filter((text) => text.trim().length >= 4 && !`${R}${R}`.includes(text.trim().toLowerCase()))
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), value, fc.string({ unit: 'grapheme', maxLength: 60 }), (before, inside, after) => {
        const scrubber = knowing([inside])
        const clean = scrubber.scrub(before + inside + after)
        expect(clean.toLowerCase()).not.toContain(inside.trim().toLowerCase())
        if (!scrubber.holds(before)) expect(scrubber.scrub(before)).toBe(before)
      }),
    )
  })
})

describe('an address', () => {
  test.each([
    ['https://db.test/?server=a&username=jane#top', 'https://db.test/'],
    ['https://db.test/home?next=%2Fu%2Fjane', 'https://db.test/home'],
    ['https://db.test/users/jane/start?x=1', 'https://db.test/'],
    ['https://db.test/home?x=1#top', 'https://db.test/home?x=1#top'],
    ['https://jane.db.test:8443/home', 'https://jane.db.test:8443/home'],
    ['https://jane:secret@db.test/home', 'https://db.test/home'],
  ])('%s is shown as %s', (url, shown) => {
    expect(knowing(['jane']).address(url)).toBe(shown)
  })
  test('that has a password or a code in it is told from one that has a name', () => {
    const scrubber = knowing(['jane'], ['s3cret!', 'password'])
    expect(scrubber.holdsSecret('https://db.test/?username=jane')).toBe(false)
    expect(scrubber.holdsSecret('https://db.test/?username=jane&password=s3cret%21')).toBe(true)
  })
})
