// The network events of a session as an HTTP Archive: any captured events give a valid HAR 1.2.
import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import { emit } from '../../../../test/support/kept-telemetry.ts'
import { archiving, cloud, create, end } from '../../../../test/support/telemetry-archive.ts'
import { line } from '../../../../test/support/telemetry-feed.ts'
import { TYPES, type Envelope, type EventType } from '../../../agent/telemetry/contract.ts'
import { harOf } from './har.ts'

const Size = z.number().min(-1)
const Pairs = z.array(z.object({ name: z.string(), value: z.string() }))
const Time = z.iso.datetime({ precision: 3 })
const message = { httpVersion: z.string(), cookies: z.array(z.object({})), headers: Pairs, headersSize: Size, bodySize: Size }
/** The schema of an entry in version 1.2. */
const Entry = z.looseObject({
  pageref: z.string().optional(),
  startedDateTime: Time,
  time: Size,
  request: z.object({
    ...message,
    method: z.string(),
    url: z.string(),
    queryString: Pairs,
    postData: z.object({ mimeType: z.string(), text: z.string() }).optional(),
  }),
  response: z.looseObject({
    ...message,
    status: Size,
    statusText: z.string(),
    content: z.object({ size: Size, mimeType: z.string(), text: z.string().optional() }),
    redirectURL: z.string(),
    _error: z.string().optional(),
  }),
  cache: z.object({}),
  timings: z.object({ blocked: Size, dns: Size, connect: Size, ssl: Size, send: Size, wait: Size, receive: Size }),
  comment: z.string().optional(),
})
const Page = z.object({
  startedDateTime: Time,
  id: z.string(),
  title: z.string(),
  pageTimings: z.object({ onContentLoad: Size.nullable(), onLoad: Size.nullable() }),
})
const Har = z.object({
  log: z.object({ version: z.string(), creator: z.object({ name: z.string(), version: z.string() }), pages: z.array(Page), entries: z.array(Entry) }),
})

/**
 * A parsed HAR. @throws when it breaks a rule: fields and their types, entries in the order of their requests, pages that exist, times that are the sum of
 * their parts
 */
function valid(har: unknown) {
  const { log } = Har.parse(har)
  const ids = log.pages.map(({ id }) => id)
  expect(new Set(ids).size).toBe(ids.length)
  for (const { pageref, time, timings } of log.entries) {
    if (pageref !== undefined) expect(ids).toContain(pageref)
    const { ssl: _, ...parts } = timings
    expect(Object.values(parts).reduce((sum, part) => sum + Math.max(0, part), 0)).toBeCloseTo(time, 2)
  }
  const began = log.entries.map(({ startedDateTime }) => startedDateTime)
  expect(began).toEqual(began.toSorted())
  return log
}

async function* each(events: readonly Envelope[]): AsyncGenerator<Envelope> {
  yield* events
}
async function made(...events: [type: EventType, data: Record<string, unknown>, more?: Partial<Envelope['event']>][]) {
  const start = Date.now() * 1000
  const envelopes = events.map(([type, data, more], at) => line(at + 1, { type, category: TYPES[type], ts: start + at * 1_000, data, ...more }))
  let text = ''
  for await (const piece of harOf(each(envelopes))) text += piece
  return valid(JSON.parse(text))
}

const main = { target_id: 't', target_type: 'page', frame_id: 't' }
const ask = (id: string, url: string, more: Record<string, unknown> = {}) =>
  ['network_request', { request_id: id, method: 'GET', url, headers: { accept: '*/*' }, resource_type: 'Fetch', ...main, ...more }] as [
    EventType,
    Record<string, unknown>,
  ]
const answer = (id: string, more: Record<string, unknown> = {}) =>
  [
    'network_response',
    { request_id: id, status: 200, status_text: 'OK', mime_type: 'text/plain', headers: { 'content-type': 'text/plain' }, ...main, ...more },
  ] as [EventType, Record<string, unknown>]
const page = { resource_type: 'Document' }

