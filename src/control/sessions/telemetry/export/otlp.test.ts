// Events of any form become records: their content comes from pages, and no event may block the ones after it.
import { expect, test } from 'vitest'
import { TYPES, type Envelope, type EventType } from '../../../../agent/telemetry/contract.ts'
import { makeEncoder } from './otlp.ts'

const one = (type: EventType, data: Record<string, unknown>, seq = 1): Envelope => ({
  seq,
  event: { type, category: TYPES[type], ts: 1_000_000, source: { kind: 'cdp' }, data },
})
const encode = (type: EventType, data: Record<string, unknown>) => makeEncoder({ session: 'a' })(one(type, data))

/** An object that cannot be converted to text. */
const WITHOUT_TEXT = { toString: 1, valueOf: 1 }
/** A value that can be parsed, but not serialized. */
const DEEP = JSON.parse('['.repeat(100_000) + ']'.repeat(100_000)) as unknown

test.each<[EventType, Record<string, unknown>]>([
  ['page_navigation', { frame_id: WITHOUT_TEXT, loader_id: [WITHOUT_TEXT] }],
  ['page_load', { frame_id: WITHOUT_TEXT, loader_id: null }],
  ['api_call', { operation_id: WITHOUT_TEXT, duration_ms: 1, status: 200 }],
  ['cdp_disconnect', { duration_ms: WITHOUT_TEXT }],
  ['network_response', { method: WITHOUT_TEXT, url: WITHOUT_TEXT, status: WITHOUT_TEXT }],
])('%s with %j is a record, and no span', (type, data) => {
  const { record, span } = encode(type, data)
  expect([record.eventName, record.body.stringValue.startsWith(type), span]).toEqual([`cob.${type}`, true, undefined])
})

test('what is nested too deeply says so in its place', () => {
  const { attributes } = encode('console_log', { text: 'x', args: DEEP, inner: { list: DEEP } }).record
  const values = Object.fromEntries(attributes.map(({ key, value }) => [key, value]))
  expect(values).toMatchObject({
    'cob.event.data.text': { stringValue: 'x' },
    'cob.event.data.args': { stringValue: '(nested too deeply)' },
    'cob.event.data.inner.list': { stringValue: '(nested too deeply)' },
  })
})

test('the load of a page is a span from its navigation, whatever the navigations of others are named', () => {
  const encoder = makeEncoder({ session: 'a' })
  encoder(one('page_navigation', { frame_id: 'f', loader_id: 'l' }, 1))
  encoder(one('page_navigation', { frame_id: WITHOUT_TEXT, loader_id: WITHOUT_TEXT }, 2))
  expect(encoder(one('page_load', { frame_id: 'f', loader_id: 'l' }, 3)).span).toMatchObject({ name: 'page load' })
})

test('the load of a page has the same span and the same ids each time that it is sent, and a second load of the same document has none', () => {
  const encoder = makeEncoder({ session: 'a' })
  encoder(one('page_navigation', { frame_id: 'f', loader_id: 'l' }, 1))
  const load = one('page_load', { frame_id: 'f', loader_id: 'l' }, 2)
  const first = encoder(load)
  expect(first.span).toMatchObject({ name: 'page load', spanId: first.record.spanId })
  expect(encoder(load)).toEqual(first)
  expect(encoder(one('page_load', { frame_id: 'f', loader_id: 'l' }, 3))).toMatchObject({ span: undefined })
})
