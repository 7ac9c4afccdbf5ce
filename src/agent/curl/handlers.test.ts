// Both calls of curl with a fake browser: limits, timeouts, bodies.
import { EventEmitter } from 'node:events'
import type { IncomingHttpHeaders } from 'node:http'
import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { silentLog } from '../../base/log.ts'
import { sleep } from '../../base/wait.ts'
import type { Bytes } from '../../http/route.ts'
import { MAX_ENVELOPE_BYTES, MAX_REQUEST_BYTES } from './contract.ts'
import type { CurlAnswer, CurlRequest } from './exchange.ts'
import { curlHandlers } from './handlers.ts'

const URL_ = 'http://example.com/'
const common = { params: {}, headers: {} as IncomingHttpHeaders, log: silentLog, origin: '', address: '', identified: () => {} }

function pretend(answer: (request: CurlRequest, signal: AbortSignal) => Partial<CurlAnswer> | Promise<Partial<CurlAnswer>>) {
  const asked: CurlRequest[] = []
  const handlers = curlHandlers({
    async send(request, signal) {
      asked.push({ ...request })
      return { status: 200, headers: [], body: Readable.from([]), ...(await answer(request, signal)) }
    },
  })
  const envelope = (body: { response_encoding?: 'utf8' | 'base64'; body?: string; timeout_ms?: number } = {}, signal = new AbortController().signal) =>
    handlers.curl({
      ...common,
      query: {},
      signal,
      body: { url: URL_, method: 'POST', headers: { 'X-A': 'b' }, response_encoding: 'utf8', timeout_ms: 1_000, ...body },
    })
  const raw = (body: Readable, timeout_ms = 1_000, signal = new AbortController().signal) =>
    handlers.curlRawPost({ ...common, query: { url: URL_, timeout_ms }, body, signal }) as Promise<Bytes>
  return { asked, envelope, raw }
}

describe('/curl', () => {
  test('returns status, headers and the body as text or base64, and sends what the caller gave', async () => {
    const { asked, envelope } = pretend(() => ({ status: 418, headers: [['x-a', '1']], body: Readable.from([Buffer.from([0xc3]), Buffer.from([0xa9, 0xff])]) }))
    expect(await envelope({ body: 'é' })).toMatchObject({ status: 418, headers: { 'X-A': ['1'] }, body: 'é\ufffd' })
    expect(await envelope({ response_encoding: 'base64' })).toMatchObject({ body: 'w6n/' })
    expect(asked[0]).toEqual({ url: URL_, method: 'POST', headers: [['X-A', 'b']], body: Buffer.from('é') })
  })

  test('accepts answers of up to 10 MiB; a larger one is an error that names /curl/raw, and the answer is released', async () => {
    const body = (bytes: number) => Readable.from([Buffer.alloc(1024 * 1024), Buffer.alloc(bytes - 1024 * 1024)])
    expect((await pretend(() => ({ body: body(MAX_ENVELOPE_BYTES) })).envelope()).body).toHaveLength(MAX_ENVELOPE_BYTES)
    const large = body(MAX_ENVELOPE_BYTES + 1)
    await expect(pretend(() => ({ body: large })).envelope()).rejects.toMatchObject({ code: 'bad_gateway', message: expect.stringContaining('/curl/raw') })
    expect(large.destroyed).toBe(true)
  })

  test('ends with a timeout if the answer does not arrive in time', async () => {
    const hangs = pretend(async (_request, signal) => sleep(60_000, signal).then(() => ({})))
    await expect(hangs.envelope({ timeout_ms: 30 })).rejects.toMatchObject({ code: 'deadline_exceeded', message: expect.stringContaining('30 ms') })
    const drips = pretend((_request, signal) => {
      const body = new Readable({ read() {} })
      signal.addEventListener('abort', () => body.destroy(new Error('in its own words')))
      return { body }
    })
    await expect(drips.envelope({ timeout_ms: 30 })).rejects.toMatchObject({ code: 'deadline_exceeded' })
  })

  test("stops when its caller leaves, with the caller's reason", async () => {
    const left = new AbortController()
    const answer = pretend(async (_request, signal) => sleep(60_000, signal).then(() => ({}))).envelope({}, left.signal)
    left.abort(new Error('left'))
    await expect(answer).rejects.toThrow('left')
  })
})

describe('/curl/raw', () => {
  test('passes on status, headers and body; its timeout covers the head only', async () => {
    const body = new Readable({ read() {} })
    const answer = await pretend(() => ({ status: 299, headers: [['Content-Type', 'text/x']], body })).raw(Readable.from([]), 300)
    expect(answer).toMatchObject({ status: 299, headers: { 'content-type': 'text/x' } })
    await sleep(500)
    expect(body.destroyed).toBe(false)
  })

  test('sends a body completely, and treats an empty body as none', async () => {
    const { asked, raw } = pretend(() => ({}))
    await raw(Readable.from([]))
    await raw(Readable.from([Buffer.alloc(300_000, 1), Buffer.alloc(300_000, 2)]))
    expect(asked.map(({ body }) => body?.length)).toEqual([undefined, 600_000])
  })

  test('refuses a body over the limit, and sends nothing', async () => {
    const { asked, raw } = pretend(() => ({}))
    const endless = Readable.from(
      (function* () {
        for (let left = MAX_REQUEST_BYTES; left >= 0; left -= 1 << 20) yield Buffer.alloc(1 << 20)
      })(),
    )
    await expect(raw(endless)).rejects.toMatchObject({ code: 'payload_too_large' })
    expect(asked).toEqual([])
  })

  test('holds one large body at a time; small bodies do not wait for it', async () => {
    const events = new EventEmitter()
    let held = 0
    let most = 0
    const { raw } = pretend(async ({ body }) => {
      if (body!.length < 1000) return {}
      most = Math.max(most, ++held)
      await new Promise((resolve) => events.once('go', resolve))
      held--
      return {}
    })
    const large = () => raw(Readable.from([Buffer.alloc(400_000), Buffer.alloc(400_000)]), 60_000)
    const all = [large(), large(), large()]
    await raw(Readable.from([Buffer.alloc(10)]))
    const go = setInterval(() => events.emit('go'), 5)
    await Promise.all(all)
    clearInterval(go)
    expect(most).toBe(1)
  })

  test('times out if a caller does not finish sending its body', async () => {
    await expect(pretend(() => ({})).raw(new Readable({ read() {} }), 30)).rejects.toMatchObject({ code: 'deadline_exceeded' })
  })
})
