// Programs on this machine, run as in an instance: their output, their exit, and their child processes.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { silentLog } from '../../base/log.ts'
import { startTicks } from '../../base/processes.ts'
import { until } from '../../base/wait.ts'
import type { OutputEvent } from './contract.ts'
import { MAX_ENDED, Processes } from './processes.ts'

const never = new AbortController().signal
let dir: string
let processes: Processes
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'cob-process-'))
  processes = new Processes({ env: { PATH: '/usr/bin:/bin', GIVEN: 'yes' }, cwd: dir }, join(dir, 'pipes'), silentLog)
})
afterAll(() => rmSync(dir, { recursive: true, force: true }))

const exec = (line: string, more: object = {}, signal = never) =>
  processes.exec({ command: 'bash', args: ['-c', line], env: {}, as_root: false, ...more }, signal)
const spawn = (line: string, more: object = {}) =>
  processes.spawn({ command: 'bash', args: ['-c', line], env: {}, as_root: false, allocate_tty: false, ...more }, never)
const text = (base64 = ''): string => Buffer.from(base64, 'base64').toString()
const pidIn = (name: string): number => Number(readFileSync(join(dir, name), 'utf8'))
const isAlive = (pid: number): boolean => startTicks(pid) !== undefined

async function all(id: string): Promise<{ out: string; end: OutputEvent }> {
  let out = ''
  for await (const event of processes.output(id, never)) {
    if (event.event) return { out, end: event }
    out += text(event.data_b64)
  }
  throw new Error('a stream ended without an exit')
}

describe('exec', () => {
  test('gives empty input, and output that can be opened by its name', async () => {
    expect(text((await exec('cat; echo a > /dev/stdout; echo b > /dev/stderr; echo c | tee /dev/stderr')).stderr_b64)).toBe('b\nc\n')
  })

  test('does not wait for background processes, which continue and may print', async () => {
    const { stdout_b64 } = await exec(`(until [ -e ${dir}/answered ]; do sleep 0.1; done; echo late; echo fine > ${dir}/left) & echo now`)
    expect(text(stdout_b64)).toBe('now\n')
    writeFileSync(join(dir, 'answered'), '')
    await until('the rest', 8_000, () => attempt(() => readFileSync(join(dir, 'left'), 'utf8') === 'fine\n'))
  })

  test('returns everything printed before the exit, also when the agent is busy', async () => {
    const busy = setInterval(() => block(15), 16)
    try {
      const replies = await Promise.all(Array.from({ length: 10 }, () => exec('(sleep 5 &) ; head -c 200000 /dev/zero')))
      for (const { stdout_b64 } of replies) expect(Buffer.byteLength(stdout_b64, 'base64')).toBe(200_000)
    } finally {
      clearInterval(busy)
    }
  })

  test('ends a stopped program too', async () => {
    await expect(exec(`echo $$ > ${dir}/stopped; kill -STOP $$`, { timeout_sec: 3 })).rejects.toMatchObject({ code: 'deadline_exceeded' })
    expect(isAlive(pidIn('stopped'))).toBe(false)
  })

  test('creates the folder of its pipes again if it was deleted', async () => {
    rmSync(join(dir, 'pipes'), { recursive: true })
    expect((await exec('exit 3')).exit_code).toBe(3)
  })
})

describe('spawn', () => {
  test.each([
    ['SIGINT', 'int'],
    ['SIGHUP', 'hup'],
    ['SIGTERM', 'term'],
  ] as const)('sends %s to the program and its children, which may handle it', async (signal, word) => {
    const { process_id: id } = await spawn(`trap 'echo ${word}; exit 5' ${signal}; echo up; while :; do sleep 0.05; done`)
    for await (const event of processes.output(id, never)) if (text(event.data_b64).includes('up')) break
    await processes.kill(id, signal)
    // Bash sometimes prints a line about a child process that a signal ended.
    expect((await all(id)).out.replace(/^(Terminated|Hangup)\n/m, '')).toBe(`up\n${word}\n`)
    expect(processes.status(id).exit_code).toBe(5)
  })

  test('kills what a program left behind, also after its end', async () => {
    const { process_id: id } = await spawn(`setsid sleep 60 >/dev/null 2>&1 & echo $! > ${dir}/behind`)
    await all(id)
    expect(isAlive(pidIn('behind'))).toBe(true)
    await processes.kill(id, 'SIGKILL')
    await until('its end', 3_000, () => !isAlive(pidIn('behind')))
  })

  test('does not block others if the program in a terminal does not read', async () => {
    const { process_id: id } = await spawn('stty raw -echo; echo raw; sleep 60', { allocate_tty: true })
    for await (const event of processes.output(id, never)) if (text(event.data_b64).includes('raw')) break
    await processes.write(id, Buffer.alloc(1_000_000), never)
    expect((await exec('echo fine')).exit_code).toBe(0)
    expect(processes.status(id).state).toBe('running')
    await processes.kill(id, 'SIGKILL')
    expect((await all(id)).end.exit_code).toBe(137)
  })
})

describe('limits of programs', () => {
  test(`keep the last ${MAX_ENDED} ended programs available, and forget earlier ones`, async () => {
    const ids: string[] = []
    for (let i = 0; i <= MAX_ENDED; i += 32) {
      const some = await Promise.all(Array.from({ length: 32 }, () => spawn('exit 1')))
      for (const { process_id: id } of some) await all(id)
      ids.push(...some.map(({ process_id: id }) => id))
    }
    await until('the first to be forgotten', 3_000, () => attempt(() => (processes.status(ids[0]!), false), true))
    expect(() => processes.status(ids[0]!)).toThrow('there is no process')
    expect(processes.status(ids.at(-1)!).exit_code).toBe(1)
  }, 60_000)
})

function block(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
}

function attempt(look: () => boolean, otherwise = false): boolean {
  try {
    return look()
  } catch {
    return otherwise
  }
}
