// The text lines of events whose data may have any form.
import { expect, test } from 'vitest'
import { printable } from '../../ui/text.ts'
import { lineOf, toneOf, type Event } from './event-text.ts'

const event = (type: string, category: string, data?: unknown): Event =>
  ({ seq: 1, event: { type, category, ts: 1, source: { kind: 'cdp' }, data } }) as unknown as Event

test('a line has what says most of its category', () => {
  expect(lineOf(event('network_response', 'network', { status: 404, method: 'GET', url: 'http://a.test/' }))).toBe('404 GET http://a.test/')
  expect(lineOf(event('page_load', 'page', { frame_id: 'F', url: 'http://a.test/' }))).toBe('http://a.test/')
  expect(lineOf(event('live_view_connect', 'connection', { connection_id: 'abc' }))).toBe('live view connect')
})

test('data of any form make a line of bounded length', () => {
  for (const data of [undefined, {}, { text: null }, { text: { deep: 1 } }, { url: 'x'.repeat(100_000) }, { text: '\n\n  a \u0000\u202e b' }])
    expect(lineOf(event('console_log', 'console', data)).length).toBeLessThanOrEqual(300)
  expect(lineOf(event('console_log', 'console', { text: 'a\nb\u202ec\u0007' }))).toBe('a b\ufffdc\ufffd')
})

test('failures have a tone', () => {
  expect(toneOf(event('console_error', 'console'))).toBe('bad')
  expect(toneOf(event('network_response', 'network', { status: 500 }))).toBe('bad')
  expect(toneOf(event('network_response', 'network', { status: 404 }))).toBe('warn')
  expect(toneOf(event('network_response', 'network', { status: '500' }))).toBeUndefined()
})

test('what cannot be seen is shown as a sign; line breaks and other scripts stay', () => {
  expect(printable('a\tb\nc\u001b[31m\u202efdp')).toBe('a\tb\nc\ufffd[31m\ufffdfdp')
  expect(printable('שלום مرحبا 你好')).toBe('שלום مرحبا 你好')
})
