// Results as JSON: the same as JSON.stringify's, or an error that names what JSON cannot hold.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { toJson } from './json.ts'
import { MAX_RESULT_BYTES } from './protocol.ts'

describe('the result of Playwright code', () => {
  test('is what JSON.stringify makes of it, if JSON can hold it', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(toJson(value)).toBe(JSON.stringify(value))
      }),
    )
    for (const value of [
      undefined,
      null,
      NaN,
      [undefined, -0, Infinity],
      new Date(0),
      Buffer.from('a'),
      new URL('http://x/'),
      { a: undefined },
      Object.create(null),
      { constructor: { name: 1 } },
      { constructor: null },
    ])
      expect(toJson(value)).toBe(JSON.stringify(value))
    expect(toJson(new (class Point { x = 1 })())).toBe('{"x":1}') // prettier-ignore
  })

  test('may contain the same object twice, but not itself', () => {
    const twice = { a: 1 }
    expect(toJson([twice, twice])).toBe('[{"a":1},{"a":1}]')
    const itself: Record<string, unknown> = { list: [] }
    ;(itself.list as unknown[]).push({ back: itself })
    expect(() => toJson(itself)).toThrow('the result.list[0].back refers to an object that contains it; JSON cannot hold cycles')
  })

  test.each([
    [10n, 'the result is a BigInt'],
    [{ a: [1, 2n] }, 'the result.a[1] is a BigInt'],
    [() => 1, 'the result is a function'],
    [{ f() {} }, 'the result.f is a function'],
    [Symbol('x'), 'the result is a symbol'],
    [new Map([[1, 2]]), 'Object.fromEntries'],
    [new Set([1]), 'an array of its members'],
    [{ e: new TypeError('x') }, 'the result.e is a TypeError'],
    [[Promise.resolve(1)], 'await it'],
    [/x/, 'the result is a RegExp'],
    [new Uint8Array(3), 'base64'],
    [new ArrayBuffer(3), 'base64'],
    [{ page: { _guid: 'page@1', _connection: {} } }, 'the result.page is a Playwright Object'],
    ['x'.repeat(MAX_RESULT_BYTES), `more than the limit of ${MAX_RESULT_BYTES}`],
    [Array.from({ length: 100_000 }).reduce<unknown>((inner) => [inner], 1), 'nested too deeply'],
  ])('is refused with a reason if JSON would lose a part of it: case %#', (value, message) => {
    expect(() => toJson(value)).toThrow(message)
  })

  test('that throws while it is read fails with that error', () => {
    expect(() =>
      toJson({
        get x() {
          throw new Error('not today')
        },
      }),
    ).toThrow('not today')
  })
})
