// The parts of the hosted login page that need no browser: the return address, and texts. test/e2e/hosted-login.test.ts tests it in a browser.
import { describe, expect, test } from 'vitest'
import { placeOf, readReturnUrls, withQuery } from './leave.ts'
import { failureOf, plain } from './texts.ts'

describe('the way back', () => {
  test.each([
    'javascript:alert(1)',
    ' java\tscript:alert(1)',
    'JAVASCRIPT:1',
    'data:text/html,x',
    'vbscript:x',
    'blob:http://a/b',
    'FILE:///etc/passwd',
    '/relative',
    '//host',
    'x',
  ])('%j is refused, with the name of the field', (url) => {
    for (const name of ['success_url', 'error_url']) {
      const { problem, success, error } = readReturnUrls(new URLSearchParams({ [name]: url }))
      expect([problem?.startsWith(`${name} must `), success, error]).toEqual([true, undefined, undefined])
    }
  })

  test('may be a site or an app, keeps its query, and is told more', () => {
    const { success, error, problem } = readReturnUrls(new URLSearchParams({ success_url: 'https://a.test/b?c=1#d', error_url: 'myapp:done' }))
    expect(problem).toBeUndefined()
    expect(withQuery(success!, { profile_name: 'a b', domain: 'x.test' })).toBe('https://a.test/b?c=1&profile_name=a+b&domain=x.test#d')
    expect(withQuery(error!, { code: undefined, message: 'no' })).toBe('myapp:done?message=no')
    expect([placeOf(success!), placeOf(error!)]).toEqual(['a.test', 'the app (myapp)'])
    expect(readReturnUrls(new URLSearchParams({ success_url: '' }))).toEqual({})
  })
})

describe('texts', () => {
  test('exist also for error codes that this version does not know', () => {
    for (const code of ['of_another_version', '__proto__', 'toString', undefined, null]) expect(failureOf(code)[0]).toBe('The login has failed')
  })

  test('of sites are one line of bounded length, whose direction ends with them', () => {
    expect(plain('a\n\tb\u0000\u202Ec\u2066 d\u{e0041}')).toBe('a b c d')
    expect(plain('x'.repeat(1_000_000))).toBe(`${'x'.repeat(119)}…`)
    expect(plain('😀'.repeat(200))).toBe(`${'😀'.repeat(119)}…`)
    expect(plain(`Z${'\u0301'.repeat(50)}`)).toBe(`Z${'\u0301'.repeat(4)}`)
    expect(plain(' '.repeat(5000))).toBe('')
    for (const other of [undefined, null, 1, { toString: () => 'x' }]) expect(plain(other as string)).toBe('')
  })
})
