// Which parts of an error are logged.
import { expect, test } from 'vitest'
import { described } from './log.ts'

test('an error is logged with its message and causes, without the properties that a library attached to it', () => {
  const root = Object.assign(new Error('x'.repeat(10_000)), { code: 'HPE_HEADER_OVERFLOW', rawPacket: Buffer.alloc(16_384), query: 'secret' })
  const logged = JSON.stringify(described(new TypeError('outer', { cause: root })))
  expect(logged).toContain('outer')
  expect(logged).toContain('HPE_HEADER_OVERFLOW')
  expect(logged).not.toMatch(/rawPacket|secret/)
  expect(logged.length).toBeLessThan(12_000)
})

test('a chain of causes is logged up to a limit, and any thrown value can be logged', () => {
  const loop = new Error('loop')
  loop.cause = loop
  expect(JSON.stringify(described(loop)).match(/"loop"/g)).toHaveLength(5)
  expect(described(new AggregateError([new Error('a'), 'b'], 'all'))).toMatchObject({ message: 'all', causes: [{ message: 'a' }, { message: 'b' }] })
  expect(described('just text')).toEqual({ message: 'just text' })
})

test('an error is logged without the passwords and tokens in its text', () => {
  const error = new Error('cannot reach postgres://cob:hunter22@db/cob?password=hunter22 with Bearer hunter22hunter22')
  expect(JSON.stringify(described(error))).not.toContain('hunter22')
  expect(described(error)).toMatchObject({ message: 'cannot reach postgres://[redacted]@db/cob?password=[redacted] with Bearer [redacted]' })
})
