// A page and a process inside a session try to reach what a session must not reach.
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, readdirSync, readlinkSync, statSync } from 'node:fs'
import { createServer, type AddressInfo, type Server } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { descendantsOf } from '../../src/base/processes.ts'
import { startCloud, type OwnCloud } from '../support/cloud.ts'
import { agentOf, areContainers, processesOf, runInside } from '../support/inside.ts'
import { openSession, type Session } from '../support/session.ts'

let cloud: OwnCloud
let first: Session
let second: Session
let listener: Server
let port: number
/** The number of connections to a server that listens on all addresses of this machine. */
let reached = 0

beforeAll(async () => {
  listener = createServer((socket) => {
    reached++
    socket.destroy()
  }).listen(0)
  await once(listener, 'listening')
  port = (listener.address() as AddressInfo).port
  cloud = await startCloud({ COB_ALLOW_HOST_LOOPBACK: '0' })
  first = await openSession(cloud, { timeout_seconds: 600 })
  second = await openSession(cloud, { timeout_seconds: 600 })
})
afterAll(async () => {
  await first[Symbol.asyncDispose]()
  await second[Symbol.asyncDispose]()
  await cloud[Symbol.asyncDispose]()
  listener.close()
})

const hostAddresses = (): string[] =>
  Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .filter(({ internal, address }) => !internal && !address.startsWith('fe80:'))
    .map(({ address }) => address)
const linkLocal = (): string[] =>
  Object.entries(networkInterfaces())
    .flatMap(([, list]) => list ?? [])
    .filter(({ internal, address }) => !internal && address.startsWith('fe80:'))
    .map(({ address }) => `${address}%eth0`)
const gateway = (): string =>
  readFileSync('/proc/net/route', 'utf8')
    .split('\n')
    .map((line) => line.split('\t'))
    .find(([, destination]) => destination === '00000000')?.[2]
    ?.match(/../g)
    ?.toReversed()
    .map((byte) => parseInt(byte, 16))
    .join('.') ?? '192.0.2.1'
const inUrl = (address: string): string => (address.includes(':') ? `[${address}]` : address)

test('a process reaches no server of this machine: not on loopback, not on its addresses, not the service, not over the gateway', async () => {
  const targets = [
    ...['127.0.0.1', '::1', '0.0.0.0', '127.0.0.53', ...hostAddresses(), ...linkLocal(), gateway()].map((address) => [address, port]),
    ['127.0.0.1', Number(new URL(cloud.url).port)],
    ['169.254.169.254', 80],
    ['169.254.1.1', 80],
  ] as [string, number][]
  const script = `const net = require('net'); Promise.all(${JSON.stringify(targets)}.map(([host, port]) => new Promise((done) => { const s = net.connect({ host, port }); s.setTimeout(3000); s.on('connect', () => { s.on('data', () => done(host + ' answers')); setTimeout(() => done(s.destroyed || s.readyState !== 'open' ? 'closed' : host + ' open'), 1000) }).on('error', (e) => done(e.code)).on('timeout', () => done('timeout')).on('close', () => done('closed')) }))).then((r) => { console.log(JSON.stringify(r)); process.exit() })`
  const { output } = await runInside(cloud, first.id, `/opt/node/node -e ${JSON.stringify(script)}`)
  const results = JSON.parse(output) as string[]
  expect(results).toHaveLength(targets.length)
  expect(results.filter((result) => result.endsWith('answers'))).toEqual([])
  for (const result of results.slice(-2)) expect(result).toMatch(/ECONNREFUSED/)
  expect(reached).toBe(0)
})

test('a process that binds its socket to the network device reaches nothing more', async () => {
  // 25 is SO_BINDTODEVICE, which bypasses routes and needs no privilege.
  const connect = (address: string, to: number) =>
    `perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0); setsockopt(S, SOL_SOCKET, 25, "eth0\\0") or die "no option: $!"; alarm 3; connect(S, pack_sockaddr_in(${to}, inet_aton("${address}"))) ? print "answers" : print "refused: $!"'`
  for (const address of ['169.254.169.254', ...hostAddresses().filter((own) => !own.includes(':'))])
    expect((await runInside(cloud, first.id, connect(address, port))).output).toMatch(/^refused: Connection refused/)
  expect(reached).toBe(0)
})

