// The hosted login page over HTTP, and the parts of its script that need no browser. In a browser: test/e2e/hosted-login.test.ts.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import { loggedPath } from '../../../http/request-path.ts'
import { ERROR_CODES } from './contract.ts'
import { HOSTED_PATH, hostedPath } from './hosted-page.ts'
// @ts-expect-error the page's own files are JavaScript
import { placeOf, readReturnUrls, withQuery } from './page/leave.js'
// @ts-expect-error the page's own files are JavaScript
import { failureOf, FAILURE_CODES, plain } from './page/texts.js'

/** All files of the page together, not compressed. */
const MOST_BYTES = 64 * 1024

let cloud: FastCloud
beforeAll(async () => {
  cloud = await startFastCloud()
})
afterAll(() => cloud[Symbol.asyncDispose]())

/** Requests like a person's browser: without a key. */
const open = (path: string) => fetch(`${cloud.url}${path}`, { redirect: 'manual' })

describe('the hosted page', () => {
  test('is the same for every address, so that it tells nothing about connections', async () => {
    const pages = await Promise.all(['/auth/login/a?code=x', '/auth/login/b', '/auth/login/%3Cb%3E?code=%3Cb%3E&success_url=javascript:1'].map(open))
    expect(pages.map(({ status }) => status)).toEqual([200, 200, 200])
    expect(new Set(await Promise.all(pages.map((page) => page.text()))).size).toBe(1)
  })

  test('loads from this service only, is in no frame, sends no referrer, and is never stored', async () => {
    const { headers } = await open(hostedPath('a', 'x'))
    const policy = headers.get('content-security-policy')!
    for (const part of ["default-src 'none'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"])
      expect(policy).toContain(part)
    expect(policy).not.toMatch(/unsafe|https?:|\*/)
    const names = ['content-type', 'referrer-policy', 'cache-control', 'x-frame-options', 'x-content-type-options']
    expect(names.map((name) => headers.get(name))).toEqual(['text/html; charset=utf-8', 'no-referrer', 'no-store', 'DENY', 'nosniff'])
  })

  test('is small, and has all its parts, of one version', async () => {
    const html = await (await open(hostedPath('a', 'x'))).text()
    const paths = new Set([...html.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, path]) => path!))
    expect(new Set([...paths].map((path) => path.slice(0, path.lastIndexOf('/')))).size).toBe(1)
    let bytes = html.length
    for (const path of paths) {
      const answer = await open(path)
      expect([answer.status, answer.headers.get('cache-control')]).toEqual([200, 'public, max-age=31536000, immutable'])
      const text = await answer.text()
      bytes += text.length
      for (const [, name] of text.matchAll(/from '\.\/([\w.]+)'/g)) expect(paths).toContain(path.replace(/[\w.]+$/, name!))
    }
    expect(bytes).toBeLessThan(MOST_BYTES)
    expect((await open([...paths][0]!.replace(/\/[0-9a-f]{16}\//, '/0000000000000000/'))).status).toBe(404)
  })

  test('has an address whose code no log contains', () => {
    const path = hostedPath('a/b', 'x&y')
    expect(path).toBe('/auth/login/a%2Fb?code=x%26y')
    for (const url of [path, path.replace('?', '&')]) expect(loggedPath({ url, headers: {} }, [HOSTED_PATH])).toBe('/auth/login/…')
  })
})

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
  test('exist for every error code, and for codes that this version does not know', () => {
    expect(FAILURE_CODES.toSorted()).toEqual([...ERROR_CODES].toSorted())
    for (const code of ['of_another_version', '__proto__', 'toString', undefined, null]) expect(failureOf(code as string)[0]).toBe('The login has failed')
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
