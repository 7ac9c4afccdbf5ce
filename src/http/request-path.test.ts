// The logged form of a request's path: never a secret, however it is encoded.
import { expect, test } from 'vitest'
import { isSecret, loggedPath } from './request-path.ts'

const KEY = `cob_${'0123456789abcdef'.repeat(3).slice(0, 40)}`
const LIVE = `${'a'.repeat(24)}c${'x'.repeat(32)}`
const path = (url: string, key?: string) => loggedPath({ url, headers: key === undefined ? {} : { authorization: `Bearer ${key}` } }, ['/browser/live'])

test.each([
  ['/browsers/abc?jwt=secret', '/browsers/abc'],
  ['http://user:password@host/browsers/abc?x', '/browsers/abc'],
  ['/browser/live/abc/state', '/browser/live/…'],
  ['//browser//live/abc', '/browser/live/…'],
  ['/browser/%6Cive/abc', '/browser/live/…'],
  ['http://u:p@h/browser/live/abc', '/browser/live/…'],
  [`/browsers/${KEY}/x`, '/browsers/…/x'],
  [`/browsers/%63${KEY.slice(1)}`, '/browsers/…'],
  [`/browsers/%zz/%63${KEY.slice(1)}`, '/browsers/%zz/…'],
  [`/browsers/eyJabc.def.ghi`, '/browsers/…'],
  [`/browsers/eyJabc%2edef%2eghi`, '/browsers/…'],
  [`/browsers/tokeneyJabc.def.ghi/x`, '/browsers/…/x'],
  [`/browsers/a.b.eyJabc.def.ghi`, '/browsers/a.b.…'],
  ['/browsers/eyJabc.def', '/browsers/eyJabc.def'],
  [`/browsers/${LIVE}`, '/browsers/…'],
  ['/browsers/a%20b%2Fc', '/browsers/a%20b%2Fc'],
])('%s is logged as %s', (url, logged) => {
  expect(path(url)).toBe(logged)
})

test("the caller's own key is hidden in any form that it has", () => {
  expect(path('/browsers/my-own-key-of-settings', 'my-own-key-of-settings')).toBe('/browsers/…')
  expect(path('/browsers/my-own%2Dkey-of-settings', 'my-own-key-of-settings')).toBe('/browsers/…')
})

test('ids and names are no secrets', () => {
  for (const text of ['a'.repeat(24), 'crawler', 'defaultproject0000000000', 'cob_short']) expect(isSecret(text)).toBe(false)
  for (const text of [KEY, LIVE, `x${KEY}`]) expect(isSecret(text)).toBe(true)
})

test.each(['eyJ', 'eyJ.', '.eyJ', 'a.eyJb', '-', 'cob_0', 'a1c', '%65yJ'])('a path of nothing but "%s" takes no time', (piece) => {
  // CPU time, so that a busy machine does not matter. An algorithm of quadratic time takes half a minute.
  const from = process.cpuUsage()
  for (let time = 0; time < 300; time++) path(`/${piece.repeat(16_000 / piece.length)}`)
  expect(process.cpuUsage(from).user / 1000).toBeLessThan(5_000)
})
