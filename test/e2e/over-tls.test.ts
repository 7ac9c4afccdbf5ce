// Sessions whose agents are reached only by TCP, as on another machine. Secrets of the control plane stay out of the sessions.
import { createHash } from 'node:crypto'
import { readFileSync, readdirSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { deployed } from '../support/apps.ts'
import { startCloud } from '../support/cloud.ts'
import { forTests } from '../support/for-tests.ts'
import { openSession, type Session } from '../support/session.ts'
import { serveSockets } from '../support/upstreams.ts'

const HEARD_MS = 30_000
interface Agent {
  host: string
  port: number
  certificate: string
  credential: string
}

let session: Session
const ended = new AsyncDisposableStack()
const cloud = forTests(() => startCloud({ COB_DRIVER: 'local-tls' }))
beforeAll(async () => {
  session = ended.use(await openSession(cloud, { headless: true }))
})
afterAll(() => ended.disposeAsync())

/** Searches everything that it can read for values with the given hashes. It gets only hashes, so that it does not find the secret in itself. */
const SEARCH = `
import hashlib, os, re, sys
wanted = set(sys.argv[1:])
seen = 0
def look(data):
    global seen
    seen += 1
    for found in re.findall(rb'[A-Za-z0-9_-]{43}', data):
        if hashlib.sha256(found).hexdigest() in wanted: return True
    return b'BEGIN PRIVATE' + b' KEY' in data
for pid in filter(str.isdigit, os.listdir('/proc')):
    if int(pid) == os.getpid(): continue
    for name in ('environ', 'cmdline'):
        try: data = open(f'/proc/{pid}/{name}', 'rb').read()
        except OSError: continue
        if look(data): print('FOUND', pid, name)
    try:
        maps = open(f'/proc/{pid}/maps').read().splitlines()
        memory = open(f'/proc/{pid}/mem', 'rb', 0)
    except OSError: continue
    for line in maps:
        span, rights, *_ = line.split()
        start, end = (int(x, 16) for x in span.split('-'))
        if 'w' not in rights or end - start > 64 << 20: continue
        try:
            memory.seek(start); data = memory.read(end - start)
        except (OSError, ValueError): continue
        if look(data): print('FOUND', pid, 'memory', line)
for top in ('/run', '/tmp', '/dev/shm', '/home/kernel', '/etc', '/var'):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.isfile(path) or os.path.getsize(path) > 64 << 20: continue
            try: data = open(path, 'rb').read()
            except OSError: continue
            if look(data): print('FOUND', path)
print('seen', seen)
`

const hashOf = ({ credential }: Agent): string => createHash('sha256').update(credential).digest('hex')
const agent = (): Agent => (JSON.parse(readFileSync(join(cloud.dataDir, 'instances', session.id, 'instance.json'), 'utf8')) as { agent: Agent }).agent

test('a session is driven over CDP, controls, files and processes as usual', async () => {
  expect(agent()).toMatchObject({ host: '127.0.0.1', certificate: expect.stringContaining('BEGIN CERTIFICATE') as string })
  await session.page.setContent('<title>here</title>')
  expect(await session.page.title()).toBe('here')
  const picture = await cloud.client.browsers.computer.captureScreenshot(session.id)
  expect(Buffer.from(await picture.arrayBuffer()).toString('latin1', 1, 4)).toBe('PNG')
  await cloud.client.browsers.fs.writeFile(session.id, Buffer.from('text'), { path: '/home/kernel/file' })
  const { exit_code, stdout_b64 } = await cloud.client.browsers.process.exec(session.id, { command: 'cat', args: ['/home/kernel/file'] })
  expect([exit_code, Buffer.from(stdout_b64!, 'base64').toString()]).toEqual([0, 'text'])
})

test('programs of the session find neither the credential nor the private key: in processes, memory and files', async () => {
  const hash = hashOf(agent())
  const look = async () => {
    const { stdout_b64, stderr_b64 } = await cloud.client.browsers.process.exec(session.id, {
      command: 'python3',
      args: ['-c', SEARCH, hash],
      timeout_sec: 100,
    })
    expect(Buffer.from(stderr_b64 ?? '', 'base64').toString()).toBe('')
    return Buffer.from(stdout_b64!, 'base64').toString()
  }
  const said = await look()
  expect(said).toMatch(/^seen \d{2,}\n$/)
  // The search finds the secret where the test put it; otherwise its other results would prove nothing.
  await cloud.client.browsers.fs.writeFile(session.id, Buffer.from(agent().credential), { path: '/home/kernel/leaked' })
  expect(await look()).toContain('FOUND /home/kernel/leaked')
  await cloud.client.browsers.fs.deleteFile(session.id, { path: '/home/kernel/leaked' })
})

test('code of an app finds them as little in its sandbox', async () => {
  const source = `
    import Kernel from '@onkernel/sdk'
    import { execFileSync } from 'node:child_process'
    import { writeFileSync } from 'node:fs'
    const app = new Kernel().app('searching')
    app.action('search', async (ctx, { script, hashes, leak }) => {
      if (leak) writeFileSync('/tmp/leaked', leak)
      return { said: execFileSync('python3', ['-c', script, ...hashes], { encoding: 'utf8' }) }
    })`
  const packages = JSON.stringify({ type: 'module', dependencies: { '@onkernel/sdk': '0.84.0' } })
  await deployed(cloud, { files: { 'index.ts': source, 'package.json': packages } })
  // The sandbox of the next run is prepared in advance, so the test knows its secret before the search.
  const sandboxes = () => {
    const root = join(cloud.dataDir, 'runs')
    return new Map(
      readdirSync(root).flatMap((id) => {
        try {
          return [[id, (JSON.parse(readFileSync(join(root, id, 'instance.json'), 'utf8')) as { agent: Agent }).agent] as const]
        } catch {
          return [] // it is being created, or has just been removed
        }
      }),
    )
  }
  const search = async (leaks: boolean) => {
    await until('a sandbox to be ready', HEARD_MS, () => sandboxes().size > 0)
    const known = sandboxes()
    const [first] = [...known.values()]
    const payload = JSON.stringify({ script: SEARCH, hashes: [...known.values()].map(hashOf), ...(leaks && { leak: first!.credential }) })
    const { id, output } = await cloud.client.invocations.create({ app_name: 'searching', action_name: 'search', version: 'latest', payload })
    const [run] = await cloud.query<{ runner_id: string }>('select runner_id from invocations where id = $1', [id])
    // The first sandboxes may belong to the build and to unpacking.
    return known.has(run!.runner_id) ? (JSON.parse(output!) as { said: string }).said : undefined
  }
  const searched = async (leaks: boolean) => {
    for (let run = 0; run < 5; run++) {
      const said = await search(leaks)
      if (said !== undefined) return said
    }
    throw new Error('no run had a sandbox that was made ahead')
  }
  expect(await searched(false)).toMatch(/^seen \d{2,}\n$/)
  expect(await searched(true)).toContain('FOUND /tmp/leaked')
})

test('no command line on the host shows them', () => {
  const { credential } = agent()
  const lines = readdirSync('/proc').flatMap((pid) => {
    try {
      return /^\d+$/.test(pid) ? [readFileSync(`/proc/${pid}/cmdline`, 'utf8')] : []
    } catch {
      return []
    }
  })
  expect(lines.filter((line) => line.includes(credential) || (line.includes('cob') && line.includes('PRIVATE KEY')))).toEqual([])
})

test('the credential does not pass through the agent: not to a site that a request goes to', async () => {
  const heard: IncomingMessage[] = []
  await using site = await serveSockets(
    createServer((request, response) => {
      heard.push(request)
      response.end('ok')
    }),
  )
  await cloud.client.browsers.curl(session.id, { url: `http://host.cob.internal:${site.port}/`, headers: { 'x-mine': '1' } })
  const raw = await cloud.fetch(`/browsers/${session.id}/curl/raw?url=${encodeURIComponent(`http://host.cob.internal:${site.port}/raw`)}`, {
    headers: { 'x-mine': '2' },
  })
  expect(raw.status).toBe(200)
  await until('both requests', HEARD_MS, () => heard.length === 2)
  for (const { rawHeaders } of heard) expect(rawHeaders.join('\n')).not.toMatch(/cob-agent|credential/i)
  expect(heard.map(({ headers }) => headers['x-mine'])).toEqual(['1', '2'])
  expect(heard.flatMap(({ rawHeaders }) => rawHeaders).join('\n')).not.toContain(agent().credential)
})

test('sessions outlive a killed service, and are reached again with the same keys', async () => {
  await cloud.kill()
  await cloud.start()
  const picture = await cloud.client.browsers.computer.captureScreenshot(session.id)
  expect(picture.status).toBe(200)
})
