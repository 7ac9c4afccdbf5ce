// The body of a caller's request never becomes another call to the session's agent, whatever its headers say about its length.
import { createServer, type Server } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../src/base/wait.ts'
import { startFastCloud, type FastCloud, type Session } from './support/fast-cloud.ts'
import { hostileDriver } from './support/hostile-driver.ts'
import { say } from './support/raw-http.ts'

/** A caller is done when the connection has been silent for this long. */
const QUIET_MS = 300
const SOON_MS = 5_000

const hostile = hostileDriver()
/** The calls that arrive at the agent, as Node's parser reads them, each with its body. */
let seen: { call: string; body: string }[] = []
let agent: Server
let cloud: FastCloud
let session: Session
beforeAll(async () => {
  cloud = await startFastCloud({}, hostile.drive)
  session = await cloud.create({ timeout_seconds: 3600 })
  agent = createServer((request, response) => {
    const one = { call: `${request.method} ${decodeURIComponent(request.url!)}`, body: '' }
    seen.push(one)
    request.on('data', (chunk: Buffer) => (one.body += chunk.toString('latin1')))
    // A stream stays open, as the agent's streams do.
    if (request.url!.includes('/stream')) response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': here\n\n')
    else request.on('end', () => response.setHeader('content-type', 'application/json').end('{"x":1,"y":2}'))
  })
  hostile.takeOver(session.session_id, (socket, head) => {
    socket.unshift(Buffer.from(head, 'latin1'))
    agent.emit('connection', socket)
  })
  for (const [call] of CALLS.filter(([one]) => one.startsWith('POST'))) await cloud.send('POST', `/browsers/${session.session_id}${call.split(' ')[1]!}`, {})
})
afterAll(async () => {
  hostile.release(session.session_id)
  agent.closeAllConnections()
  await until('the exchanges to end', SOON_MS, () => hostile.held() === 0)
  await cloud[Symbol.asyncDispose]()
})

const SECOND = 'POST /process/exec HTTP/1.1\r\nhost: cob\r\ncontent-type: application/json\r\ncontent-length: 20\r\n\r\n{"command":"/bin/id"}'
const chunked = `${SECOND.length.toString(16)}\r\n${SECOND}\r\n0\r\n\r\n`
const LENGTH = `content-length: ${SECOND.length}`
const FRAMES: [name: string, headers: string[], body: string][] = [
  ['in chunks', ['transfer-encoding: chunked'], chunked],
  ['in chunks, which are called a matter of the connection', ['transfer-encoding: chunked', 'connection: keep-alive, transfer-encoding'], chunked],
  ['of a length', [LENGTH], SECOND],
  ['of a length, which is called a matter of the connection', [LENGTH, 'connection: keep-alive, content-length'], SECOND],
  ['of a length, with an upgrade that is none', [LENGTH, 'connection: content-length, upgrade', 'upgrade: h2c'], SECOND],
  ['of a length, after leave to continue', [LENGTH, 'expect: 100-continue', 'connection: content-length, expect'], SECOND],
]
const CALLS: [call: string, inside: string][] = [
  ['GET /telemetry/stream', 'GET /telemetry/stream'],
  ['GET /fs/list_files?path=/tmp', 'GET /fs/list_files?path=/tmp'],
  ['GET /logs/stream?source=path&path=/tmp/x', 'GET /logs/stream?source=path&path=/tmp/x'],
  ['DELETE /replays/x', ''],
  ['POST /computer/get_mouse_position', 'POST /computer/get_mouse_position'],
  ['PUT /fs/write_file?path=/tmp/x', 'PUT /fs/write_file?path=/tmp/x'],
]

test.each(CALLS.flatMap(([call, inside]) => FRAMES.map(([name, headers, body]) => ({ call, inside, name, headers, body }))))(
  '$call with a body $name',
  async ({ call, inside, headers, body }) => {
    seen = []
    const [method, path] = call.split(' ') as [string, string]
    const head = [
      `${method} /browsers/${session.session_id}${path} HTTP/1.1`,
      `host: ${new URL(cloud.url).host}`,
      `authorization: Bearer ${cloud.key}`,
      ...headers,
    ]
    const said = await say(cloud.url, Buffer.from([...head, '', body].join('\r\n')), QUIET_MS)
    expect(said.toString('latin1', 0, 9)).toBe('HTTP/1.1 ')
    // Only the call itself arrives. A call that takes a body gets it as a body.
    expect(seen.filter((one) => one.call !== inside)).toEqual([])
    expect(seen.length).toBeLessThanOrEqual(1)
    for (const one of seen) expect([one.call, one.body]).toEqual([one.call, /^(POST|PUT)/.test(method) ? one.body : ''])
    // The service's kept connection to the agent serves the next call.
    seen = []
    expect((await cloud.send('POST', `/browsers/${session.session_id}/computer/get_mouse_position`, {})).status).toBe(200)
    expect(seen.map((one) => one.call)).toEqual(['POST /computer/get_mouse_position'])
  },
)
