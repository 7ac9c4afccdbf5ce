// Programs on this machine, run as in an instance: their output, their exit, and their child processes.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { silentLog } from '../../base/log.ts'
import { startTicks } from '../../base/processes.ts'
import { sleep, until } from '../../base/wait.ts'
import type { OutputEvent } from './contract.ts'
import { MAX_ENDED, MAX_RUNNING, Processes } from './processes.ts'

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
  test('answers with both streams, the exit code, and the duration', async () => {
    const { duration_ms, ...reply } = await exec('echo out; echo err >&2; sleep 0.1; exit 7')
    expect(reply).toEqual({ exit_code: 7, stdout_b64: btoa('out\n'), stderr_b64: btoa('err\n') })
    expect(duration_ms).toBeGreaterThanOrEqual(100)
  })

  test('reports a signal with the exit code that shells use', async () => {
    expect((await exec('kill -9 $$')).exit_code).toBe(137)
    expect((await exec('kill -TERM $$')).exit_code).toBe(143)
  })

  test('gives empty input, and output that can be opened by its name', async () => {
    expect(text((await exec('cat; echo a > /dev/stdout; echo b > /dev/stderr; echo c | tee /dev/stderr')).stderr_b64)).toBe('b\nc\n')
  })

  test("passes cwd, env and arguments unchanged, and none of the agent's own variables", async () => {
    const { stdout_b64 } = await processes.exec(
      {
        command: 'sh',
        args: ['-c', 'pwd; env | sort; printf "%s|" "$@"', 'sh', 'a b', '', '*', '$HOME', '\n'],
        cwd: '/usr',
        env: { MINE: 'ü=1' },
        as_root: false,
      },
      never,
    )
    expect(text(stdout_b64)).toBe('/usr\nGIVEN=yes\nMINE=ü=1\nPATH=/usr/bin:/bin\nPWD=/usr\na b||*|$HOME|\n|')
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

  test('ends everything after its timeout, also daemons that hide and ignore SIGTERM, with an error that clients do not retry', async () => {
    const hide = `trap '' TERM; echo $BASHPID > ${dir}/`
    const line = `echo begun; (${hide}child; exec sleep 60) & (setsid bash -c '${hide.replaceAll("'", '"')}session; sleep 60' &)
      env -i /usr/bin/setsid -f /bin/bash -c '${hide.replaceAll("'", '"')}hidden; while :; do /bin/sleep 1; done'; trap '' TERM; sleep 60`
    await expect(exec(line, { timeout_sec: 3 })).rejects.toMatchObject({
      code: 'deadline_exceeded',
      headers: { 'x-should-retry': 'false' },
      message: expect.stringContaining('6 bytes to stdout'),
      details: [{ code: 'stdout', message: 'begun\n' }],
    })
    expect(['child', 'session', 'hidden'].filter((name) => isAlive(pidIn(name)))).toEqual([])
  })

  test('ends everything when its caller leaves', async () => {
    const leaving = new AbortController()
    const running = exec(`echo $$ > ${dir}/left-pid; sleep 60`, {}, leaving.signal)
    await until('the start', 3_000, () => attempt(() => pidIn('left-pid') > 0))
    leaving.abort(new Error('left'))
    await expect(running).rejects.toThrow('left')
    expect(isAlive(pidIn('left-pid'))).toBe(false)
  })

  test('answers fifty calls at once', async () => {
    const replies = await Promise.all(Array.from({ length: 50 }, (_, i) => exec(`sleep 0.1; echo ${i}`)))
    expect(replies.map(({ stdout_b64 }) => text(stdout_b64).trim())).toEqual(Array.from({ length: 50 }, (_, i) => String(i)))
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
  test('reports status, accepts input, streams output, and reports the end of a program', async () => {
    const { process_id: id, pid, started_at: at } = await spawn('while read -r line; do echo "got $line"; [ "$line" = end ] && exit 4; done')
    expect(isAlive(pid)).toBe(true)
    expect(Math.abs(Date.parse(at) - Date.now())).toBeLessThan(5_000)
    expect(processes.status(id)).toMatchObject({ state: 'running', exit_code: null })
    await processes.write(id, Buffer.from('one\nend\n'), never)
    expect(await all(id)).toEqual({ out: 'got one\ngot end\n', end: { event: 'exit', exit_code: 4 } })
    expect(await all(id)).toEqual({ out: 'got one\ngot end\n', end: { event: 'exit', exit_code: 4 } })
    expect(processes.status(id)).toEqual({ state: 'exited', exit_code: 4, cpu_pct: 0, mem_bytes: 0 })
    await expect(processes.write(id, Buffer.from('x'), never)).rejects.toMatchObject({ code: 'conflict' })
    expect(() => processes.resize(id, { rows: 1, cols: 1 })).toThrow(/^process_id: has no terminal/)
    await processes.kill(id, 'SIGTERM')
  })

  test('reports CPU use and memory of a program and everything it started', async () => {
    const { process_id: id } = await spawn(`(perl -e '$x = "x" x 60_000_000; 1 while 1' &) ; sleep 60`)
    await until('its memory', 10_000, () => processes.status(id).mem_bytes > 60_000_000, { everyMs: 150 })
    await sleep(500)
    // The shell sleeps, so all of it is what the shell has started. How much that gets is the machine's business.
    expect(processes.status(id).cpu_pct).toBeGreaterThan(0)
    expect(processes.status(id).cpu_pct).toBeLessThan(300)
    await processes.kill(id, 'SIGKILL')
    expect((await all(id)).end).toEqual({ event: 'exit', exit_code: 137 })
  })

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

  test('ends a program after its timeout', async () => {
    const { process_id: id } = await spawn('trap "" TERM; while :; do sleep 1; done', { timeout_sec: 1 })
    expect((await all(id)).end).toEqual({ event: 'exit', exit_code: 137 })
  })

  test('gives a terminal its size, and a program in it learns of a resize', async () => {
    const { process_id: id } = await spawn(
      `trap 'stty size; exit 0' WINCH; stty size; test -t 0 && test -t 1 && test -t 2 && echo tty; while :; do sleep 0.05; done`,
      {
        allocate_tty: true,
        rows: 33,
        cols: 101,
      },
    )
    for await (const event of processes.output(id, never)) if (text(event.data_b64).includes('tty')) break
    processes.resize(id, { rows: 50, cols: 132 })
    expect((await all(id)).out).toBe('33 101\r\ntty\r\n50 132\r\n')
    expect(() => processes.resize(id, { rows: 1, cols: 1 })).toThrow('the program has ended')
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
  test('refuse more running programs than allowed until one ends', async () => {
    const own = new Processes({ env: { PATH: '/usr/bin:/bin' }, cwd: dir }, join(dir, 'pipes'), silentLog)
    const start = () => own.spawn({ command: 'sleep', args: ['60'], env: {}, as_root: false, allocate_tty: false }, never)
    const ids: string[] = []
    for (let i = 0; i < MAX_RUNNING; i++) ids.push((await start()).process_id)
    await expect(start()).rejects.toMatchObject({ code: 'too_many_requests' })
    await expect(own.exec({ command: 'true', args: [], env: {}, as_root: false }, never)).rejects.toMatchObject({ code: 'too_many_requests' })
    await own.kill(ids[0]!, 'SIGKILL')
    for await (const _ of own.output(ids[0]!, never));
    ids.push((await start()).process_id)
    for (const id of ids) await own.kill(id, 'SIGKILL')
    for (const id of ids) await until('its end', 5_000, () => own.status(id).state === 'exited')
  }, 120_000)

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
