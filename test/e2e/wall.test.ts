// Programs that callers run in a session try to harm the rest of the instance, and cannot.
import { networkInterfaces } from 'node:os'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startCloud, type Cloud } from '../support/cloud.ts'
import { agentOf, areContainers } from '../support/inside.ts'
import { run as runIn } from '../support/programs.ts'

let cloud: Cloud
let id: string
let made: Awaited<ReturnType<Cloud['client']['browsers']['create']>>
beforeAll(async () => {
  // A public address without TLS, on a port that unprivileged programs usually cannot bind.
  cloud = await startCloud({ COB_ALLOW_HOST_LOOPBACK: '0', COB_WARM_BROWSERS: '0', COB_PUBLIC_URL: 'http://localhost' })
  made = await cloud.client.browsers.create({ timeout_seconds: 600 })
  id = made.session_id
})
afterAll(async () => {
  await cloud.client.browsers.deleteByID(id)
  await cloud[Symbol.asyncDispose]()
})

const run = (line: string, more: object = {}) => runIn(cloud.client, id, line, more)

/** Prints the result of each attempt: `done`, or why it failed. System call numbers: x86-64 and arm64. */
const attempts = (lines: Record<string, string>): string => `
import ctypes, os, platform, signal, socket, sys, time, urllib.request
arm = platform.machine() == 'aarch64'
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(x64, arm64, *args):
    result = libc.syscall(arm64 if arm else x64, *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
agent = next(int(p) for p in os.listdir('/proc') if p.isdigit() and b'program/agent.mjs' in open(f'/proc/{p}/cmdline', 'rb').read() and p != '1')
def attempt(name, work):
    try: print(name, 'done', work())
    except Exception as e: print(name, 'refused', type(e).__name__, getattr(e, 'errno', ''))
${Object.entries(lines)
  .map(([name, work]) => `attempt('${name}', lambda: ${work})`)
  .join('\n')}
`
const attempted = async (lines: Record<string, string>, more: object = {}): Promise<string[]> => {
  const { out, err } = await run(`python3 - <<'END'\n${attempts(lines)}\nEND`, more)
  expect(err).toBe('')
  return out.trim().split('\n')
}

describe('the agent', () => {
  const ways = {
    memory: "open(f'/proc/{agent}/mem', 'r+b')",
    descriptors: "os.listdir(f'/proc/{agent}/fd')",
    environment: "open(f'/proc/{agent}/environ', 'rb').read()",
    folder: "os.readlink(f'/proc/{agent}/cwd')",
    threads: "open(f'/proc/{agent}/task/{agent}/mem', 'r+b')",
    attach: 'call(101, 117, 16, agent, 0, 0)',
    seize: 'call(101, 117, 0x4206, agent, 0, 0)',
    socket: 'call(438, 438, call(434, 434, agent, 0), 0, 0)',
    write: 'call(311, 271, agent, ctypes.create_string_buffer(16), 1, ctypes.create_string_buffer(16), 1, 0)',
    read: 'call(310, 270, agent, ctypes.create_string_buffer(16), 1, ctypes.create_string_buffer(16), 1, 0)',
    debugger: "(os.kill(agent, signal.SIGUSR1), time.sleep(1), urllib.request.urlopen('http://127.0.0.1:9229/json'))",
  }

  test.each([
    ['kernel', {}],
    ['root', { as_root: true }],
  ])('cannot be taken over by a program of its session that runs as %s', async (_user, more) => {
    const received = await attempted(ways, more)
    expect(received).toHaveLength(Object.keys(ways).length)
    expect(received.filter((line) => line.includes(' done'))).toEqual([])
    // The agent still works.
    expect((await run('echo fine')).out).toBe('fine\n')
  })

  test('has a listening socket that no other process of the session holds', async () => {
    const { out } = await run(`for p in /proc/[0-9]*; do ls -l $p/fd 2>/dev/null | sed "s,^,$p ,"; done`)
    if (!areContainers) expect(out).toMatch(/^\/proc\/1 .* 0 -> \/dev\/null$/m)
    // Xvfb and Chromium have their own sockets; the kernel reports the owner of each listening Unix socket.
    const listening = (await run(`awk '$4 == "00010000" && $8 == "" { print $7 }' /proc/net/unix`)).out.trim().split('\n')
    for (const inode of listening.filter(Boolean)) expect(out).not.toContain(`socket:[${inode}]`)
    expect(agentOf(cloud, id)).toBeGreaterThan(0)
  })
})

