// The published SDK with a running service: programs in a session, from one shell line to realistic work.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { conforms } from '../support/contract.ts'
import { forTests } from '../support/for-tests.ts'
import { base64, read, run as runIn, text, type Ran } from '../support/programs.ts'
import { shareCloud } from '../support/shared-cloud.ts'

let id: string
const cloud = forTests(() => shareCloud({ COB_WARM_BROWSERS: '0' }))
beforeAll(async () => {
  id = (await cloud.client.browsers.create({ timeout_seconds: 600 })).session_id
})
afterAll(async () => {
  await cloud.client.browsers.deleteByID(id)
})

const processes = () => cloud.client.browsers.process
const run = (line: string, more: object = {}): Promise<Ran> => runIn(cloud.client, id, line, more)
const refused = (field: string) => ({ status: 400, error: { code: 'bad_request', details: [{ message: expect.stringMatching(`^${field}`) }] } })

describe('exec', () => {
  test('runs a program without a shell and returns its streams, its code and the duration', async () => {
    const reply = await processes().exec(id, { command: 'printf', args: ['%s\n', '$HOME *', 'ü'] })
    conforms('ProcessExecResponse', reply)
    expect({ ...reply, duration_ms: 0 }).toEqual({ exit_code: 0, stdout_b64: base64('$HOME *\nü\n'), stderr_b64: '', duration_ms: 0 })
    expect(await run('echo out; echo err > /dev/stderr; exit 41')).toEqual({ code: 41, out: 'out\n', err: 'err\n' })
    expect((await run('kill -KILL $$')).code).toBe(137)
  })

  test('gives a program the environment of the session: its user, folder and display, and no variable of the agent', async () => {
    const { out } = await run('id -un; pwd; env | sort')
    expect(out.split('\n').slice(0, 2)).toEqual(['kernel', '/home/kernel'])
    expect(out).toContain('DISPLAY=:0\n')
    expect(out).not.toMatch(/COB_|NODE_|jwt|cob_/)
    const { out: other } = await run('pwd; echo $GREETING; echo $HOME', { cwd: '/usr/share', env: { GREETING: 'hallo', HOME: '/tmp' } })
    expect(other).toBe('/usr/share\nhallo\n/tmp\n')
  })

  test.each([
    ['command', { command: 'no-such-program' }],
    ['command', { command: 'ls -l' }],
    ['command', { command: '/etc/passwd' }],
    ['cwd', { command: 'true', cwd: '/no/such/folder' }],
    ['cwd', { command: 'true', cwd: 'relative' }],
    ['as_user', { command: 'true', as_user: 'nobody-here' }],
    ['as_user', { command: 'true', as_user: 'root', as_root: true }],
    ['env', { command: 'true', env: { 'A=B': 'c' } }],
    ['args.0', { command: 'true', args: ['x'.repeat(131_072)] }],
    ['timeout_sec', { command: 'true', timeout_sec: -1 }],
    ['nonsense', { command: 'true', nonsense: 1 } as never],
  ])('refuses a program that cannot run, and the error names the field: %s', async (field, params) => {
    await expect(processes().exec(id, params)).rejects.toMatchObject(refused(field))
    await expect(processes().spawn(id, params)).rejects.toMatchObject(refused(field))
  })

  test('runs a program as another user, and root has no more rights than that user', async () => {
    expect((await run('id -u; id -g', { as_user: '1234:55' })).out).toBe('1234\n55\n')
    expect((await run('whoami; echo $USER; touch /tmp/of-nobody', { as_user: 'nobody' })).out).toBe('nobody\nnobody\n')
    expect((await run('id -un', { as_user: 'kernel' })).out).toBe('kernel\n')
    expect((await run('id -u', { as_user: null, as_root: false })).out).toBe('1000\n')
    // Outside the user namespace the files belong to kernel.
    expect((await run('stat -c %U /tmp/of-nobody; rm /tmp/of-nobody')).out).toBe('kernel\n')
    const root = await run(
      'id -un; for f in /usr/x /etc/x /opt/cob/src/x /x; do touch $f 2>/dev/null && echo "wrote $f"; done; chown 33 ~ 2>/dev/null && echo chowned; hostname x 2>/dev/null && echo renamed; true',
      { as_root: true },
    )
    expect(root.out).toBe('root\n')
  })

  test('as root can write where an image of a machine allows it, with /root as home', async () => {
    const places = ['/app', '/data', '/root', '/usr/local/bin', '/usr/local/lib', '/var/lib', '/var/log', '/var/tmp', '/var/www/html']
    const made = await run(
      `id -u; echo $HOME; for p in ${places.join(' ')}; do mkdir -p $p && echo x > $p/mine; done; touch /root/.rc; chown root:root /app/mine`,
      {
        as_root: true,
      },
    )
    expect(made).toEqual({ code: 0, out: '0\n/root\n', err: '' })
    expect((await run(`cat ${places.map((place) => `${place}/mine`).join(' ')} | wc -l; stat -c %U /app/mine`)).out).toBe(`${places.length}\nkernel\n`)
    // A program installed by the session is found in PATH.
    const tool = '#!/bin/sh\necho a tool'
    await cloud.client.browsers.fs.writeFile(id, tool, { path: '/usr/local/bin/my-tool', mode: '755' })
    expect((await run('my-tool')).out).toBe('a tool\n')
  })

  test('cuts output above 8 MiB, counts it, and says so in the last line of stderr', async () => {
    const reply = await processes().exec(id, { command: 'head', args: ['-c', '10000000', '/dev/zero'] })
    expect(Buffer.byteLength(reply.stdout_b64!, 'base64')).toBe(8 * 1024 * 1024)
    expect(text(reply.stderr_b64)).toBe(`\n[stdout was cut after 8388608 bytes; ${10_000_000 - 8_388_608} more were dropped]\n`)
    expect(reply).toMatchObject({ exit_code: 0, stdout_missed_bytes: 10_000_000 - 8_388_608 })
  })
})

