// Hostile programs and callers: a program's processes all end with it, memory stays bounded, and other callers do not wait.
import Kernel from '@onkernel/sdk'
import { readFileSync } from 'node:fs'
import { get, type IncomingMessage } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { forTests } from '../support/for-tests.ts'
import { agentOf } from '../support/inside.ts'
import { alive as aliveIn, base64, read, run as runIn, type Ran } from '../support/programs.ts'
import { shareCloud } from '../support/shared-cloud.ts'

/** The memory growth of an agent or the service, for any output and input. */
const GROWTH_BYTES = 256 * 1024 * 1024
/** The limit for programs to start or end on a busy machine, and for one to print a gigabyte. */
const GONE_MS = 20_000
const PRINTED_MS = 60_000

let id: string
let agent: number
const cloud = forTests(() => shareCloud({ COB_WARM_BROWSERS: '0' }))
beforeAll(async () => {
  id = (await cloud.client.browsers.create({ timeout_seconds: 600 })).session_id
  agent = agentOf(cloud, id)
})
afterAll(async () => {
  await cloud.client.browsers.deleteByID(id)
})

const processes = () => cloud.client.browsers.process
const run = (line: string, more: object = {}): Promise<Ran> => runIn(cloud.client, id, line, more)
const alive = (pattern: string): Promise<string[]> => aliveIn(cloud.client, id, pattern)
const spawn = async (line: string, more: object = {}): Promise<string> =>
  (await processes().spawn(id, { command: 'bash', args: ['-c', line], ...more })).process_id!
const open = (path: string): Promise<IncomingMessage> =>
  new Promise((resolve, reject) =>
    get(`${cloud.url}/browsers/${id}${path}`, { headers: { authorization: `Bearer ${cloud.key}` } }, resolve).on('error', reject),
  )
const rss = (pid: number): number => Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) * 1024

/** The largest growth of agent and service while `work` ran. */
async function growth(work: () => Promise<void>): Promise<number> {
  const pids = [agent, cloud.pid()]
  const before = pids.map(rss)
  let most = 0
  const timer = setInterval(() => (most = Math.max(most, ...pids.map((pid, index) => rss(pid) - before[index]!))), 20)
  try {
    await work()
  } finally {
    clearInterval(timer)
  }
  return most
}

/** Starts four processes that ignore SIGTERM, each harder to find: a child, a daemon in a new session, one without an environment, and one in another user namespace. */
const stubborn = (seconds: number): string => `trap '' TERM
  sleep ${seconds}.1 & (setsid -f bash -c "trap '' TERM; sleep ${seconds}.2; :" &)
  env -i /usr/bin/setsid -f /bin/bash -c "trap '' TERM; /bin/sleep ${seconds}.3; :"
  unshare --user --map-root-user setsid -f bash -c "trap '' TERM; sleep ${seconds}.4; :"; echo up; while :; do sleep 1; done`

describe('all processes of a program end', () => {
  test('with SIGTERM and then SIGKILL, also those that ignore signals and hide', async () => {
    const one = await spawn(stubborn(7001))
    await read(cloud.client, id, one, ({ out }) => out.includes('up'))
    await until('all four', GONE_MS, async () => (await alive('sleep 7001[.].$')).length === 4)
    await processes().kill(one, { id, signal: 'TERM' })
    expect(await alive('sleep 7001[.].$')).toHaveLength(4)
    expect((await processes().status(one, { id })).state).toBe('running')
    await processes().kill(one, { id, signal: 'KILL' })
    expect((await read(cloud.client, id, one)).exitCode).toBe(137)
    expect(await alive('sleep 7001')).toEqual([])
  })

  test('at a timeout, and the SDK does not run the program again', async () => {
    const patient = new Kernel({ apiKey: cloud.key, baseURL: cloud.url, maxRetries: 2 })
    const line = `echo run >> /tmp/runs; ${stubborn(7002)}`
    // Within 3 s the program has printed its line.
    await expect(patient.browsers.process.exec(id, { command: 'bash', args: ['-c', line], timeout_sec: 3 })).rejects.toMatchObject({
      status: 504,
      error: { code: 'deadline_exceeded', message: expect.stringContaining('3 bytes to stdout'), details: [{ code: 'stdout', message: 'up\n' }] },
    })
    expect((await run('cat /tmp/runs')).out).toBe('run\n')
    expect(await alive('sleep 7002')).toEqual([])
    const one = await spawn(stubborn(7003), { timeout_sec: 1 })
    expect((await read(cloud.client, id, one)).exitCode).toBe(137)
    expect(await alive('sleep 7003')).toEqual([])
  })

  test('when the caller of exec leaves', async () => {
    const leaving = new AbortController()
    const running = processes().exec(id, { command: 'bash', args: ['-c', stubborn(7004)] }, { signal: leaving.signal })
    running.catch(() => {})
    await until('all four', GONE_MS, async () => (await alive('sleep 7004[.].$')).length === 4)
    leaving.abort()
    await expect(running).rejects.toThrow()
    await until('their end', GONE_MS, async () => (await alive('sleep 7004')).length === 0)
  })

  test('even if they fork faster than they can be found', async () => {
    const one = await spawn('f() { while :; do (sleep 0.01 &); done; }; f & f & f & echo up; wait')
    await read(cloud.client, id, one, ({ out }) => out.includes('up'))
    await processes().kill(one, { id, signal: 'KILL' })
    expect((await read(cloud.client, id, one)).exitCode).toBe(137)
    expect([...(await alive('sleep 0.01')), ...(await alive('while'))]).toEqual([])
  })
})

