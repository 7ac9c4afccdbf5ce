// Events of the console, over a fake Chromium: limits, floods, and texts. With a real one: test/e2e/telemetry-network.test.ts.
import { expect, test, vi } from 'vitest'
import { collecting, type Collecting } from '../../../../test/support/collecting.ts'
import { makeSecrets } from '../../../base/redact/redact.ts'
import { consoleCollector } from './console.ts'

const collector = () => consoleCollector(makeSecrets())
const text = (value: string) => ({ type: 'string', value })

let clock = Date.now() + 1_000_000
const log = ({ emit }: Collecting, args: object[], { type = 'log', timestamp = ++clock } = {}) =>
  emit('Runtime.consoleAPICalled', { type, args, timestamp, executionContextId: 1 })

/** Runs with fake timers, which the test advances. */
async function timed(work: () => Promise<void>): Promise<void> {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    await work()
  } finally {
    vi.useRealTimers()
  }
}

test('of a flood 200 lines and 100 errors a second are told, the others are counted, and Chromium sends none for the rest of the second', async () => {
  const made = await collecting(collector())
  for (let count = 0; count < 450; count++) log(made, [text(`line ${count}`)])
  for (let count = 0; count < 50; count++) log(made, [text(`error ${count}`)], { type: 'error' })
  log(made, [text('one more')])
  expect([made.of('console_log').length, made.of('console_error').length]).toEqual([200, 50])
  await vi.waitFor(() => expect(made.commands()).toContain('Runtime.disable'))
  const last = clock
  // The lines that Chromium sends again after the domain is enabled: counted ones, and those that were written meanwhile.
  made.chromium.replies['Runtime.enable'] = () => {
    log(made, [text('counted')], { timestamp: last })
    for (let count = 0; count < 7; count++) log(made, [text('meanwhile')])
    return {}
  }
  await vi.waitFor(() => expect(made.commands().filter((method) => method === 'Runtime.enable')).toHaveLength(2), 5_000)
  await vi.waitFor(() => {
    log(made, [text('after')])
    expect(made.of('console_log').some((data) => data.text === 'after')).toBe(true)
  }, 5_000)
  await made.stop()
  const lost = made.of('monitor_events_lost')
  expect(lost.map(({ reason }) => reason)).toContain('console')
  const counted = lost.reduce((sum, { count }) => sum + (count as number), 0)
  // 250 lines of the flood and one more, 7 that were written meanwhile, and those of this test before the domain was enabled again.
  expect(counted).toBeGreaterThanOrEqual(251 + 7)
  expect(made.of('console_log').some((data) => data.text === 'counted' || data.text === 'meanwhile')).toBe(false)
})

test('long lines are a flood too', async () => {
  const made = await collecting(collector())
  const megabyte = 'x'.repeat(1024 * 1024)
  for (let count = 0; count < 5; count++) log(made, [text(megabyte)])
  log(made, [text('one more')])
  expect(made.of('console_log')).toHaveLength(4)
  await vi.waitFor(() => expect(made.commands()).toContain('Runtime.disable'))
  await made.stop()
  expect(made.of('monitor_events_lost')).toMatchObject([{ reason: 'console', count: 2 }])
})

test('a page that refuses to be left alone, or to be heard again, is heard when it answers', async () => {
  let refuses = true
  const made = await collecting(collector())
  await timed(async () => {
    const answer = () => {
      if (refuses) throw new Error('not now')
      return {}
    }
    Object.assign(made.chromium.replies, { 'Runtime.disable': answer, 'Runtime.enable': answer })
    for (let count = 0; count < 501; count++) log(made, [text('line')])
    await vi.advanceTimersByTimeAsync(3_000)
    expect(made.of('monitor_init_failed')).toEqual([{ step: 'Runtime.disable' }])
    refuses = false
    await vi.advanceTimersByTimeAsync(1_500)
  })
  await vi.waitFor(() => {
    log(made, [text('after')])
    expect(made.of('console_log').some((data) => data.text === 'after')).toBe(true)
  }, 5_000)
  await made.stop()
})

