// The network events of a session as an HTTP Archive: the rules of HAR 1.2, whatever was captured.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import { emit, EVERYTHING } from '../../../../test/support/kept-telemetry.ts'
import { line } from '../../../../test/support/telemetry-feed.ts'
import { TYPES, type Envelope, type EventType } from '../../../agent/telemetry/contract.ts'
import { harOf } from './har.ts'

interface Har {
  log: { version: string; creator: object; pages: { id: string; title: string; startedDateTime: string; pageTimings: object }[]; entries: Entry[] }
}
interface Entry {
  pageref?: string
  startedDateTime: string
  time: number
  request: { method: string; url: string; headers: object[]; queryString: object[]; postData?: { mimeType: string; text: string } }
  response: { status: number; content: { size: number; mimeType: string; text?: string }; redirectURL: string; _error?: string }
  comment?: string
}

/** What is wrong with a HAR, by the rules of version 1.2: required fields and their types, entries in the order of their requests, pages that exist. */
function problems({ log }: Har): string[] {
  const found: string[] = []
  const check = (where: string, value: unknown, fields: Record<string, string>) => {
    for (const [name, type] of Object.entries(fields)) {
      const field = (value as Record<string, unknown> | undefined)?.[name]
      const is = Array.isArray(field) ? 'array' : field === null ? 'null' : typeof field
      if (!type.split('|').includes(is)) found.push(`${where}.${name} is ${is}, not ${type}`)
      if (type === 'number' && (!Number.isFinite(field) || (field as number) < -1)) found.push(`${where}.${name} is ${String(field)}`)
    }
  }
  const time = (where: string, value: string) => {
    if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(value) || Number.isNaN(Date.parse(value))) found.push(`${where} is no time: ${value}`)
  }
  check('log', log, { version: 'string', creator: 'object', entries: 'array', pages: 'array' })
  check('log.creator', log.creator, { name: 'string', version: 'string' })
  for (const [at, page] of log.pages.entries()) {
    check(`pages[${at}]`, page, { startedDateTime: 'string', id: 'string', title: 'string', pageTimings: 'object' })
    check(`pages[${at}].pageTimings`, page.pageTimings, { onContentLoad: 'number|null', onLoad: 'number|null' })
    time(`pages[${at}]`, page.startedDateTime)
  }
  const ids = new Set(log.pages.map(({ id }) => id))
  if (ids.size < log.pages.length) found.push('two pages have the same id')
  for (const [at, entry] of log.entries.entries()) {
    const where = `entries[${at}]`
    check(where, entry, { startedDateTime: 'string', time: 'number', request: 'object', response: 'object', cache: 'object', timings: 'object' })
    time(where, entry.startedDateTime)
    const both = { httpVersion: 'string', cookies: 'array', headers: 'array', headersSize: 'number', bodySize: 'number' }
    check(`${where}.request`, entry.request, { method: 'string', url: 'string', queryString: 'array', ...both })
    check(`${where}.response`, entry.response, { status: 'number', statusText: 'string', content: 'object', redirectURL: 'string', ...both })
    check(`${where}.response.content`, entry.response.content, { size: 'number', mimeType: 'string' })
    if (entry.request.postData) check(`${where}.request.postData`, entry.request.postData, { mimeType: 'string', text: 'string' })
    for (const pair of [...entry.request.headers, ...entry.request.queryString, ...(entry.response as unknown as { headers: object[] }).headers])
      check(`${where}.header`, pair, { name: 'string', value: 'string' })
    const { timings } = entry as unknown as { timings: Record<string, number> }
    check(`${where}.timings`, timings, { send: 'number', wait: 'number', receive: 'number' })
    const sum = ['blocked', 'dns', 'connect', 'send', 'wait', 'receive'].reduce((total, name) => total + Math.max(0, timings[name] ?? 0), 0)
    if (Math.abs(sum - entry.time) > 0.001) found.push(`${where}.time is ${entry.time}, its parts ${sum}`)
    if (entry.pageref !== undefined && !ids.has(entry.pageref)) found.push(`${where} is of a page that is not there`)
    if (at > 0 && entry.startedDateTime < log.entries[at - 1]!.startedDateTime) found.push(`${where} is before the one before it`)
  }
  return found
}

async function* each(events: readonly Envelope[]): AsyncGenerator<Envelope> {
  yield* events
}
async function textOf(events: readonly Envelope[]): Promise<string> {
  let text = ''
  for await (const piece of harOf(each(events))) text += piece
  return text
}
async function made(...events: [type: EventType, data: Record<string, unknown>, more?: Partial<Envelope['event']>][]): Promise<Har> {
  const start = Date.now() * 1000
  const envelopes = events.map(([type, data, more], at) => line(at + 1, { type, category: TYPES[type], ts: start + at * 1_000, data, ...more }))
  const har = JSON.parse(await textOf(envelopes)) as Har
  expect(problems(har)).toEqual([])
  return har
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
    const { log } = await made(
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
    const { log } = await made(
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
    const { log } = await made(
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
    const { log } = await made(
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
      const fields = [
        'request_id',
        'url',
        'method',
        'headers',
        'post_data',
        'status',
        'status_text',
        'mime_type',
        'body',
        'target_id',
        'resource_type',
        'error_text',
      ]
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
    const { log } = await made(...events, answer('0'), answer(String(count - 1)))
    expect(log.entries).toHaveLength(count)
    expect([log.entries[0]!.response.status, log.entries.at(-1)!.response.status]).toEqual([0, 200])
  })
})

describe('the download', () => {
  let cloud: FastCloud
  beforeAll(async () => void (cloud = await startFastCloud({ COB_WARM_BROWSERS: '0' })))
  afterAll(() => cloud[Symbol.asyncDispose]())

  test('has what was captured between two times, also after the end of the session; an empty archive is a HAR without entries', async () => {
    const { session_id: id } = await cloud.create({ telemetry: EVERYTHING, timeout_seconds: 600 })
    const get = async (query = '') => {
      const response = await cloud.fetch(`/browsers/${id}/har${query}`)
      expect([response.status, response.headers.get('content-type'), response.headers.get('content-disposition')]).toEqual([
        200,
        'application/json',
        `attachment; filename="${id}.har"`,
      ])
      const har = (await response.json()) as Har
      expect(problems(har)).toEqual([])
      return har.log.entries.map(({ request }) => request.url)
    }
    expect(await get()).toEqual([])
    await emit(cloud.paths, id, ask('1', 'http://a.test/', page), answer('1'), ['console_log', { text: 'x' }], ask('2', 'http://b.test/'))
    await cloud.fetch(`/browsers/${id}`, { method: 'DELETE' })
    expect(await get()).toEqual(['http://a.test/', 'http://b.test/'])
    expect(await get('?since=1h&until=30m')).toEqual([])
    expect(await get('?since=1h')).toEqual(['http://a.test/', 'http://b.test/'])
    for (const bad of ['?since=soon', '?until=soon', '?other=1']) expect((await cloud.fetch(`/browsers/${id}/har${bad}`)).status).toBe(400)
    expect((await cloud.fetch('/browsers/nonesuch/har')).status).toBe(404)
  })
})