describe('spawn', () => {
  test('starts a program that can be inspected, written to, read by many from its start, and read after its end', async () => {
    const started = await processes().spawn(id, {
      command: 'bash',
      args: ['-c', 'while read -r l; do echo "<$l>"; [ "$l" = bye ] && exit 9; echo no >&2; done'],
    })
    conforms('ProcessSpawnResponse', started)
    expect(started.process_id).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/)
    expect((await run(`cat /proc/${started.pid}/comm`)).out).toBe('bash\n')
    const one = started.process_id!
    const readers = [read(cloud.client, id, one), read(cloud.client, id, one)]
    const status = await processes().status(one, { id })
    conforms('ProcessStatusResponse', status)
    expect(status).toMatchObject({ state: 'running', exit_code: null })
    expect(status.mem_bytes).toBeGreaterThan(100_000)
    const written = await processes().stdin(one, { id, data_b64: base64('hello\nbye\n') })
    conforms('ProcessStdinResponse', written)
    expect(written).toEqual({ written_bytes: 10 })
    for (const seen of [...(await Promise.all(readers)), await read(cloud.client, id, one)])
      expect(seen).toEqual({ out: '<hello>\n<bye>\n', err: 'no\n', missed: 0, exitCode: 9 })
    expect(await processes().status(one, { id })).toEqual({ state: 'exited', exit_code: 9, cpu_pct: 0, mem_bytes: 0 })
    await expect(processes().stdin(one, { id, data_b64: 'eA==' })).rejects.toMatchObject({ status: 409 })
    await expect(processes().stdin(one, { id, data_b64: 'no base64' })).rejects.toMatchObject(refused('data_b64'))
    await expect(processes().resize(one, { id, rows: 10, cols: 10 })).rejects.toMatchObject(refused('process_id'))
    conforms('ProcessKillResponse', await processes().kill(one, { id, signal: 'TERM' }))
  })

  test('reports CPU and memory of a program and everything it started', async () => {
    const { process_id: one } = await processes().spawn(id, { command: 'bash', args: ['-c', `(perl -e '$x = "x" x 80_000_000; 1 while 1' &); sleep 100`] })
    await until('its memory', 10_000, async () => (await processes().status(one!, { id })).mem_bytes! > 80_000_000, { everyMs: 200 })
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    const { cpu_pct: cpu } = await processes().status(one!, { id })
    // The shell only sleeps, so its child uses all of the CPU time. How much it gets depends on the machine.
    expect(cpu).toBeGreaterThan(0)
    expect(cpu).toBeLessThan(250)
    await processes().kill(one!, { id, signal: 'KILL' })
    expect((await read(cloud.client, id, one!)).exitCode).toBe(137)
  })

  test('answers 404 for an unknown program in all calls, and for a program of another session', async () => {
    const { session_id: other } = await cloud.client.browsers.create({ timeout_seconds: 60 })
    const { process_id: foreign } = await processes().spawn(other, { command: 'sleep', args: ['60'] })
    for (const one of ['3f1a8ab0-0000-4000-8000-000000000000', foreign!, 'x']) {
      await expect(processes().status(one, { id })).rejects.toMatchObject({ status: 404 })
      await expect(processes().stdin(one, { id, data_b64: '' })).rejects.toMatchObject({ status: 404 })
      await expect(processes().kill(one, { id, signal: 'KILL' })).rejects.toMatchObject({ status: 404 })
      await expect(processes().resize(one, { id, rows: 1, cols: 1 })).rejects.toMatchObject({ status: 404 })
      await expect(processes().stdoutStream(one, { id })).rejects.toMatchObject({ status: 404 })
    }
    expect((await processes().status(foreign!, { id: other })).state).toBe('running')
    await cloud.client.browsers.deleteByID(other)
  })

  test('runs an interactive bash in a terminal: prompt, colours, resize, Ctrl-C, exit', async () => {
    const { process_id: one } = await processes().spawn(id, {
      command: 'bash',
      args: ['--norc', '-i'],
      allocate_tty: true,
      rows: 30,
      cols: 100,
      env: { PS1: '> ' },
    })
    const type = (keys: string) => processes().stdin(one!, { id, data_b64: base64(keys) })
    const shows = (words: string) => read(cloud.client, id, one!, ({ out }) => out.includes(words))
    await type('stty size; echo $TERM; tput colors; test -t 1 && echo "is a t"ty\r')
    expect((await shows('is a tty\r\n')).out).toContain('30 100\r\nxterm-256color\r\n256\r\n')
    conforms('ProcessResizeResponse', await processes().resize(one!, { id, rows: 50, cols: 132 }))
    await type('stty size\r')
    await shows('50 132\r\n')
    await type('sleep 600; echo "not ""reached"\r')
    await until('sleep', 20_000, async () => (await run('pgrep -x sleep || true')).out !== '')
    await type('\x03')
    await type('echo "after ""^C"; exit 5\r')
    const end = await read(cloud.client, id, one!)
    expect(end.exitCode).toBe(5)
    expect(end.out).toContain('after ^C\r\n')
    expect(end.out).not.toContain('not reached\r\n')
    await expect(processes().resize(one!, { id, rows: 0, cols: 10 })).rejects.toMatchObject(refused('rows'))
    await expect(processes().resize(one!, { id, rows: 10, cols: 65_536 })).rejects.toMatchObject(refused('cols'))
  })
})

