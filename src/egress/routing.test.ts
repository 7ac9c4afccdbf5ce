// The route of a session to a host.
import { expect, test } from 'vitest'
import { isListed } from '../base/hosts.ts'
import type { Upstream } from './upstream.ts'
import { routeTo } from './routing.ts'

const server = (host: string, bypassHosts: string[] = []): Upstream => ({ protocol: 'http', host, port: 1, bypassHosts })

test.each([
  ['example.com', ['example.com'], true],
  ['EXAMPLE.com.', ['example.com'], true],
  ['a.example.com', ['example.com'], false],
  ['a.b.example.com', ['*.example.com'], true],
  ['example.com', ['*.example.com'], false],
  ['badexample.com', ['*.example.com'], false],
  ['8.8.8.8', ['8.8.8.8'], true],
  ['8.8.4.9', ['8.8.4.0/24'], true],
  ['8.8.5.9', ['8.8.4.0/24'], false],
  // Only hosts that are written as addresses.
  ['dns.google', ['8.8.8.8', '8.8.4.0/24'], false],
  ['2001:4860:4860::8888', ['[2001:4860:4860::8888]'], true],
  ['2001:4860:0:0::1', ['2001:4860::/32'], true],
  ['2001:4861::1', ['2001:4860::/32'], false],
  // A pattern of names matches no address.
  ['1.2.3.4', ['*.3.4'], false],
])('%s in %j: %s', (host, list, is) => expect(isListed(host, list)).toBe(is))

test('without a proxy every host is reached directly, with one through it, except for its exceptions', () => {
  expect(routeTo('a.test', { routes: [] })).toBe('direct')
  const upstream = server('main', ['b.test'])
  expect(routeTo('a.test', { upstream, routes: [] })).toBe(upstream)
  expect(routeTo('b.test', { upstream, routes: [] })).toBe('direct')
})

test('the most exact route wins, whatever their order, with the exceptions of its own proxy', () => {
  const [upstream, wide, narrow, exact] = [server('main', ['x.b.example.com']), server('wide', ['z.example.com']), server('narrow'), server('exact')]
  const routes = [
    { hosts: ['*.example.com'], upstream: wide },
    { hosts: ['other.test', '*.b.example.com'], upstream: narrow },
    { hosts: ['a.b.example.com'], upstream: exact },
  ]
  for (const order of [routes, routes.toReversed()]) {
    const to = (host: string) => routeTo(host, { upstream, routes: order })
    expect([to('a.b.example.com'), to('x.b.example.com'), to('y.example.com'), to('z.example.com'), to('example.com')]).toEqual([
      exact,
      narrow,
      wide,
      'direct',
      upstream,
    ])
  }
})

test('a list of allowed hosts comes before everything', () => {
  const upstream = server('main', ['b.test'])
  const routing = { upstream, routes: [{ hosts: ['c.test'], upstream: server('c') }], allowedHosts: ['a.test'] }
  expect(['a.test', 'b.test', 'c.test', '127.0.0.1'].map((host) => routeTo(host, routing))).toEqual([upstream, 'denied', 'denied', 'denied'])
})
