// Headers of requests and answers: which are added, and which are not passed on.
import fc from 'fast-check'
import { ServerResponse, IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { afterRedirect, byCanonicalName, joinCookies, merge, passedOn, sentOn, type Header } from './headers.ts'

/** The order in which a debugging client gets them: sorted by name. */
const OWN = { Accept: 'text/html', Cookie: 'a=1; b=2', 'Upgrade-Insecure-Requests': '1', 'User-Agent': 'Mozilla/5.0', 'sec-ch-ua': '"Chromium"' }

describe('the headers of a request', () => {
  test('are left to the browser if the caller gives none', () => {
    expect(merge(OWN, [])).toBeUndefined()
  })

  test("are the browser's in its order, the caller's replace those of the same name, and the caller's others follow", () => {
    expect(
      merge(OWN, [
        ['X-Mine', 'x'],
        ['user-agent', 'Mine/1'],
      ]),
    ).toEqual([
      ['sec-ch-ua', '"Chromium"'],
      ['Upgrade-Insecure-Requests', '1'],
      ['User-Agent', 'Mine/1'],
      ['Accept', 'text/html'],
      ['X-Mine', 'x'],
    ])
  })

  test("contain the cookies of the browser and of the caller; for equal names the caller's wins", () => {
    expect(merge(OWN, [['Cookie', 'b=mine; c=3']])!.at(-1)).toEqual(['Cookie', 'a=1; b=mine; c=3'])
    expect(merge({}, [['cookie', 'c=3']])).toEqual([['Cookie', 'c=3']])
    expect(joinCookies('a=1;;  =x', ' a = 2 ; ')).toBe('=x; a = 2')
  })

  test("lose the caller's credentials and cookies on a redirect to another origin, and the body headers when it becomes a GET", () => {
    const given: Header[] = [
      ['Authorization', 'x'],
      ['cookie', 'a=1'],
      ['Content-Type', 'text/x'],
      ['X-Mine', 'x'],
    ]
    expect(afterRedirect(given, { sameOrigin: true, bodyDropped: false })).toEqual(given)
    expect(afterRedirect(given, { sameOrigin: false, bodyDropped: false }).map(([name]) => name)).toEqual(['Content-Type', 'X-Mine'])
    expect(afterRedirect(given, { sameOrigin: false, bodyDropped: true }).map(([name]) => name)).toEqual(['X-Mine'])
  })

  test("do not include those of the caller's HTTP library, or of the path to this service", () => {
    const headers = {
      host: 'cob.example',
      connection: 'keep-alive',
      'accept-encoding': 'gzip, deflate',
      'user-agent': 'Kernel/JS 0.84.0',
      accept: '*/*',
      'accept-language': '*',
      'sec-fetch-mode': 'cors',
      'x-stainless-lang': 'js',
      'x-request-id': 'r',
      'x-forwarded-for': '10.0.0.1',
      'content-length': '3',
      'content-type': 'text/x',
      'x-mine': 'x',
    }
    expect(sentOn(headers)).toEqual([
      ['content-type', 'text/x'],
      ['x-mine', 'x'],
    ])
    expect(sentOn({ 'user-agent': 'Shopper/2.0', accept: 'application/json', 'accept-language': 'de' })).toHaveLength(3)
  })
})

describe('the headers of an answer', () => {
  test('lose encoding and length if the body was decoded, and keep both if it was not', () => {
    const length: Header = ['Content-Length', '70']
    expect(passedOn([length, ['Content-Encoding', 'gzip']])).not.toHaveProperty('content-length')
    expect(passedOn([length, ['Content-Encoding', 'br, zstd']])).not.toHaveProperty('content-encoding')
    expect(passedOn([length])).toHaveProperty('content-length', '70')
    expect(passedOn([length, ['Content-Encoding', 'aws-chunked']])).toMatchObject({ 'content-length': '70', 'content-encoding': 'aws-chunked' })
  })

  test('keep each cookie, and lose headers that a proxy would act on', () => {
    const passed = passedOn([
      ['Set-Cookie', 'a=1'],
      ['set-cookie', 'b=2'],
      ['Connection', 'keep-alive, X-Hop'],
      ['X-Hop', '1'],
      ['X-Accel-Redirect', '/internal'],
      ['Transfer-Encoding', 'chunked'],
      ['X-Dup', '1'],
      ['x-dup', '2'],
    ])
    expect(passed).toEqual({ 'set-cookie': ['a=1', 'b=2'], 'x-dup': '1, 2' })
  })

  test('can be written to the response, whatever they contain', () => {
    const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 20 }), fc.constantFrom('content-length', 'Set-Cookie', 'x', 'a\r\nb', 'ü', '漢', '\0'))
    fc.assert(
      fc.property(fc.array(fc.tuple(text, text)), (headers) => {
        const response = new ServerResponse(new IncomingMessage(new Socket()))
        for (const [name, value] of Object.entries(passedOn(headers))) response.setHeader(name, value)
      }),
      { numRuns: 2_000 },
    )
  })

  test('have canonical names, each with all its values', () => {
    expect(
      byCanonicalName([
        ['content-type', 'text/x'],
        ['x-dup', '1'],
        ['X-DUP', '2'],
        ['__proto__', 'x'],
      ]),
    ).toEqual(Object.assign(Object.create(null), { 'Content-Type': ['text/x'], 'X-Dup': ['1', '2'], ['__proto__']: ['x'] }))
  })
})

test('long headers of a site are read at once', () => {
  const long = `a${' '.repeat(200_000)}x`
  // CPU time, so that a busy machine has no effect. Quadratic time would be seconds.
  const from = process.cpuUsage()
  passedOn([
    ['Connection', long],
    ['Content-Encoding', long],
  ])
  expect(process.cpuUsage(from).user / 1000).toBeLessThan(1_000)
})