describe('the memory of outputs is limited', () => {
  test('for 1 GB printed to an exec, to a reader, and to nobody', async () => {
    const grown = await growth(async () => {
      const reply = await processes().exec(id, { command: 'head', args: ['-c', '1000000000', '/dev/zero'] })
      expect(reply).toMatchObject({ exit_code: 0, stdout_missed_bytes: 1_000_000_000 - 8 * 1024 * 1024 })

      const { process_id: read1 } = await processes().spawn(id, { command: 'head', args: ['-c', '1000000000', '/dev/zero'] })
      const raw = await open(`/process/${read1}/stdout/stream`)
      let [bytes, tail] = [0, '']
      for await (const chunk of raw as AsyncIterable<Buffer>) {
        bytes += chunk.length
        tail = (tail + chunk.toString('latin1')).slice(-200)
      }
      expect(bytes).toBeGreaterThan(4 * 1024 * 1024)
      expect(tail).toContain('data: {"event":"exit","exit_code":0}')

      const { process_id: unread } = await processes().spawn(id, { command: 'head', args: ['-c', '1000000000', '/dev/zero'] })
      await until('the end', PRINTED_MS, async () => (await processes().status(unread!, { id })).state === 'exited', { everyMs: 100 })
      const late = await read(cloud.client, id, unread!)
      expect(late.missed + late.out.length).toBe(1_000_000_000)
      expect(late.out.length).toBeGreaterThan(3 * 1024 * 1024)
    })
    expect(grown).toBeLessThan(GROWTH_BYTES)
  })

  test('if a client stops reading: neither the program nor others wait, and the client learns what it missed', async () => {
    const one = await spawn('head -c 300000000 /dev/zero; echo done >&2')
    let stalled: IncomingMessage
    const grown = await growth(async () => {
      stalled = await open(`/process/${one}/stdout/stream`)
      stalled.pause()
      await until('the end', PRINTED_MS, async () => (await processes().status(one, { id })).state === 'exited', { everyMs: 100 })
      expect((await run('echo fine')).out).toBe('fine\n')
    })
    expect(grown).toBeLessThan(GROWTH_BYTES)
    let sent = ''
    for await (const chunk of stalled! as AsyncIterable<Buffer>) sent += chunk.toString('latin1')
    const events = sent
      .split('\n\n')
      .filter((frame) => frame.startsWith('data: '))
      .map((frame) => JSON.parse(frame.slice(6)) as { data_b64?: string; missed_bytes?: number; stream?: string })
    const stdout = events.filter(({ stream }) => stream === 'stdout')
    expect(stdout.reduce((sum, { data_b64 = '', missed_bytes = 0 }) => sum + Buffer.byteLength(data_b64, 'base64') + missed_bytes, 0)).toBe(300_000_000)
    expect(stdout.some(({ missed_bytes = 0 }) => missed_bytes > 0)).toBe(true)
    expect(events.at(-1)).toEqual({ event: 'exit', exit_code: 0 })
  })

  test('if readers leave in the middle: they are released, and the program continues', async () => {
    const one = await spawn('while :; do echo line; sleep 0.01; done')
    for (let i = 0; i < 20; i++) {
      const stream = await open(`/process/${one}/stdout/stream`)
      await new Promise((resolve) => stream.once('data', resolve))
      stream.destroy()
    }
    expect((await processes().status(one, { id })).state).toBe('running')
    await processes().kill(one, { id, signal: 'KILL' })
  })

  test.each([false, true])('for input of a program that does not read, which is refused after some megabytes (terminal: %s)', async (allocate_tty) => {
    const one = await spawn(allocate_tty ? 'stty raw -echo; echo up; exec sleep 600' : 'echo up; exec sleep 600', { allocate_tty })
    await read(cloud.client, id, one, ({ out }) => out.includes('up'))
    const megabyte = base64('x'.repeat(1024 * 1024))
    const grown = await growth(async () => {
      let taken = 0
      const flood = async () => {
        for (;;) taken += (await processes().stdin(one, { id, data_b64: megabyte })).written_bytes!
      }
      await expect(Promise.any([flood(), flood(), flood()])).rejects.toMatchObject({
        errors: Array.from({ length: 3 }, () => expect.objectContaining({ status: 409 })),
      })
      expect(taken).toBeLessThan(8 * 1024 * 1024)
      expect((await run('echo fine')).out).toBe('fine\n')
    })
    expect(grown).toBeLessThan(GROWTH_BYTES)
    await processes().kill(one, { id, signal: 'KILL' })
    expect((await read(cloud.client, id, one)).exitCode).toBe(137)
  })
})

describe('many programs at once', () => {
  test('are possible: fifty execs each return their own output', async () => {
    const answers = await Promise.all(Array.from({ length: 50 }, (_, i) => run(`sleep 0.$((RANDOM % 5)); echo ${i}; echo ${i} >&2; exit ${i}`)))
    expect(answers).toEqual(Array.from({ length: 50 }, (_, i) => ({ code: i, out: `${i}\n`, err: `${i}\n` })))
  })

  test('are limited: more than 128 are refused with a message, and there is room again when they have ended', async () => {
    const started = await Promise.allSettled(Array.from({ length: 140 }, () => spawn('exec sleep 8001')))
    const failed = started.filter((result) => result.status === 'rejected')
    expect(failed).toHaveLength(12)
    for (const { reason } of failed)
      expect(reason).toMatchObject({ status: 429, error: { code: 'too_many_requests', message: expect.stringContaining('128 programs') } })
    for (const result of started) if (result.status === 'fulfilled') await processes().kill(result.value, { id, signal: 'KILL' })
    await until('their end', GONE_MS, async () => (await run('echo fine').catch(() => undefined))?.out === 'fine\n')
    expect(await alive('sleep 8001')).toEqual([])
  })
})
