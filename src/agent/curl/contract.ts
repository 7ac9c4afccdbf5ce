// HTTP requests by the session's browser, for callers. The answer is a JSON envelope (/curl) or a stream (/curl/raw).
import * as z from 'zod'
import { byteStream, bytes, json, route, type Method } from '../../http/route.ts'

const group = 'Browsers'

/** Chromium's own limit (url::kMaxURLChars). */
const MAX_URL = 2 * 1024 * 1024

/** Limits and default of a caller's `timeout_ms`. */
const MIN_TIMEOUT_MS = 1
const MAX_TIMEOUT_MS = 300_000
const DEFAULT_TIMEOUT_MS = 30_000

/** Bytes sent to the target. The debugging protocol takes a body as base64 in one message, and refuses messages above 100 MiB. */
export const MAX_REQUEST_BYTES = 32 * 1024 * 1024
/** Bytes of the JSON of one call. Larger bodies need /curl/raw. */
const MAX_CURL_BODY = 16 * 1024 * 1024

/** Bytes of an answer in the JSON envelope. Larger answers need /curl/raw. */
export const MAX_ENVELOPE_BYTES = 10 * 1024 * 1024

/** The number of headers of one request, and the length of each. */
const MAX_HEADERS = 200
const MAX_HEADER = 16 * 1024

const Target = z
  .string()
  .min(1)
  .max(MAX_URL)
  .refine((url) => /^https?:/i.test(url.trim()) && URL.canParse(url), 'must be an absolute http or https URL')
  .transform((url) => new URL(url).href)

const timeout = { min: MIN_TIMEOUT_MS, max: MAX_TIMEOUT_MS }

export const CurlBody = z.strictObject({
  url: Target,
  method: z.enum(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']).default('GET'),
  /** Added to the browser's own. A header of the same name replaces the browser's. Cookies are added to the browser's cookies. */
  headers: z
    .record(z.string().min(1).max(256), z.string().max(MAX_HEADER))
    .refine((headers) => Object.keys(headers).length <= MAX_HEADERS, `expected at most ${MAX_HEADERS} headers`)
    .default({}),
  /** Text, sent as UTF-8. */
  body: z.string().optional(),
  /** How the bytes of the answer are encoded in `body`. */
  response_encoding: z.enum(['utf8', 'base64']).default('utf8'),
  /** Milliseconds for the whole call. */
  timeout_ms: z.int().min(timeout.min).max(timeout.max).default(DEFAULT_TIMEOUT_MS),
})

const CurlReply = z.object({
  status: z.int(),
  /** By name, written like `Content-Type`. A repeated header has several values. They are as the target sent them, although `body` is decoded. */
  headers: z.record(z.string(), z.array(z.string())),
  body: z.string(),
  duration_ms: z.int(),
})

const raw = <M extends Method>(method: M, id: string) =>
  ({
    method,
    right: 'use',
    path: '/curl/raw',
    id,
    group,
    summary: `Send a ${method} request through the browser and stream the response`,
    query: z.strictObject({
      url: Target,
      /** Milliseconds until the answer begins. The same limit then applies between one piece and the next. */
      timeout_ms: z.coerce.number().int().min(timeout.min).max(timeout.max).default(DEFAULT_TIMEOUT_MS),
    }),
    maxBodyBytes: MAX_REQUEST_BYTES,
    relays: true,
    deadlineMs: Infinity,
    reply: bytes('application/octet-stream'),
    faults: ['bad_gateway'],
  }) as const

const withBody = { body: byteStream, bodyKind: 'bytes', bodyOptional: true } as const

export const curl = {
  curl: route({
    method: 'POST',
    path: '/curl',
    id: 'curl',
    group,
    summary: 'Send an HTTP request through the browser',
    body: CurlBody,
    maxBodyBytes: MAX_CURL_BODY,
    deadlineMs: MAX_TIMEOUT_MS + 10_000,
    reply: json(CurlReply),
    faults: ['bad_gateway'],
  }),
  curlRawGet: route(raw('GET', 'curlRawGet')),
  curlRawPost: route({ ...raw('POST', 'curlRawPost'), ...withBody }),
  curlRawPut: route({ ...raw('PUT', 'curlRawPut'), ...withBody }),
  curlRawPatch: route({ ...raw('PATCH', 'curlRawPatch'), ...withBody }),
  curlRawDelete: route({ ...raw('DELETE', 'curlRawDelete'), ...withBody }),
}
