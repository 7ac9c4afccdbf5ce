// Calls to the pools of a service with fake browsers, and a relay in front of each agent, for the tests of this file's importer.
import { createServer, request as requestTo } from 'node:http'
import { connect } from 'node:net'
import { once } from 'node:events'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { startFastCloud, type FastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import type { DataPaths } from '../../../base/paths.ts'
import { until } from '../../../base/wait.ts'
import type { Driver, Instance } from '../../../instances/driver.ts'
import { fakeDriver } from '../../../instances/fake/fake.ts'
import type { BrowserPool } from './contract.ts'

/** Timeout for a pool to reach an expected state. */
export const FILL_MS = 20_000

/** The service of the tests in this file; its pools are deleted after each test. */
export let cloud: FastCloud

export function usePools(env: Record<string, string> = {}, drive?: (paths: DataPaths) => Driver): void {
  beforeAll(async () => void (cloud = await startFastCloud({ COB_WARM_BROWSERS: '0', ...env }, drive)))
  afterAll(() => cloud[Symbol.asyncDispose]())
  afterEach(async () => {
    for (const { id } of await list()) await remove(id)
    // Their browsers keep their seats until the end is complete.
    await until('the end of all pools', FILL_MS, async () => !(await cloud.query(`select 1 from browsers where pool_id is not null and state <> 'deleted'`))[0])
  })
}

/** The parsed body of an answer. @throws when its status is another one */
export async function json<T>(response: Response, status = 200): Promise<T> {
  const body = await response.text()
  if (response.status !== status) throw new Error(`answered ${response.status}: ${body}`)
  return (body === '' ? undefined : JSON.parse(body)) as T
}

/** The status and the message of an error. */
export const refusal = async (response: Response): Promise<[number, string]> => [response.status, ((await response.json()) as { message: string }).message]

export const list = async (query = ''): Promise<BrowserPool[]> => json(await cloud.fetch(`/browser_pools?${query}`))
export const send = (body: object): Promise<Response> => cloud.send('POST', '/browser_pools', body)
export const create = async (body: object): Promise<BrowserPool> => json(await send(body))
export const get = async (pool: string): Promise<BrowserPool> => json(await cloud.fetch(`/browser_pools/${pool}`))
export const change = (pool: string, body: object): Promise<Response> => cloud.send('PATCH', `/browser_pools/${pool}`, body)
export const update = async (pool: string, body: object): Promise<BrowserPool> => json(await change(pool, body))
export const remove = async (pool: string): Promise<void> => json(await cloud.send('DELETE', `/browser_pools/${pool}`, { force: true }), 204)
export const ask = (pool: string, body: object = {}): Promise<Response> => cloud.send('POST', `/browser_pools/${pool}/acquire`, body)
export const acquire = async (pool: string, body: object = {}): Promise<Session> => json(await ask(pool, body))
export const giveBack = (pool: string, session_id: string, reuse?: boolean): Promise<Response> =>
  cloud.send('POST', `/browser_pools/${pool}/release`, { session_id, ...(reuse !== undefined && { reuse }) })
export const release = async (pool: string, session: Session, reuse?: boolean): Promise<void> => json(await giveBack(pool, session.session_id, reuse), 204)

/** How many browsers of a pool callers have, and how many wait. */
export const counts = async (pool: string): Promise<[acquired: number, available: number]> => {
  const { acquired_count: acquired, available_count: available } = await get(pool)
  return [acquired, available]
}

/** Resolves when callers have `acquired` browsers of a pool, and `available` are idle. */
export const settled = (pool: string, acquired: number, available: number): Promise<unknown> =>
  until(`${acquired} acquired and ${available} available browsers`, FILL_MS, async () => (await counts(pool)).join() === `${acquired},${available}`)

/** A pool that is full. */
export async function filled(body: { size: number; [field: string]: unknown }): Promise<BrowserPool> {
  const pool = await create(body)
  await settled(pool.id, 0, body.size)
  return pool
}

/** The ids of the idle browsers of a pool, longest idle first. */
export const idle = async (pool: string): Promise<string[]> =>
  (await cloud.query<{ id: string }>(`select id from browsers where pool_id = $1 and state = 'warm' order by made_at`, [pool])).map(({ id }) => id)

export const clipboard = {
  write: async ({ session_id: id }: Session, said: string): Promise<void> =>
    json(await cloud.send('POST', `/browsers/${id}/computer/clipboard/write`, { text: said })),
  read: async ({ session_id: id }: Session): Promise<string> =>
    (await json<{ text: string }>(await cloud.fetch(`/browsers/${id}/computer/clipboard/read`, { method: 'POST' }))).text,
}

/** A call of the service to an agent. */
export interface AgentCall {
  id: string
  path: string
  body: string
}

/** A driver whose agents answer through a relay, which records the calls and can delay them. */
export interface Relayed {
  drive: (paths: DataPaths) => Driver
  /** Oldest first. */
  calls: AgentCall[]
  /** Called before a call is forwarded to its agent. If it rejects, the call is answered with a 503. */
  before: (call: AgentCall) => Promise<void> | void
}

export function relayed(): Relayed {
  const relay: Relayed = {
    calls: [],
    before() {},
    drive(paths) {
      const driver = fakeDriver(paths)
      const start: Driver['start'] = async (...given) => behindRelay(await driver.start(...given), paths, relay)
      return Object.assign(Object.create(driver) as Driver, { start })
    },
  }
  return relay
}

async function behindRelay(instance: Instance, paths: DataPaths, relay: Relayed): Promise<Instance> {
  const to = (instance.agent as { socketPath: string }).socketPath
  const server = createServer((incoming, reply) => {
    const work = async () => {
      const body = await buffer(incoming)
      const call = { id: instance.id, path: incoming.url!, body: body.toString() }
      relay.calls.push(call)
      await relay.before(call)
      const { 'transfer-encoding': _, ...headers } = incoming.headers
      const sent = requestTo({
        socketPath: to,
        method: incoming.method,
        path: incoming.url,
        headers: { ...headers, 'content-length': body.length },
      })
      sent.on('response', (answer) => answer.pipe(reply.writeHead(answer.statusCode!, answer.headers)))
      sent.on('error', () => reply.destroy())
      sent.end(body)
    }
    work().catch(() => reply.writeHead(503).end('{"code":"unavailable","message":"held up"}'))
  })
  server.on('upgrade', (incoming, socket, head) => {
    const other = connect(to, () => {
      const headers = incoming.rawHeaders.reduce((all, word, at) => all + word + (at % 2 === 0 ? ': ' : '\r\n'), '')
      other.write(`${incoming.method} ${incoming.url} HTTP/1.1\r\n${headers}\r\n`)
      other.write(head)
      socket.pipe(other).pipe(socket)
    })
    for (const [one, peer] of [
      [socket, other],
      [other, socket],
    ] as const)
      one.on('error', () => peer.destroy()).on('close', () => peer.destroy())
  })
  const socketPath = join(paths.instance(instance.id), 'relay.sock')
  server.listen(socketPath)
  await once(server, 'listening')
  return Object.assign(Object.create(instance) as Instance, {
    agent: { ...instance.agent, socketPath },
    exited: instance.exited,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await instance[Symbol.asyncDispose]()
    },
  })
}
