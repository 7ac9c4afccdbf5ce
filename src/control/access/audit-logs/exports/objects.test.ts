// Where one object of an export ends, and the parts of its key.
import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import type { AuditLogEntry, Position } from '../contract.ts'
import { MOST_ROWS, nextBatch } from './objects.ts'

const NOON = Date.parse('2026-03-04T12:00:00Z')
const { signal } = new AbortController()

/** The n-th entry of an hour: a millisecond after the previous one. */
const entry = (n: number, { hour = 0, path = '/' } = {}): AuditLogEntry => ({
  event_id: `e${String(n).padStart(23, '0')}`,
  timestamp: new Date(NOON + hour * 3600_000 + n).toISOString(),
  method: 'GET',
  path,
  route: '/',
  status: 200,
  duration_ms: 1,
  domain: '',
  client_ip: '',
  user_agent: '',
  auth_strategy: 'api_key',
  user_id: 'u',
  email: '',
  project_id: null,
})
const some = (count: number, options = {}) => Array.from({ length: count }, (_, n) => entry(n, options))
const reader = (all: AuditLogEntry[]) => async (after: Position | undefined, limit: number) =>
  all.filter(({ timestamp }) => after === undefined || Date.parse(timestamp) > after.at.getTime()).slice(0, limit)
const batch = (all: AuditLogEntry[], prefix = 'p') => nextBatch({ id: 'd', prefix }, reader(all), signal)
const linesOf = (body: Buffer) => gunzipSync(body).toString()

test.each([
  ['an hour', [...some(3), ...some(3, { hour: 1 })], 3],
  ['an hour, also just where what is read at a time ends', [...some(500), ...some(3, { hour: 1 })], 500],
  [`${MOST_ROWS} entries`, some(MOST_ROWS + 1), MOST_ROWS],
  ['8 MiB of lines', some(900, { path: `/${'x'.repeat(32 * 1024)}` }), 255],
])('an object ends with %s, and the next one follows', async (_, all, count) => {
  const { content, entries, isMore } = (await batch(all))!
  expect([entries.length, linesOf(content.body).split('\n').length - 1, isMore]).toEqual([count, count, true])
})

test('the same entries have the same key when they are written again, others another one', async () => {
  const [first, again, more] = [await batch(some(3)), await batch(some(3)), await batch(some(4))]
  expect([again!.content.key, again!.content.body]).toEqual([first!.content.key, first!.content.body])
  expect(more!.content.key).not.toBe(first!.content.key)
})
