// The curl handlers. The envelope is held in memory as a whole, so its size is limited. The stream is not held.
import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import { fault } from '../../http/fault.ts'
import type { Bytes, Handlers } from '../../http/route.ts'
import { MAX_ENVELOPE_BYTES, MAX_REQUEST_BYTES, type curl } from './contract.ts'
import type { Curl } from './curl.ts'
import { byCanonicalName, passedOn, sentOn } from './headers.ts'
import { Uploads } from './uploads.ts'

interface RawCall {
  query: { url: string; timeout_ms: number }
  body: Readable | undefined
  headers: IncomingHttpHeaders
  signal: AbortSignal
}

export function curlHandlers({ send }: Curl): Handlers<typeof curl> {
  const uploads = new Uploads(MAX_REQUEST_BYTES)
  const raw =
    (method: string) =>
    async ({ query: { url, timeout_ms }, body, headers, signal }: RawCall): Promise<Bytes> => {
      using limit = deadline(timeout_ms, signal)
      const answer = await uploads
        .hold(body, limit.signal, (bytes) => send({ url, method, headers: sentOn(headers), body: bytes }, limit.signal, timeout_ms))
        .catch((error: unknown) => {
          throw limit.signal.aborted ? limit.signal.reason : error
        })
      return { status: answer.status, headers: passedOn(answer.headers), body: answer.body }
    }
  return {
    async curl({ body: { url, method, headers, body, response_encoding, timeout_ms }, signal }) {
      const began = performance.now()
      using limit = deadline(timeout_ms, signal)
      try {
        const request = { url, method, headers: Object.entries(headers), body: body === undefined ? undefined : Buffer.from(body) }
        const answer = await send(request, limit.signal, timeout_ms)
        const bytes = await whole(answer.body)
        return {
          status: answer.status,
          headers: byCanonicalName(answer.headers),
          body: bytes.toString(response_encoding),
          duration_ms: Math.round(performance.now() - began),
        }
      } catch (error) {
        throw limit.signal.aborted ? limit.signal.reason : error
      }
    },
    curlRawGet: raw('GET'),
    curlRawPost: raw('POST'),
    curlRawPut: raw('PUT'),
    curlRawPatch: raw('PATCH'),
    curlRawDelete: raw('DELETE'),
  }
}

/** A signal that aborts when the caller's does, or after `ms` unless it is disposed of first. */
function deadline(ms: number, caller: AbortSignal): Disposable & { signal: AbortSignal } {
  const passed = new AbortController()
  const timer = setTimeout(() => passed.abort(fault.deadline(ms)), ms)
  return { signal: AbortSignal.any([caller, passed.signal]), [Symbol.dispose]: () => clearTimeout(timer) }
}

async function whole(body: Readable): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > MAX_ENVELOPE_BYTES)
      throw fault.badGateway(`the answer has more than ${MAX_ENVELOPE_BYTES} bytes, the limit of JSON answers; use /curl/raw, which streams it`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, length)
}