describe('a HAR has', () => {
  test('an entry for each request, with its answer, in the order of the requests', async () => {
    const log = await made(
      ask('1', 'http://a.test/?a=1&b=%20', page),
      ask('2', 'http://a.test/x', { method: 'POST', post_data: '{"a":1}', headers: { 'Content-Type': 'application/json' } }),
      answer('2', { body: '€', mime_type: 'application/json', status: 201 }),
      answer('1', { body: '<p>' }),
    )
    expect(log.entries.map(({ request, response, time }) => [request.method, request.url, response.status, time])).toEqual([
      ['GET', 'http://a.test/?a=1&b=%20', 200, 3],
      ['POST', 'http://a.test/x', 201, 1],
    ])
    expect(log.entries[0]!.request.queryString).toEqual([
      { name: 'a', value: '1' },
      { name: 'b', value: ' ' },
    ])
    expect(log.entries[1]!.request.postData).toEqual({ mimeType: 'application/json', text: '{"a":1}' })
    expect(log.entries[1]!.response.content).toEqual({ size: 3, mimeType: 'application/json', text: '€' })
  })

  test('pages, with the times of their events, and which requests were of which', async () => {
    const log = await made(
      ask('1', 'http://a.test/', page),
      answer('1'),
      ask('2', 'http://a.test/x'),
      ['page_dom_content_loaded', main],
      answer('2'),
      ['page_load', main],
      ask('3', 'http://b.test/', page),
      answer('3'),
      ask('4', 'http://frame.test/', { ...page, target_type: 'iframe', target_id: 'f', frame_id: 'f' }),
    )
    expect(log.pages.map(({ id, title, pageTimings }) => [id, title, pageTimings])).toEqual([
      ['page_1', 'http://a.test/', { onContentLoad: 3, onLoad: 5 }],
      ['page_2', 'http://b.test/', { onContentLoad: null, onLoad: null }],
    ])
    expect(log.entries.map(({ pageref }) => pageref)).toEqual(['page_1', 'page_1', 'page_2', undefined])
  })

  test('each step of a redirect, which is one page', async () => {
    const log = await made(
      ask('1', 'http://a.test/', page),
      answer('1', { status: 302, headers: { Location: 'http://b.test/' } }),
      ask('1', 'http://b.test/', { ...page, is_redirect: true, redirect_url: 'http://a.test/' }),
      answer('1', { body: 'there' }),
    )
    expect(log.entries.map(({ request, response }) => [request.url, response.status, response.redirectURL])).toEqual([
      ['http://a.test/', 302, 'http://b.test/'],
      ['http://b.test/', 200, ''],
    ])
    expect(log.pages).toHaveLength(1)
  })

  test('requests that failed, that were never answered, and answers whose requests were not captured', async () => {
    const log = await made(
      ask('1', 'http://a.test/'),
      ask('2', 'http://b.test/'),
      ['network_loading_failed', { request_id: '1', error_text: 'net::ERR_CONNECTION_REFUSED' }],
      ['network_loading_failed', { request_id: 'none', error_text: 'net::ERR_ABORTED' }],
      answer('9', { url: 'http://c.test/' }),
    )
    expect(log.entries.map(({ request, response, comment }) => [request.url, response.status, response._error, comment])).toEqual([
      ['http://a.test/', 0, 'net::ERR_CONNECTION_REFUSED', undefined],
      ['http://b.test/', 0, undefined, 'no answer was captured'],
      ['http://c.test/', 200, undefined, undefined],
    ])
  })

  test('its form, whatever an event says', async () => {
    const odd = [null, 5, 'x', [], { a: { b: 1 } }, true]
    for (const value of odd) {
      const fields = 'request_id url method headers post_data status status_text mime_type body target_id resource_type error_text'.split(' ')
      const data = Object.fromEntries(fields.map((name) => [name, value]))
      await made(
        ['network_request', data],
        ['network_response', data],
        ['network_loading_failed', data],
        ['page_load', data],
        ['network_request', {}],
        ['network_response', { url: 'http://a.test/', headers: { a: ['b'], '': 7 } }],
      )
    }
  })

  test('bounded memory: of very many requests without an answer the first are written without one', async () => {
    const count = 10_000
    const events = Array.from({ length: count }, (_, at) => ask(String(at), `http://a.test/${at}`))
    const log = await made(...events, answer('0'), answer(String(count - 1)))
    expect(log.entries).toHaveLength(count)
    expect([log.entries[0]!.response.status, log.entries.at(-1)!.response.status]).toEqual([0, 200])
  })
})

describe('the download', () => {
  archiving()

  test('has what was captured between two times, also after the end of the session; an empty archive is a HAR without entries', async () => {
    const id = await create()
    const get = async (query = '') => {
      const response = await cloud.fetch(`/browsers/${id}/har${query}`)
      expect([response.status, response.headers.get('content-type'), response.headers.get('content-disposition')]).toEqual([
        200,
        'application/json',
        `attachment; filename="${id}.har"`,
      ])
      return valid(await response.json()).entries.map(({ request }) => request.url)
    }
    expect(await get()).toEqual([])
    await emit(cloud.paths, id, ask('1', 'http://a.test/', page), answer('1'), ['console_log', { text: 'x' }], ask('2', 'http://b.test/'))
    await end(id)
    expect(await get()).toEqual(['http://a.test/', 'http://b.test/'])
    expect(await get('?since=1h&until=30m')).toEqual([])
    expect(await get('?since=1h')).toEqual(['http://a.test/', 'http://b.test/'])
    for (const bad of ['?since=soon', '?until=soon', '?other=1']) expect((await cloud.fetch(`/browsers/${id}/har${bad}`)).status).toBe(400)
    expect((await cloud.fetch('/browsers/nonesuch/har')).status).toBe(404)
  })
})
