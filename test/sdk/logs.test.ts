// The published SDK with a running service: the logs of a session, read and followed.
import type { LogStreamParams } from '@onkernel/sdk/resources/browsers/logs'
import { get, type IncomingMessage } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WaitTimeout, within } from '../../src/base/wait.ts'
import { conforms } from '../support/contract.ts'
import { forTests } from '../support/for-tests.ts'
import { areContainers, chromiumOf } from '../support/inside.ts'
import { run as runIn } from '../support/programs.ts'
import { shareCloud } from '../support/shared-cloud.ts'

let id: string
/** A session that does nothing, and the stream of its log. The stream is open during all tests, because a heartbeat takes a while. */
let other: string
let quiet: Response
const cloud = forTests(() => shareCloud({ COB_WARM_BROWSERS: '0' }))
beforeAll(async () => {
  id = (await cloud.client.browsers.create({ timeout_seconds: 600 })).session_id
  other = (await cloud.client.browsers.create({ timeout_seconds: 600 })).session_id
  quiet = await cloud.fetch(`/browsers/${other}/logs/stream?source=supervisor&supervisor_process=agent`)
})
afterAll(async () => {
  await cloud.client.browsers.deleteByID(id)
})

const run = (line: string) => runIn(cloud.client, id, line)

async function whole(query: LogStreamParams): Promise<string[]> {
  const lines: string[] = []
  for await (const event of await cloud.client.browsers.logs.stream(id, query)) {
    conforms('LogEvent', event)
    lines.push(event.message)
  }
  return lines
}

/** Follows a log. `next` resolves with one line at a time. */
async function follow(query: LogStreamParams) {
  const stream = await cloud.client.browsers.logs.stream(id, query)
  const events = stream[Symbol.asyncIterator]()
  return {
    async next(): Promise<string> {
      const { value } = await within('a line', 10_000, events.next())
      conforms('LogEvent', value)
      return (value as { message: string }).message
    },
    [Symbol.dispose]: () => stream.controller.abort(),
  }
}

describe('the log of a file', () => {
  test('without follow contains the existing lines, and ends', async () => {
    await run(`printf 'one\\n\\nzw\\xc3\\xb6lf\\r\\n\\xff\\nlast' > /tmp/a.log`)
    expect(await whole({ source: 'path', path: '/tmp/a.log', follow: false })).toEqual(['one', '', 'zwölf', '\ufffd', 'last'])
  })

  test('follows by default: from the end of the file on, across rotation and truncation', async () => {
    await run('echo old > /tmp/b.log')
    using log = await follow({ source: 'path', path: '/tmp/b.log' })
    await run('echo new >> /tmp/b.log')
    expect(await log.next()).toBe('new')
    await run('mv /tmp/b.log /tmp/b.log.1; echo late >> /tmp/b.log.1; echo rotated > /tmp/b.log')
    expect([await log.next(), await log.next()]).toEqual(['late', 'rotated'])
    await run('echo a line that is longer than the next one >> /tmp/b.log')
    await log.next()
    await run('cp /tmp/b.log /tmp/b.log.2; : > /tmp/b.log; echo truncated >> /tmp/b.log')
    expect(await log.next()).toBe('truncated')
  })

  test('contains many lines of a burst in order, and a line of 1 MB is cut', async () => {
    await run(': > /tmp/c.log')
    using log = await follow({ source: 'path', path: '/tmp/c.log' })
    await run('seq 1 2000 >> /tmp/c.log; head -c 1000000 /dev/zero | tr "\\0" x >> /tmp/c.log; echo >> /tmp/c.log; echo end >> /tmp/c.log')
    for (let i = 1; i <= 2_000; i++) if ((await log.next()) !== String(i)) throw new Error(`line ${i} is another`)
    const line = await log.next()
    expect(line.slice(0, 65_536)).toBe('x'.repeat(65_536))
    expect(line.slice(65_536)).toBe(`… [${1_000_000 - 65_536} bytes of this line were cut]`)
    expect(await log.next()).toBe('end')
  })

  test('that cannot be read is refused, immediately, with or without follow', async () => {
    await run('mkfifo /tmp/fifo; mkdir -p /tmp/folder; touch /tmp/secret; chmod 000 /tmp/secret; ln -s /proc/1/root/etc/shadow /tmp/link')
    // Sessions of the local driver have no /etc/shadow. A container image has one, which the user may not read, and has no /root/.bashrc that the user could read.
    const shadow = areContainers ? ([400, 'bad_request'] as const) : ([404, 'not_found'] as const)
    for (const [path, status, code] of [
      ['/tmp/nothing', 404, 'not_found'],
      ['/tmp/fifo', 400, 'bad_request'],
      ['/tmp/folder', 400, 'bad_request'],
      ['/tmp/secret', 400, 'bad_request'],
      ['/tmp/link', ...shadow],
      ['/dev/zero', 400, 'bad_request'],
      ['/dev/tty', 400, 'bad_request'],
      ['/root/.bashrc', 404, 'not_found'],
    ] as const)
      for (const followed of [true, false])
        await expect(within('the end', 5_000, whole({ source: 'path', path, follow: followed }))).rejects.toMatchObject({ status, error: { code } })
  })

  test('of a gigabyte can be read by a slow reader, which blocks nobody', async () => {
    await run('yes 0123456789012345678901234567890123456789 | head -c 1000000000 > ~/big.log')
    const stalled = await new Promise<IncomingMessage>((resolve, reject) =>
      get(
        `${cloud.url}/browsers/${id}/logs/stream?source=path&path=/home/kernel/big.log&follow=false`,
        { headers: { authorization: `Bearer ${cloud.key}` } },
        resolve,
      ).on('error', reject),
    )
    stalled.pause()
    expect((await run('echo fine')).out).toBe('fine\n')
    stalled.destroy()
    await run('rm ~/big.log')
  })
})

