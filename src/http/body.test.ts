// Bodies that take too much time, or contain values that the store cannot hold, are refused; queries become maps. mount.test.ts has further tests of bodies.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { checkText, parseJson, parseQuery } from './body.ts'
import { Fault } from './fault.ts'

const JSON_TYPE = 'application/json'

/** The fault that `work` throws. */
async function refusal(work: () => unknown): Promise<Fault> {
  const error = await Promise.resolve()
    .then(work)
    .then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
  if (!(error instanceof Fault)) throw new Error('it was not refused', { cause: error })
  return error
}

const parse = (text: string, contentType: string | undefined = JSON_TYPE, optional = false): unknown => parseJson(Buffer.from(text), contentType, optional)

describe('a body with very many values', () => {
  const TOO_MANY = 600_001
  test.each([
    ['numbers', `{"payload":[${'0,'.repeat(TOO_MANY)}0]}`],
    ['lists', `{"payload":[${'[],'.repeat(TOO_MANY / 2)}0]}`],
  ])('is refused before it is parsed: %s', async (_, body) => {
    expect((await refusal(() => parse(body))).body()).toMatchObject({ code: 'bad_request', message: 'body: has more than 600000 values' })
  })
  const named = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`n${index}`, 0]))
  test('is refused if they have names, which take more time: all of them, and those of one object', async () => {
    const spread = { list: Array.from({ length: 20 }, () => named(6_000)) }
    expect((await refusal(() => parse(JSON.stringify(spread)))).message).toBe('body: has more than 100000 properties')
    expect((await refusal(() => parse(JSON.stringify({ tags: named(10_001) })))).message).toBe('tags: has more than 10000 properties')
    expect(parse(JSON.stringify({ tags: named(10_000) }))).toEqual({ tags: named(10_000) })
  })
  test('is accepted when they are characters of a text', () => {
    const text = `[{,"\\${',[{'.repeat(TOO_MANY)}`
    expect(parse(JSON.stringify({ text }))).toEqual({ text })
  })
})

describe('parseJson', () => {
  test('returns what JSON.parse returns, for every value that the database can store, and refuses the name __proto__ wherever it is', () => {
    const anyName = fc.oneof(fc.string(), fc.constant('__proto__'))
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof({ maxDepth: 3 }, fc.jsonValue({ noUnicodeString: false }), fc.array(tie('value')), tie('object')),
      object: fc.array(fc.tuple(anyName, tie('value'))).map((entries) => Object.fromEntries(entries)),
    }))
    const seen = { refused: 0, returned: 0 }
    fc.assert(
      fc.property(value, (value) => {
        const text = JSON.stringify(value)
        fc.pre(!text.includes('\\u0000') && text.isWellFormed() && !/\\ud[89a-f]/i.test(text))
        let unusable = false
        const expected: unknown = JSON.parse(text, (name, item: unknown) => ((unusable ||= name === '__proto__'), item))
        if (unusable) expect(() => parse(text)).toThrow(/(^|\.)__proto__: is not a possible name$/)
        else expect(parse(text)).toEqual(expected)
        seen[unusable ? 'refused' : 'returned']++
      }),
    )
    expect(seen.refused).toBeGreaterThan(0)
    expect(seen.returned).toBeGreaterThan(0)
  })

  test.each(['application/json', 'application/json; charset=utf-8', 'Application/JSON', 'application/json ;charset=utf-8', 'application/merge-patch+json'])(
    'accepts the content type %s',
    (contentType) => {
      expect(parse('{"a":1}', contentType)).toEqual({ a: 1 })
    },
  )

  test.each([
    ['{"tags":{"a":"x\\u0000"}}', 'tags.a'],
    ['{"tags":{"a\\u0000":"x"}}', 'tags'],
    ['{"name":"\\ud800"}', 'name'],
    ['{"list":["fine","\\udc00\\ud800"]}', 'list.1'],
  ])('refuses U+0000 and lone surrogates in %s, and names the field', async (text, field) => {
    expect((await refusal(() => parse(text))).message).toMatch(new RegExp(`^${field.replaceAll('.', '\\.')}: `))
  })

  test('refuses a body that is nested too deeply, and does not crash', async () => {
    for (const depth of [100, 10_000, 100_000]) expect((await refusal(() => parse('['.repeat(depth) + ']'.repeat(depth)))).status).toBe(400)
    for (const depth of [100, 10_000]) expect((await refusal(() => parse('{"a":'.repeat(depth) + '1' + '}'.repeat(depth)))).status).toBe(400)
  })

  test('a property named __proto__, which maps would leave out without a word, is refused and changes no prototype', async () => {
    for (const text of ['{"__proto__":{"polluted":true}}', '{"tags":{"a":"b","__proto__":"x"}}'])
      expect((await refusal(() => parse(text))).message).toMatch(/^(tags\.)?__proto__: is not a possible name/)
    expect(({} as Record<string, unknown>).polluted).toBeUndefined()
  })
})

describe('parseQuery', () => {
  const query = (text: string): unknown => JSON.parse(JSON.stringify(parseQuery(text)))

  test.each([
    ['', {}],
    ['a=1', { a: '1' }],
    ['a=', { a: '' }],
    ['a', { a: '' }],
    ['a=1&b=2', { a: '1', b: '2' }],
    ['a=1&a=2&a=3', { a: ['1', '2', '3'] }],
    ['tags[k]=v&tags[l]=w', { tags: { k: 'v', l: 'w' } }],
    ['tags%5Bteam%5D=back%20end', { tags: { team: 'back end' } }],
    ['tags[k]=v&tags[k]=w', { tags: { k: 'w' } }],
    ['a+b=c+d', { 'a b': 'c d' }],
    ['tags=x&tags[k]=v', { tags: ['x', { k: 'v' }] }],
    ['tags[k]=v&tags=x&tags[l]=w', { tags: [{ k: 'v' }, 'x', { l: 'w' }] }],
    ['a[b][c]=1', { 'a[b][c]': '1' }],
    ['a[]=1', { 'a[]': '1' }],
    ['[a]=1', { '[a]': '1' }],
    ['a=1=2', { a: '1=2' }],
    ['category=console%2Cnetwork', { category: 'console,network' }],
  ])('reads %j as maps, lists and texts', (text, expected) => {
    expect(query(text)).toEqual(expected)
  })

  test('never throws and never changes a prototype', () => {
    fc.assert(fc.property(fc.string(), (text) => void parseQuery(text)))
    for (const text of ['__proto__[polluted]=1', 'constructor[polluted]=1', '__proto__=1&__proto__=2', 'tags[__proto__]=1', 'a=1&a[polluted]=1'])
      parseQuery(text)
    expect(({} as Record<string, unknown>).polluted).toBeUndefined()
    expect(() => checkText(parseQuery('tags[__proto__]=1'))).toThrow('tags.__proto__: is not a possible name')
  })
})
