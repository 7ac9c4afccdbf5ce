// One request against a fake Chromium: the commands it gets at each stage. test/sdk/curl.test.ts uses a real one.
import { expect, test, vi } from 'vitest'
import { fakeCdp } from '../../../test/support/fake-cdp.ts'
import { Exchange, type CurlRequest } from './exchange.ts'

/** A hidden page whose events and answers the test sends. */
async function act(request: Partial<CurlRequest>, readMs = 1_000) {
  const released: boolean[] = []
  const navigated = Promise.withResolvers<object>()
  const chromium = fakeCdp({ 'Page.navigate': () => navigated.promise })
  const { cdp, sent, replies } = chromium
  const [network, body] = [await cdp.session('t'), await cdp.session('t')]
  const page = { connection: { ...cdp, close() {} }, targetId: 't', network, body }
  const stop = new AbortController()
  const answer = new Exchange(page, { url: 'http://a.example/', method: 'GET', headers: [], body: undefined, ...request }, stop.signal, readMs, (clean) => {
    released.push(clean)
    if (!clean) for (const session of [network, body]) session.drop()
  }).run()
  answer.catch(() => {})
  const emit = (session: 'network' | 'body', method: string, params: object) => chromium.emit(method, params, SESSIONS[session])
  const paused = (session: 'network' | 'body', url: string, rest: Record<string, unknown> = {}) =>
    emit(session, 'Fetch.requestPaused', { requestId: `${session} ${url}`, networkId: 'n', request: { url, headers: { Accept: '*/*' } }, ...rest })
  return { answer, sent, released, navigated, replies, emit, paused, stop, last: () => sent.at(-1)! }
}

const SESSIONS = { network: 'session-1', body: 'session-2' }

const found = (url: string, to: string, status = 302) => [url, { responseStatusCode: status, responseHeaders: [{ name: 'Location', value: to }] }] as const

test('if the browser tries https for an http URL, that attempt fails, and the request is sent once over http', async () => {
  const { paused, sent } = await act({ method: 'POST', body: Buffer.from('x') })
  paused('network', 'https://a.example/')
  expect(sent.at(-1)).toMatchObject({ method: 'Fetch.failRequest', params: { errorReason: 'ConnectionRefused' } })
  paused('network', 'http://a.example/')
  expect(sent.at(-1)).toMatchObject({ method: 'Fetch.continueRequest', params: { method: 'POST', postData: 'eA==' } })
  expect(sent.filter(({ params }) => 'postData' in params)).toHaveLength(1)
})

test('if a target itself redirects to https, the request is sent there', async () => {
  const { paused, last } = await act({})
  paused('network', 'http://a.example/')
  paused('network', ...found('http://a.example/', 'https://a.example/', 307))
  paused('network', 'https://a.example/', { redirectedRequestId: '1' })
  expect(last()).toMatchObject({ method: 'Fetch.continueRequest' })
})

test("a request that starts again after a redirect starts at the redirect's target", async () => {
  const { paused, last } = await act({ method: 'POST', body: Buffer.from('x'), headers: [['Authorization', 's'], ['Content-Type', 't']] }) // prettier-ignore
  paused('network', 'http://a.example/')
  paused('network', ...found('http://a.example/', 'http://b.example/', 308))
  paused('network', 'https://b.example/')
  expect(last()).toMatchObject({ method: 'Fetch.failRequest' })
  paused('network', 'http://b.example/')
  expect(last().params).toMatchObject({ method: 'POST', postData: 'eA==' })
  expect(JSON.stringify(last().params)).not.toContain('Authorization')
  paused('network', ...found('http://b.example/', '/c', 303))
  paused('network', 'http://b.example/c')
  expect(last().params).not.toHaveProperty('method')
  expect(last().params).not.toHaveProperty('postData')
})

test('a redirect to a URL other than http or https is refused, and the page is not reused', async () => {
  const { answer, paused, sent, released } = await act({})
  paused('network', 'http://a.example/')
  const before = sent.length
  paused('network', ...found('http://a.example/', 'file:///etc/passwd'))
  await expect(answer).rejects.toMatchObject({ code: 'bad_gateway', message: expect.stringContaining('file:') })
  expect(sent).toHaveLength(before)
  expect(released).toEqual([false])
})

test('a password prompt gets no password', async () => {
  const { emit, last } = await act({})
  emit('network', 'Fetch.authRequired', { requestId: 'r' })
  expect(last().params).toEqual({ requestId: 'r', authChallengeResponse: { response: 'CancelAuth' } })
})

test('a header that Chromium refuses is a bad request that names the header', async () => {
  const { answer, paused, replies } = await act({ headers: [['Host', 'x']] })
  replies['Fetch.continueRequest'] = () => {
    throw new Error('Unsafe header: Host')
  }
  paused('network', 'http://a.example/')
  await expect(answer).rejects.toMatchObject({ code: 'bad_request', message: 'headers.Host: can only be set by the browser; leave it out' })
})