describe('the log of a program of the session', () => {
  const supervised = (supervisor_process: string, isFollowed = false) => ({ source: 'supervisor', supervisor_process, follow: isFollowed }) as const

  test('contains the output of Chromium, the display and the agent', async () => {
    expect((await whole(supervised('chromium'))).join('\n')).toContain('DevTools listening on')
    await whole(supervised('display'))
    await whole(supervised('agent'))
  })

  test('shows a crash to followers of the agent, and the next Chromium to followers of Chromium', async () => {
    using agent = await follow(supervised('agent', true))
    using chromium = await follow(supervised('chromium', true))
    process.kill(chromiumOf(cloud, id), 'SIGKILL')
    expect(await agent.next()).toContain('Chromium ended by itself')
    let said = ''
    while (!said.includes('DevTools listening')) said = await chromium.next()
    expect(await agent.next()).toContain('Chromium is back')
    expect(await whole(supervised('agent'))).toEqual([expect.stringContaining('Chromium ended by itself'), expect.stringContaining('Chromium is back')])
  })
})

test.each([
  ['source', {}],
  ['source', { source: 'nonsense' }],
  ['path', { source: 'path' }],
  ['path', { source: 'path', path: 'relative' }],
  ['path', { source: 'path', path: '/a\0b' }],
  ['path', { source: 'supervisor', supervisor_process: 'chromium', path: '/x' }],
  ['supervisor_process', { source: 'supervisor' }],
  ['supervisor_process', { source: 'supervisor', supervisor_process: 'sshd' }],
  ['supervisor_process', { source: 'path', path: '/x', supervisor_process: 'agent' }],
  ['follow', { source: 'path', path: '/x', follow: 'perhaps' }],
])('an invalid %s is refused, and the error names it: %o', async (field, query) => {
  await expect(cloud.client.browsers.logs.stream(id, query as never)).rejects.toMatchObject({
    status: 400,
    error: { code: 'bad_request', message: expect.stringMatching(new RegExp(`^${field}: `)) },
  })
})

test('a quiet log stream gets heartbeats, and ends with its session', async () => {
  expect(quiet.headers.get('content-type')).toBe('text/event-stream')
  const reader = (quiet.body as ReadableStream<Uint8Array>).getReader()
  let text = ''
  while (!text.includes(': still here')) text += Buffer.from((await within('a heartbeat', 20_000, reader.read())).value!).toString()
  expect(text).toMatch(/^: open\n\n(: still here\n\n)+$/)
  await cloud.client.browsers.deleteByID(other)
  // The stream closes or breaks, because the agent is killed with the session. Heartbeats may come before.
  const rest = async () => {
    while (!(await reader.read()).done);
  }
  const error = await within('the end', 10_000, rest()).catch((cause: unknown) => cause)
  expect(error).not.toBeInstanceOf(WaitTimeout)
})