test('a page reaches no server of this machine', async () => {
  for (const address of ['127.0.0.1', 'localhost', ...hostAddresses(), gateway(), '169.254.169.254', 'host.cob.internal'])
    for (const target of [port, Number(new URL(cloud.url).port)])
      await expect(first.page.goto(`http://${inUrl(address)}:${target}/`, { timeout: 5_000 })).rejects.toThrow()
  expect(reached).toBe(0)
})

test('a process sees only the files, processes and users of its own session', async () => {
  const see = async (line: string) => (await runInside(cloud, first.id, line)).output
  expect((await see('ls /home')).trim()).toBe('kernel')
  expect(await see('ls -a /home/kernel')).not.toContain(second.id)
  expect(await see(`ls ${cloud.dataDir} 2>&1`)).toMatch(/No such file/)
  expect(await see(`cat ${join(cloud.dataDir, 'api-key')} ${join(cloud.dataDir, 'secret-key')} 2>&1`)).not.toMatch(/cob_|[0-9a-f]{64}/)
  expect(await see('ls /root /var/lib/cob /mnt 2>&1')).not.toMatch(/data|code|node/)
  // No Unix socket of the host is visible, in the file system or abstract: not Postgres', not other agents'.
  const sockets = await see('cat /proc/net/unix')
  expect(sockets).not.toMatch(/PGSQL|agent\.sock/)
  const commands = await see(`for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done`)
  expect(commands).toContain('program/agent.mjs')
  expect(commands.match(/--remote-debugging-pipe/g)?.length).toBeLessThan(40)
  expect(commands).not.toMatch(/postgres|cli\/main\.ts|pasta/)
  expect(await see('getent passwd')).not.toMatch(/cob|tester/)
  // Processes of the same user can read the agent's environment; it contains no secret.
  const environment = await see(`cat /proc/[0-9]*/environ | tr '\\0' '\\n'`)
  expect(environment).not.toMatch(/cob_[0-9a-f]{40}|SECRET|API_KEY|DATABASE_URL/)
})

test('a process can write its home and its temporary folder, and no system folder', async () => {
  const writes = await runInside(
    cloud,
    first.id,
    'for f in /usr/x /etc/x /opt/cob/src/x /opt/node/x /x /bin/x /proc/sys/kernel/hostname; do (echo 1 > $f) 2>/dev/null && echo "wrote $f"; done; echo 1 > ~/x && echo 1 > /tmp/x && echo fine',
  )
  expect(
    writes.output
      .trim()
      .split('\n')
      .filter((line) => !/denied|read-only/i.test(line)),
  ).toEqual(['fine'])
  expect(
    (
      await runInside(
        cloud,
        first.id,
        'mount -t tmpfs x /mnt 2>&1; ip route del unreachable 169.254.0.0/16 2>&1; kill -9 1 2>&1; ls /proc/1/root/root 2>&1; true',
      )
    ).output,
  ).not.toMatch(/^$/)
  expect((await runInside(cloud, first.id, `grep -E 'CapEff|NoNewPrivs' /proc/self/status; true`)).output).toMatch(/CapEff/)
})

test("agent and Chromium run unprivileged without capabilities, and Chromium's own sandbox is on", async () => {
  const found = processesOf(cloud, first.id)
  for (const { command, status } of found) {
    expect(command).not.toMatch(/--no-sandbox|--disable-setuid-sandbox|--disable-seccomp/)
    const uid = Number(/^Uid:\s+(\d+)/m.exec(status)![1])
    expect(uid).not.toBe(0)
    if (process.getuid!() === 0 && !areContainers) expect(uid).toBeGreaterThanOrEqual(1_900_000_000)
  }
  const agent = found.find(({ pid }) => pid === agentOf(cloud, first.id))!
  expect(agent.status).toMatch(/^CapEff:\s+0+$/m)
  expect(agent.status).toMatch(/^NoNewPrivs:\s+1$/m)
  const renderers = found.filter(({ command }) => command.includes('--type=renderer'))
  expect(renderers.length).toBeGreaterThan(0)
  // One seccomp filter applies to everything in the sandbox; a page's process also has Chromium's own.
  const filters = (status: string) => Number(/^Seccomp_filters:\s+(\d+)$/m.exec(status)![1])
  expect(filters(agent.status)).toBe(1)
  for (const { status } of renderers) expect(filters(status)).toBeGreaterThan(1)
  const other = processesOf(cloud, second.id)[0]!
  if (process.getuid!() === 0 && !areContainers) expect(/^Uid:\s+(\d+)/m.exec(other.status)![1]).not.toBe(/^Uid:\s+(\d+)/m.exec(found[0]!.status)![1])
})

