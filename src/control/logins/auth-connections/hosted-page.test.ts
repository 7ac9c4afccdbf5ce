// The hosted login page over HTTP. In a browser: test/e2e/hosted-login.test.ts.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import { loggedPath } from '../../../http/request-path.ts'
import { HOSTED_PATH, hostedPath } from './hosted-page.ts'

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

  test('has an address whose code no log contains', () => {
    const path = hostedPath('a/b', 'x&y')
    expect(path).toBe('/auth/login/a%2Fb?code=x%26y')
    for (const url of [path, path.replace('?', '&')]) expect(loggedPath({ url, headers: {} }, [HOSTED_PATH])).toBe('/auth/login/…')
  })
})