const socketError = (code: number): string => (process.env.COB_DRIVER === 'kubernetes' ? 'OSError 38' : areContainers ? 'PermissionError 1' : `OSError ${code}`)

test('programs of a session have no keys, no mounts, no io_uring, and no sockets except Unix, IP, routes and devices', async () => {
  const socketOf = (family: number, kind: number, protocol: number) => `socket.socket(${family}, ${kind}, ${protocol})`
  expect(
    await attempted(
      {
        keys: 'call(250, 219, 0, -3, 0)',
        key: "call(248, 217, b'user', b'x', b'y', 1, -3)",
        keysFile: "open('/proc/keys').read()",
        mount: "call(165, 40, b'x', b'/tmp', b'tmpfs', 0, 0)",
        fsopen: "call(430, 430, b'tmpfs', 0)",
        uring: 'call(425, 425, 1, ctypes.create_string_buffer(256))',
        bpf: 'call(321, 280, 0, ctypes.create_string_buffer(256), 128)',
        perf: 'call(298, 241, ctypes.create_string_buffer(256), 0, -1, -1, 0)',
        vsock: socketOf(40, 1, 0),
        packet: socketOf(17, 3, 0),
        algorithms: socketOf(38, 5, 0),
        audit: socketOf(16, 3, 9),
        netfilter: socketOf(16, 3, 12),
        sctp: socketOf(2, 1, 132),
        iptables: `(call(272, 97, 0x50000000), ${socketOf(2, 2, 0)}.getsockopt(0, 64, 84))`,
      },
      { as_root: true },
    ),
  ).toEqual([
    'keys refused OSError 38',
    'key refused OSError 38',
    // A container engine puts an empty file there, and its seccomp filter answers every kind of socket with one error.
    areContainers ? 'keysFile done ' : 'keysFile refused PermissionError 13',
    'mount refused PermissionError 1',
    'fsopen refused PermissionError 1',
    'uring refused OSError 38',
    'bpf refused OSError 38',
    'perf refused OSError 38',
    `vsock refused ${socketError(97)}`,
    `packet refused ${socketError(97)}`,
    `algorithms refused ${socketError(97)}`,
    `audit refused ${socketError(93)}`,
    `netfilter refused ${socketError(93)}`,
    `sctp refused ${socketError(93)}`,
    `iptables refused ${socketError(92)}`,
  ])
  const open = await attempted({ tcp: socketOf(2, 1, 0), udp: socketOf(10, 2, 17), unix: socketOf(1, 1, 0), route: socketOf(16, 3, 0) })
  expect(open.filter((line) => !line.includes(' done'))).toEqual([])
})