test('an answer is read to its end and includes the raw cookies, and then the page can be reused', async () => {
  const { answer, paused, emit, replies, released, navigated, sent } = await act({})
  const pieces = [{ data: 'aGkg', base64Encoded: true, eof: false }, { data: '', eof: false }, { data: 'you', eof: false }, { data: '', eof: true }] // prettier-ignore
  replies['Fetch.takeResponseBodyAsStream'] = () => ({ stream: 's' })
  replies['IO.read'] = () => pieces.shift()
  replies['Fetch.failRequest'] = () => navigated.resolve({ errorText: 'net::ERR_ABORTED' })
  paused('network', 'http://a.example/')
  emit('network', 'Network.requestWillBeSentExtraInfo', { requestId: 'n' })
  // A late event of the previous request on this page.
  emit('network', 'Network.responseReceivedExtraInfo', { requestId: 'earlier', headers: { 'set-cookie': 'not=mine' } })
  const head = { responseStatusCode: 200, responseHeaders: [{ name: 'X-A', value: 'b' }] }
  paused('network', 'http://a.example/', head)
  paused('body', 'http://a.example/', head)
  setTimeout(() => emit('network', 'Network.responseReceivedExtraInfo', { requestId: 'n', headers: { 'set-cookie': 'a=1\nb=2' } }), 20)
  const { status, headers, body } = await answer
  expect([status, headers]).toEqual([200, [['X-A', 'b'], ['Set-Cookie', 'a=1'], ['Set-Cookie', 'b=2']]]) // prettier-ignore
  expect(Buffer.concat(await body.toArray()).toString()).toBe('hi you')
  expect(sent.at(-1)).toMatchObject({ sessionId: SESSIONS.body, method: 'Fetch.failRequest', params: { errorReason: 'Aborted' } })
  await expect.poll(() => released).toEqual([true])
})

test('an answer that breaks off is an error, although its stream ends normally', async () => {
  const { answer, paused, replies, released } = await act({})
  replies['Fetch.takeResponseBodyAsStream'] = () => ({ stream: 's' })
  replies['IO.read'] = () => ({ data: '', eof: true })
  paused('network', 'http://a.example/')
  paused('network', 'http://a.example/', { responseStatusCode: 200 })
  paused('body', 'http://a.example/', { responseStatusCode: 200 })
  const { body } = await answer
  paused('network', 'http://a.example/', { responseErrorReason: 'Failed' })
  await expect(body.toArray()).rejects.toMatchObject({ code: 'bad_gateway', message: expect.stringContaining('broke off') })
  expect(released).toEqual([false])
})

test('slow answers are read in small pieces and fast ones in large pieces; a reader that reads nothing loses the page', async () => {
  const { answer, paused, replies, released, sent } = await act({})
  const sizes = () => sent.filter(({ method }) => method === 'IO.read').map(({ params }) => Number(params.size))
  let slow = true
  replies['Fetch.takeResponseBodyAsStream'] = () => ({ stream: 's' })
  replies['IO.read'] = async () => {
    if (slow) await new Promise((resolve) => setImmediate(resolve, vi.advanceTimersByTime(600)))
    return { data: 'x'.repeat(sizes().at(-1)!), eof: false }
  }
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  try {
    paused('network', 'http://a.example/')
    paused('network', 'http://a.example/', { responseStatusCode: 200 })
    paused('body', 'http://a.example/', { responseStatusCode: 200 })
    const { body } = await answer
    body.read(0)
    while (sizes().length < 3) await new Promise((resolve) => setImmediate(resolve))
    expect(sizes().slice(0, 3)).toEqual([64, 64, 64])
    slow = false
    while (body.readableLength < 256 * 1024) await new Promise((resolve) => setImmediate(resolve))
    expect(Math.max(...sizes())).toBe(256 * 1024)
    slow = true
    const length = sizes().length
    for (; sizes().length < length + 2; body.read()) await new Promise((resolve) => setImmediate(resolve))
    expect(sizes()[length + 1]).toBe(64 * 1024)
    slow = false
    while (body.readableLength < 256 * 1024) await new Promise((resolve) => setImmediate(resolve))
    const before = sizes().length
    vi.advanceTimersByTime(59_000)
    expect([sizes().length, released]).toEqual([before, []])
    vi.advanceTimersByTime(1_000)
    await new Promise((resolve) => setImmediate(resolve))
    expect(released).toEqual([false])
  } finally {
    vi.useRealTimers()
  }
})

test('an answer that nobody reads releases the page when its caller leaves', async () => {
  const { answer, paused, replies, released, stop } = await act({})
  replies['Fetch.takeResponseBodyAsStream'] = () => ({ stream: 's' })
  paused('network', 'http://a.example/')
  paused('network', 'http://a.example/', { responseStatusCode: 200 })
  paused('body', 'http://a.example/', { responseStatusCode: 200 })
  const { body } = await answer
  stop.abort(new Error('left'))
  await expect.poll(() => released).toEqual([false])
  expect(body.destroyed).toBe(true)
})

test('a live answer that ends before its head was passed on ends the request, although the browser answered every command', async () => {
  const { answer, paused, navigated, released } = await act({}, 20)
  paused('network', 'http://a.example/')
  paused('network', 'http://a.example/', { responseStatusCode: 200, responseHeaders: [{ name: 'Content-Type', value: 'text/event-stream' }] })
  navigated.resolve({})
  await expect(answer).rejects.toThrow('the hidden page was closed')
  expect(released).toEqual([false])
})

test('a page that is used again tells its events only to the request that uses it', async () => {
  const first = await act({})
  first.replies['Fetch.takeResponseBodyAsStream'] = () => ({ stream: 's' })
  first.replies['IO.read'] = () => ({ data: '', eof: true })
  first.replies['Fetch.failRequest'] = () => first.navigated.resolve({ errorText: 'net::ERR_ABORTED' })
  first.paused('network', 'http://a.example/')
  first.paused('network', 'http://a.example/', { responseStatusCode: 200 })
  first.paused('body', 'http://a.example/', { responseStatusCode: 200 })
  await (await first.answer).body.toArray()
  await expect.poll(() => first.released).toEqual([true])
  const before = first.sent.length
  first.paused('network', 'http://b.example/')
  first.paused('body', 'http://b.example/')
  expect(first.sent).toHaveLength(before)
})
