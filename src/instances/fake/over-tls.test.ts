// An agent that is reached by TCP: who may connect to it, and how it is authenticated.
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { STRANGERS } from '../../base/anonymous.ts'
import { newId } from '../../base/ids.ts'
import { silentLog } from '../../base/log.ts'
import { dataPaths } from '../../base/paths.ts'
import { until, within } from '../../base/wait.ts'
import { fetchFrom, upgradeTo, type Endpoint } from '../../http/endpoint.ts'
import { makeServer } from '../../http/server.ts'
import { makeAgentKeys } from '../agent-keys.ts'
import { USUAL_MAX_SCREEN, type Instance } from '../driver.ts'
import { fakeDriver } from './fake.ts'

const { signal } = new AbortController()
const ENDS_MS = 10_000
const SPEC = { viewport: { width: 640, height: 480, refresh_rate: 60 }, maxScreen: USUAL_MAX_SCREEN, apiPorts: [] }
const HANDSHAKE = { 'sec-websocket-version': '13', 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' }

const paths = dataPaths(mkdtempSync(join(tmpdir(), 'cob-tls-')))
const driver = fakeDriver(paths, { overTls: true })
let instance: Instance
let agent: Extract<Endpoint, { host: string }>
beforeAll(async () => {
  instance = await driver.start({ id: newId(), ...SPEC }, signal)
  agent = instance.agent as typeof agent
})
afterAll(async () => {
  await instance[Symbol.asyncDispose]()
  await driver[Symbol.asyncDispose]()
  rmSync(paths.root, { recursive: true })
})

const status = async (endpoint: Endpoint, path: string, headers = {}): Promise<number | undefined> => {
  const response = await fetchFrom(endpoint, { method: 'GET', path, headers }, signal)
  response.resume()
  return response.statusCode
}

test('it answers requests and opens WebSockets with its credential', async () => {
  expect(await status(agent, '/session/status')).toBe(200)
  const { socket } = await upgradeTo(agent, '/session/cdp', HANDSHAKE, signal)
  socket.destroy()
})

test('requests share a connection', async () => {
  const portOf = async () => {
    const response = await fetchFrom(agent, { method: 'GET', path: '/session/status' }, signal)
    const { localPort } = response.socket
    await once(response.resume(), 'close')
    return localPort
  }
  const first = await portOf()
  await expect.poll(portOf).toBe(first)
})

test.each([
  ['no credential', undefined, {}],
  ['an empty one', '', {}],
  ['another one', 'x'.repeat(43), {}],
  ['it in the header of callers', undefined, { authorization: () => `Bearer ${agent.credential}` }],
])('it refuses requests and WebSockets with %s, whatever they ask for', async (_what, credential, headers: Record<string, () => string>) => {
  const { credential: _, ...rest } = agent
  const stranger = { ...rest, ...(credential !== undefined && { credential }) }
  const sent = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value()]))
  for (const path of ['/session/status', '/computer/screenshot', '/nothing']) expect(await status(stranger, path, sent)).toBe(401)
  await expect(upgradeTo(stranger, '/session/cdp', { ...HANDSHAKE, ...sent }, signal)).rejects.toThrow('401')
  await expect(upgradeTo(stranger, '/nothing', { ...HANDSHAKE, ...sent }, signal)).rejects.toThrow('401')
})

test('what another server says in its place is refused before anything is sent', async () => {
  const other = await makeAgentKeys()
  const impostor = { ...agent, ...other.pinned }
  await expect(status(impostor, '/session/status')).rejects.toThrow(/certificate/)
  // Some users set this for other servers.
  vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
  onTestFinished(() => void vi.unstubAllEnvs())
  await expect(status(impostor, '/session/status')).rejects.toThrow(/certificate/)
  await expect(upgradeTo(impostor, '/session/cdp', HANDSHAKE, signal)).rejects.toThrow(/certificate/)
  expect(await status(agent, '/session/status')).toBe(200)
})

test('a client that does not complete its handshake is let go', async () => {
  const { server: keys } = await makeAgentKeys()
  const { app } = makeServer({ log: silentLog, authenticate: async () => undefined, tls: keys, handshakeMs: 50 })
  await app.listen({ host: '127.0.0.1', port: 0 })
  try {
    const client = connect((app.server.address() as AddressInfo).port, '127.0.0.1').resume()
    client.on('error', () => {})
    await within('its end', ENDS_MS, once(client, 'close'))
  } finally {
    await app.close()
  }
})

test('connections of strangers are limited; the one with the credential is served meanwhile, and keeps its connections', async () => {
  const { socket } = await upgradeTo(agent, '/session/cdp', HANDSHAKE, signal)
  const mine = socket.resume()
  // Some strangers send nothing. These would be disconnected later even without a limit. The others complete a handshake, and would stay.
  const strangers = await Promise.all(
    Array.from({ length: 2 * STRANGERS.perAddress }, async (_, at) => {
      const secure = at % 8 !== 0
      const stranger = secure ? connectTls({ host: agent.host, port: agent.port, rejectUnauthorized: false }) : connect(agent.port, agent.host)
      stranger.on('error', () => {}).resume()
      await Promise.race([once(stranger, secure ? 'secureConnect' : 'connect'), once(stranger, 'close')])
      return stranger
    }),
  )
  try {
    const open = () => strangers.filter((stranger) => !stranger.closed).length
    await until('the oldest to be closed', ENDS_MS, () => open() <= STRANGERS.perAddress)
    const { socket } = await upgradeTo(agent, '/session/cdp', HANDSHAKE, signal)
    socket.destroy()
    expect(mine.closed).toBe(false)
  } finally {
    for (const stranger of [...strangers, mine]) stranger.destroy()
  }
})

test('it does not speak without TLS', async () => {
  const client = connect(agent.port, agent.host)
  let said = ''
  client.on('data', (chunk: Buffer) => void (said += chunk.toString('latin1')))
  client.on('error', () => {})
  client.write(`GET /session/status HTTP/1.1\r\nhost: cob\r\ncob-agent-credential: ${agent.credential}\r\n\r\n`)
  await once(client, 'close')
  expect(said).not.toContain('HTTP/')
})
