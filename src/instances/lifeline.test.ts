// How much an agent may send on its lifeline. An agent that sends more is compromised, and is ended.
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { CAPABILITIES, lacking } from '../agent/capabilities.ts'
import type { Log } from '../base/log.ts'
import { within } from '../base/wait.ts'
import type { Exit } from './driver.ts'
import { watchAgent, type AgentVersion } from './lifeline.ts'

const ENDS_MS = 10_000

let stop = new AbortController()
let cleanUp = () => {}
afterEach(() => {
  stop.abort(new Error('the test is over'))
  stop = new AbortController()
  cleanUp()
})

/** An agent that sends `lines` on every connection. Resolves with the reason why the lifeline ended, and with the log. */
async function hear(lines: string, times: number): Promise<Exit & { logged: string[]; ready: Promise<AgentVersion> }> {
  const dir = mkdtempSync(join(tmpdir(), 'cob-lifeline-'))
  const piece = `${Buffer.byteLength(lines).toString(16)}\r\n${lines}\r\n`
  const server = createServer((socket: Socket) => {
    socket.on('error', () => {})
    let left = times
    const more = () => {
      while (!socket.destroyed && left-- > 0 && socket.write(piece));
      if (left > 0) socket.once('drain', more)
      else if (times < Infinity) socket.end('0\r\n\r\n')
    }
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
      more()
    })
  })
  server.listen(join(dir, 'agent.sock'))
  await once(server, 'listening')
  cleanUp = () => {
    server.close()
    rmSync(dir, { recursive: true, force: true })
  }
  const logged: string[] = []
  const note = (fields: object) => void logged.push(JSON.stringify(fields))
  const log: Log = { debug: note, info: note, warn: note, error: note, child: () => log }
  const { ended, ready } = watchAgent({ socketPath: join(dir, 'agent.sock') }, log, stop.signal)
  return { ...(await within('the lifeline to end', ENDS_MS, ended)), logged, ready }
}

const crash = (detail: string) => `${JSON.stringify({ event: 'chromium_crashed', detail })}\n`

test.each([
  ['crashes without end', crash('A'.repeat(100))],
  ['crashes with long stories', crash('A'.repeat(10_000))],
  ['heartbeats without end', '{"event":"heartbeat"}\n'],
  ['a line without end', 'x'.repeat(10_000)],
])('an agent that sends %s is disconnected, and the log does not grow with it', async (_name, lines) => {
  const { reason, logged } = await hear(lines, Infinity)
  expect(reason).toMatch(/said more than \d+ bytes/)
  expect(logged.join('').length).toBeLessThan(128 * 1024)
})

test.each(['{"event":"party"}\n', 'no json\n', '[1]\n', `{"event":"${'x'.repeat(2_000)}"}\n`])('an agent that sends %j is disconnected', async (line) => {
  const { reason } = await hear(line, Infinity)
  expect(reason).not.toBe('the agent ended')
})

test('an agent that has given its browser up says so, and an end without a word is a crash', async () => {
  expect(await hear('{"event":"chromium_given_up","detail":"Chromium ended 6 times within 60 s"}\n', 1)).toMatchObject({
    reason: 'Chromium ended 6 times within 60 s',
    cause: 'browser_failed',
  })
  cleanUp()
  expect((await hear('{"event":"heartbeat"}\n', 1)).cause).toBe(undefined)
})

test('repeated crashes of a browser are reported, with its last output in short', async () => {
  const { reason, logged } = await hear(crash('B'.repeat(2_000)), 3)
  expect(reason).toBe('the agent ended')
  expect(logged).toEqual(Array.from({ length: 3 }, () => JSON.stringify({ detail: 'B'.repeat(500) })))
})

test('an agent says its version and what it can do; what it does not name, it lacks', async () => {
  const [missing, ...rest] = CAPABILITIES
  const say = (about: object) => hear(`${JSON.stringify({ event: 'ready', ...about })}\n`, 1).then(({ ready }) => ready)
  expect(await say({ version: '0.0.9', capabilities: [...rest, 'somethingNewer'] })).toEqual({ version: '0.0.9', lacks: [missing] })
  expect(await say({ version: '9', capabilities: CAPABILITIES })).toEqual({ version: '9', lacks: [] })
  // The first versions sent no version.
  expect(await say({})).toEqual({ version: undefined, lacks: lacking() })
})

test.each([
  { version: 'v'.repeat(101) },
  { version: '1', capabilities: ['c'.repeat(101)] },
  { capabilities: Array.from({ length: 1001 }, () => 'c') },
  { version: 1 },
])('an agent that says too much about itself is disconnected', async (about) => {
  const { reason } = await hear(`${JSON.stringify({ event: 'ready', ...about })}\n`, 1)
  expect(reason).not.toBe('the agent ended')
})
