// The fields of a log line, and the logged parts of an error.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { expect, test } from 'vitest'
import { described } from './log.ts'

test('a line is JSON from the least level on, and a program goes on when the reader of its log has left', async () => {
  const program = `
    import { makeLog } from ${JSON.stringify(new URL('log.ts', import.meta.url).href)}
    const log = makeLog('trial', 'info').child({ part: 'a "b"' })
    log.debug({}, 'nothing')
    log.warn({ err: new Error('it broke'), count: 2n }, 'said')
    process.stdin.once('end', () => {
      for (let line = 0; line < 100; line++) log.info({}, 'nobody reads this')
      setImmediate(() => setImmediate(() => process.exit(7)))
    }).resume()`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: ['pipe', 'pipe', 'inherit'] })
  const exited = once(child, 'exit')
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
  expect(JSON.parse(line)).toEqual({
    level: 40,
    time: expect.any(Number),
    name: 'trial',
    part: 'a "b"',
    err: expect.objectContaining({ type: 'Error', message: 'it broke' }),
    count: '2',
    msg: 'said',
  })
  child.stdout.destroy()
  child.stdin.end()
  expect(await exited).toEqual([7, null])
})

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
  const token = 'c0ffee42'.repeat(8)
  const ofOAuth = new Error(`no grant has cob_at_${token}, cob_rt_${token} or cob_oc_${token}`)
  expect(described(ofOAuth)).toMatchObject({ message: 'no grant has [redacted], [redacted] or [redacted]' })
  expect(described(error)).toMatchObject({ message: 'cannot reach postgres://[redacted]@db/cob?password=[redacted] with Bearer [redacted]' })
})