// The session needs port 80. containerd 1.6 lets only root bind it (docs/kubernetes.md).
describe.skipIf(process.env.COB_DRIVER === 'kubernetes')('a program in a session reaches its own browser', () => {
  const direct = () => made.cdp_ws_url.replace('localhost', `127.0.0.1:${new URL(cloud.url).port}`)

  /** Connects to a WebSocket address from inside the session. Resolves with the browser's name, or with the status of the refusal. */
  const version = async (url: string, headers: Record<string, string> = {}): Promise<string> => {
    const script = `const { WebSocket } = require('/opt/cob/node_modules/ws')
      const socket = new WebSocket(${JSON.stringify(url)}, { headers: ${JSON.stringify(headers)}, handshakeTimeout: 5000 })
      socket.on('open', () => socket.send(JSON.stringify({ id: 1, method: 'Browser.getVersion' })))
      socket.on('message', (data) => { console.log(JSON.parse(data).result.product.split('/')[0]); process.exit() })
      socket.on('unexpected-response', (_, response) => { console.log(response.statusCode); process.exit() })
      socket.on('error', (error) => { console.log(error.code ?? error.message); process.exit() })`
    return (await run(`/opt/node/node -e '${script.replaceAll("'", `'\\''`)}'`)).out.trim()
  }

  test("over its cdp_ws_url, at the clients' address and at the address on which the service listens", async () => {
    expect(await version(made.cdp_ws_url)).toBe('Chrome')
    expect(await version(direct())).toBe('Chrome')
    const own = Object.values(networkInterfaces())
      .flat()
      .find((each) => each && !each.internal && each.family === 'IPv4')
    // A container has its own addresses, so it cannot use this one.
    if (own && !areContainers) expect(await version(made.cdp_ws_url.replace('localhost', `${own.address}:${new URL(cloud.url).port}`))).toBe('Chrome')
    // An extension in the session sends its own Origin.
    expect(await version(direct(), { origin: 'chrome-extension://abcdefghijklmnopabcdefghijklmnop' })).toBe('Chrome')
  })

  test('over its webdriver_ws_url', async () => {
    const script = `const socket = new WebSocket('${made.webdriver_ws_url}'); socket.onopen = () => socket.send(JSON.stringify({ id: 1, method: 'session.status', params: {} })); socket.onmessage = ({ data }) => { console.log(JSON.parse(data).type); process.exit() }; socket.onerror = () => process.exit(1)`
    expect((await run(`/opt/node/node -e "${script.replaceAll('"', '\\"')}"`)).out).toBe('success\n')
  })

  test('and nothing else: not another session, not the rest of the API', async () => {
    const other = await cloud.client.browsers.create()
    expect(await version(other.cdp_ws_url)).toBe('404')
    expect(await version(other.cdp_ws_url.replace(other.session_id, id).replace('/cdp', '/other'))).toBe('404')
    await cloud.client.browsers.deleteByID(other.session_id)
    for (const path of ['/health', '/browsers', `/browsers/${id}`, `/browsers/${id}/process/exec`, '/session/fit', '/', '/metrics']) {
      const { out } = await run(
        `/opt/node/node -e "fetch('http://localhost${path}', { headers: { authorization: 'Bearer ${cloud.key}' } }).then(async (r) => console.log(r.status, await r.text()))"`,
      )
      expect(out).toMatch(/^404 \{"code":"not_found","message":"inside a session/)
    }
  })

  test('but a page of the session does not', async () => {
    const code = `return page.evaluate((urls) => Promise.all(urls.map((url) => new Promise((told) => {
      const socket = new WebSocket(url)
      socket.onopen = () => told('open')
      socket.onerror = () => told('refused')
    }))), ${JSON.stringify([made.cdp_ws_url, direct()])})`
    const reply = await cloud.client.browsers.playwright.execute(id, { code: `await page.goto('data:text/html,x'); ${code}` })
    expect(reply).toMatchObject({ success: true, result: ['refused', 'refused'] })
    expect(await version(direct(), { origin: 'https://example.org' })).toBe('404')
    expect(await version(direct(), { origin: 'null' })).toBe('404')
  })
})

test('process 1 reveals no path, key or variable of the machine', async () => {
  if (areContainers) {
    // The environment of process 1 comes from the image and the container engine.
    const { out } = await run('tr "\\0" "\\n" </proc/1/environ; tr "\\0" "\\n" </proc/1/cmdline')
    expect(out).toContain('guest')
    expect(out).not.toMatch(/PRIVATE|credential|cob_[0-9a-f]{8}|SECRET|DATABASE_URL|DOCKER_HOST|KUBECONFIG/)
    expect(out).not.toContain(cloud.dataDir)
    return
  }
  expect((await run('cat /proc/1/environ | wc -c')).out).toBe('0\n')
  expect((await run('tr "\\0" "\\n" </proc/1/cmdline')).out).toMatch(/^bwrap\n--args\n\d+\n--seccomp\n\d+\n--\n\/bin\/sh\n/)
  expect((await run('tr "\\0" "\\n" </proc/1/cmdline')).out).not.toContain(cloud.dataDir)
})