describe('real programs work', () => {
  const has = async (program: string) => (await run(`command -v ${program} || true`)).out !== ''

  test('git: a repository, a commit, a branch, a merge', async ({ skip }) => {
    if (!(await has('git'))) skip('there is no git on this machine')
    const lines = `set -e; rm -rf ~/repo; mkdir ~/repo; cd ~/repo; git init -q -b main; git config user.email a@b.c; git config user.name A
      echo one > a; git add a; git commit -qm first; git checkout -qb side; echo two > b; git add b; git commit -qm second
      git checkout -q main; git merge -q --no-ff -m merged side; git log --oneline | wc -l; git status --porcelain | wc -l; git fsck --strict 2>&1 | grep -c error || true`
    expect((await run(lines)).out).toBe('3\n0\n0\n')
  })

  test('a Python script that reads, computes and writes', async ({ skip }) => {
    if (!(await has('python3'))) skip('there is no Python on this machine')
    const script = `import json, pathlib, hashlib, subprocess, sys\ndata = {str(i): hashlib.sha256(str(i).encode()).hexdigest() for i in range(1000)}\npathlib.Path('data.json').write_text(json.dumps(data))\nprint(len(json.loads(pathlib.Path('data.json').read_text())), subprocess.check_output(['uname']).decode().strip(), file=sys.stderr)`
    expect(await run('python3 -c "$SCRIPT" && stat -c %s data.json', { env: { SCRIPT: script }, cwd: '/tmp' })).toEqual({
      code: 0,
      out: '74890\n',
      err: '1000 Linux\n',
    })
  })

  test('a Node script without npm: a server and a request to it', async () => {
    const script = `const { createServer } = require('http'); createServer((q, r) => r.end('pong ' + q.url)).listen(0, '127.0.0.1', async function () { console.log(await (await fetch('http://127.0.0.1:' + this.address().port + '/x')).text()); process.exit() })`
    expect(await run('/opt/node/node -e "$SCRIPT"', { env: { SCRIPT: script } })).toEqual({ code: 0, out: 'pong /x\n', err: '' })
  })

  test('tail -f of a growing file, followed as it grows', async () => {
    await run('echo begun > /tmp/growing')
    const { process_id: one } = await processes().spawn(id, { command: 'tail', args: ['-n', '+1', '-f', '/tmp/growing'] })
    let seen = ''
    const reading = read(cloud.client, id, one!, ({ out }) => (seen = out).includes('line 20\n'))
    // Each line arrives before the next one is written.
    for (let i = 1; i <= 20; i++) {
      await run(`echo line ${i} >> /tmp/growing`)
      await until(`line ${i}`, 20_000, () => seen.includes(`line ${i}\n`))
    }
    expect((await reading).out).toBe(`begun\n${Array.from({ length: 20 }, (_, i) => `line ${i + 1}\n`).join('')}`)
    await processes().kill(one!, { id, signal: 'INT' })
    expect((await read(cloud.client, id, one!)).exitCode).toBe(130)
  })
})