/** The inodes of the sockets of these processes. */
function socketsOf(isMeant: (command: string, pid: number) => boolean): Set<string> {
  // Processes and descriptors may end during the look.
  const read = (look: () => string[]): string[] => {
    try {
      return look()
    } catch {
      return []
    }
  }
  const pids = readdirSync('/proc').filter(
    (pid) => /^\d+$/.test(pid) && isMeant(read(() => [readFileSync(`/proc/${pid}/cmdline`, 'utf8')])[0] ?? '', Number(pid)),
  )
  const files = pids.flatMap((pid) => read(() => readdirSync(`/proc/${pid}/fd`)).flatMap((fd) => read(() => [readlinkSync(`/proc/${pid}/fd/${fd}`)])))
  return new Set(files.flatMap((file) => /^socket:\[(\d+)\]$/.exec(file)?.[1] ?? []))
}

/** Simulates a developer's Chrome with an open debugging port on this machine. */
async function foreignChrome(): Promise<Disposable & { port: number }> {
  const answer = JSON.stringify([{ webSocketDebuggerUrl: 'ws://127.0.0.1/devtools/page/1', url: 'https://example.org/' }])
  const program = `require('http').createServer((_, r) => r.end(${JSON.stringify(answer)})).listen(0, '127.0.0.1', function () { console.log(this.address().port) })`
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [said] = (await once(child.stdout, 'data')) as [Buffer]
  return { port: Number(said.toString()), [Symbol.dispose]: () => void child.kill('SIGKILL') }
}

/** The listening TCP sockets of this machine, with their ports. */
const listening = () =>
  ['tcp', 'tcp6']
    .flatMap((file) => readFileSync(`/proc/net/${file}`, 'utf8').split('\n').slice(1))
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[3] === '0A')
    .map((fields) => ({ inode: fields[9]!, port: parseInt(fields[1]!.split(':')[1]!, 16) }))

test("no debugging port of Cob's browsers is open on this machine, whatever else is", async () => {
  using chrome = await foreignChrome()
  const mark = `mark-${randomUUID()}`
  for (const { page } of [first, second]) await page.goto(`data:text/html,<title>${mark}</title>`)
  const ofTests = socketsOf((command) => command.includes('vitest'))
  expect(ofTests.size).toBeGreaterThan(0)
  // Skip the servers of other tests, which count their requests.
  const asked = listening().filter(({ inode }) => !ofTests.has(inode))
  const answers = await Promise.all(
    asked.map(({ port: open }) =>
      fetch(`http://127.0.0.1:${open}/json/list`, { signal: AbortSignal.timeout(1_000) }).then(
        (response) => response.text(),
        () => '',
      ),
    ),
  )
  expect(asked.map(({ port: open }) => open)).toContain(chrome.port)
  expect(answers.filter((answer) => answer.includes(mark))).toEqual([])
  // Only root can see the sockets of all processes of a session.
  if (process.getuid!() === 0 && !areContainers) {
    const ours = new Set([cloud.pid(), ...descendantsOf(cloud.pid()), ...[first, second].flatMap(({ id }) => processesOf(cloud, id).map(({ pid }) => pid))])
    const sockets = socketsOf((_, pid) => ours.has(pid))
    expect(listening().flatMap(({ inode, port: open }) => (sockets.has(inode) ? [open] : []))).toEqual([Number(new URL(cloud.url).port)])
  }
})

test('secrets are in files that only their owner can read, and not in the log', async () => {
  for (const name of ['api-key', 'secret-key']) expect(statSync(join(cloud.dataDir, name)).mode & 0o077).toBe(0)
  expect(statSync(cloud.dataDir).mode & 0o077).toBe(0)
  const rows = await cloud.query<{ hash: Buffer; masked: string }>('select * from api_keys')
  expect(JSON.stringify(rows)).not.toContain(cloud.key)
  expect(cloud.log()).not.toContain(cloud.key)
  expect(cloud.log()).not.toContain('jwt=')
})