test('the objects that Chromium keeps for a reader are released within a second', () =>
  timed(async () => {
    const made = await collecting(collector())
    log(made, [text('nothing kept')])
    await vi.advanceTimersByTimeAsync(1_000)
    expect(made.commands()).not.toContain('Runtime.releaseObjectGroup')
    log(made, [{ type: 'object', objectId: '1', description: 'Object' }])
    log(made, [{ type: 'object', objectId: '2', description: 'Object' }])
    await vi.advanceTimersByTimeAsync(1_000)
    expect(made.commands().filter((method) => method === 'Runtime.releaseObjectGroup')).toHaveLength(1)
  }))

test('texts, arguments and stacks are bounded', async () => {
  const made = await collecting(collector())
  const frame = { functionName: 'f'.repeat(1000), scriptId: '1', url: `https://page.test/${'u'.repeat(5000)}`, lineNumber: 1, columnNumber: 2 }
  made.emit('Runtime.consoleAPICalled', {
    type: 'log',
    args: Array.from({ length: 1000 }, () => text('x'.repeat(10_000))),
    timestamp: ++clock,
    stackTrace: { callFrames: Array.from({ length: 200 }, () => frame), parent: { callFrames: [frame] } },
  })
  const [event] = made.received
  expect(event!.truncated).toBe(true)
  expect((event!.data.text as string).length).toBe(4096)
  expect((event!.data.stack_trace as { callFrames: object[] }).callFrames).toHaveLength(20)
  expect(event!.data.stack_trace).not.toHaveProperty('parent.callFrames')
  expect(JSON.stringify(event).length).toBeLessThan(64 * 1024)
})

test('secrets in arguments are left out, also when one names the next', async () => {
  const made = await collecting(collector())
  log(made, [text('token:'), text('cAnArY'), text('Authorization: Bearer cAnArY')])
  log(made, [
    {
      type: 'object',
      objectId: '1',
      preview: {
        type: 'object',
        description: 'Object',
        overflow: true,
        properties: [
          { name: 'password', type: 'string', value: 'cAnArY' },
          { name: 'a', type: 'number', value: '1' },
        ],
      },
    },
  ])
  expect(JSON.stringify(made.received)).not.toContain('cAnArY')
  expect(made.of('console_log')[1]!.text).toBe('{password: [redacted], a: 1, …}')
})

test('an end of the capture leaves Chromium as it was, and of a target that has gone nothing is asked', async () => {
  const made = await collecting(collector())
  await made.stop()
  expect(made.commands().slice(1)).toEqual(['Runtime.enable', 'Runtime.disable'])
  log(made, [text('too late')])
  expect(made.received).toEqual([])
  const other = await collecting(collector())
  other.vanish()
  await other.stop()
  expect(other.commands()).not.toContain('Runtime.disable')
})

test.each([[['password', 'hunter22']], [['token is %s', 'hunter22']], [['%s has %s, token %d', 'kim', 'all', 'hunter22']]])(
  'an argument that the one before announces is left out: %j',
  async (args) => {
    const made = await collecting(collector())
    log(made, args.map(text))
    const [line] = made.of('console_log')
    expect(line!.args).toEqual([...args.slice(0, -1), '[redacted]'])
  },
)

test('a learned value is not in a stack either', async () => {
  const secrets = makeSecrets()
  secrets.learn('hunter22')
  const made = await collecting(consoleCollector(secrets))
  const frame = { functionName: 'hunter22', scriptId: '1', url: 'https://page.test/', lineNumber: 1, columnNumber: 1 }
  const stackTrace = { description: 'hunter22', callFrames: [frame] }
  made.emit('Runtime.consoleAPICalled', { type: 'log', args: [text('a')], timestamp: ++clock, executionContextId: 1, stackTrace })
  expect(made.of('console_log')[0]!.stack_trace).toMatchObject({ description: '[redacted]', callFrames: [{ functionName: '[redacted]' }] })
})
