// Proxies in settings.
import { expect, test } from 'vitest'
import { fillPlaces, parseProxyUrl, placesOf } from './proxy-url.ts'

test.each([
  ['http://me:pass%40word@proxy.example.com:8080', { protocol: 'http', host: 'proxy.example.com', port: 8080, username: 'me', password: 'pass@word' }],
  ['https://10.0.0.1', { protocol: 'https', host: '10.0.0.1', port: 443, username: undefined, password: undefined }],
  ['socks5://me-{country}:secret@[2001:db8::1]/', { protocol: 'socks5', host: '2001:db8::1', port: 1080, username: 'me-{country}', password: 'secret' }],
  ['http://a[-cc-{country}][-city-{city}]:p@h:80', { protocol: 'http', host: 'h', port: 80, username: 'a[-cc-{country}][-city-{city}]', password: 'p' }],
])('%s is understood', (text, parsed) => {
  expect(parseProxyUrl(text)).toEqual(parsed)
})

test.each([
  '',
  'proxy:8080',
  'ftp://a:SECRET@h:1',
  'http://a:SECRET@h:1/path',
  'http://a:SECRET@h:1?q',
  'http://a:SECRET@h:99999',
  'http://a:SECRET%@h:1',
  'http://{planet}:SECRET@h:1',
  'http://a[b:SECRET@h:1',
  'socks5://a:SECRET@h%2f:1',
])('%s is refused, and the error shows nothing of it', (text) => {
  expect(() => parseProxyUrl(text)).toThrow(/^(?!.*(SECRET|planet))m(ust|ay) /)
})

test('places are filled with what is chosen, and parts in brackets go when it is not', () => {
  const name = 'a-{country}[-st-{state}][-c-{city}-{zip}]'
  expect(fillPlaces(name, { country: 'us' })).toBe('a-us')
  expect(fillPlaces(name, { country: 'us', state: 'ny', city: 'x' })).toBe('a-us-st-ny')
  expect(fillPlaces(name, { country: 'us', city: '{zip}', zip: '10001' })).toBe('a-us-c-{zip}-10001')
  expect(placesOf(name)).toEqual({ all: new Set(['country', 'state', 'city', 'zip']), required: new Set(['country']) })
  expect(fillPlaces('plain', {})).toBe('plain')
})
