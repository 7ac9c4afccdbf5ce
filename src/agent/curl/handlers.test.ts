// Requests by /curl/raw, with a fake browser: limits of bodies. Everything else: test/sdk/curl.test.ts.
import { EventEmitter } from 'node:events'
import type { IncomingHttpHeaders } from 'node:http'
import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { silentLog } from '../../base/log.ts'
import type { Bytes } from '../../http/route.ts'
import { MAX_REQUEST_BYTES } from './contract.ts'
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
  const raw = (body: Readable, timeout_ms = 1_000, signal = new AbortController().signal) =>
    handlers.curlRawPost({ ...common, query: { url: URL_, timeout_ms }, body, signal }) as Promise<Bytes>
  return { asked, raw }
}

describe('/curl/raw', () => {
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
