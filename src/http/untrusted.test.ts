// The parts of a sandbox's answer that are passed on: heads alone, without a service. test/hostile-agent.test.ts tests whole exchanges.
import type { IncomingMessage } from 'node:http'
import { describe, expect, test } from 'vitest'
import { bytes, json, none, route, type Route } from './route.ts'
import { passedHead } from './untrusted.ts'
import * as z from 'zod'

const of = (reply: Route['reply'], relays = false): Route => route({ method: 'GET', path: '/x', id: 'x', group: 'x', summary: 'x', reply, relays })
const answer = (statusCode: number, headers: Record<string, string | string[]>) => ({ statusCode, headers }) as unknown as IncomingMessage
const INERT = { 'x-content-type-options': 'nosniff' }
const CLOSED = { ...INERT, 'content-security-policy': "sandbox; default-src 'none'" }

describe("a tool's answer", () => {
  test('has the type that its route declares, and only headers of the allowlist', () => {
    const head = passedHead(
      of(bytes('image/png')),
      answer(200, { 'content-type': 'IMAGE/PNG;x=y', etag: '"a"', 'x-evil': '1', 'set-cookie': ['a=b'], location: '/' }),
      false,
    )
    expect(head).toEqual({ status: 200, headers: { ...CLOSED, etag: '"a"', 'content-type': 'image/png' }, maxBytes: Infinity })
  })

  test.each([
    [of(json(z.any())), 200, 'text/html'],
    [of(bytes('image/png')), 200, 'image/svg+xml'],
    [of(bytes('image/png')), 404, 'image/png'],
    [of(json(z.any())), 199, 'application/json'],
    [of(json(z.any())), 600, 'application/json'],
  ])('with another type or status is refused with 502', (promised, status, type) => {
    expect(() => passedHead(promised, answer(status, { 'content-type': type }), false)).toThrow(expect.objectContaining({ code: 'bad_gateway' }) as Error)
  })

  test('may have no body', () => {
    expect(passedHead(of(none()), answer(204, {}), false)).toEqual({ status: 204, headers: CLOSED, maxBytes: 0 })
  })
})

describe("another site's answer", () => {
  const relay = of(bytes('application/octet-stream'), true)

  test('gets a sandbox in addition to its own policy', () => {
    expect(passedHead(relay, answer(200, { 'content-security-policy': "default-src 'self'" }), false).headers).toEqual({
      ...INERT,
      'content-security-policy': "default-src 'self', sandbox",
    })
  })

  test("loses headers that would affect the service's origin, and its cookies if a web browser asks", () => {
    const sent = { 'set-cookie': ['a=1'], 'strict-transport-security': 'max-age=0', 'access-control-allow-origin': '*', 'clear-site-data': '"*"', 'x-own': '1' }
    expect(passedHead(relay, answer(999, sent), false)).toMatchObject({ status: 999, headers: { 'set-cookie': ['a=1'], 'x-own': '1' } })
    expect(Object.keys(passedHead(relay, answer(200, sent), true).headers)).toEqual(['x-own', 'x-content-type-options', 'content-security-policy'])
  })
})
