// The proxies of sessions, over an agent that has only its links and its fit call: changes of the proxy, takeover by another service, the end of the session.
import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { ProxyListener } from '../../../agent/egress/listener.ts'
import { session, SOCKETS, type ProxyFit } from '../../../agent/session/contract.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog } from '../../../base/log.ts'
import { makeForwarder } from '../../../egress/forwarder.ts'
import type { Upstream } from '../../../egress/upstream.ts'
import { call } from '../../../http/client.ts'
import { completeHandshake, mountUpgrades } from '../../../http/upgrade.ts'
import { sharing } from '../../../../test/support/leases.ts'
import { httpProxy, serveSockets } from '../../../../test/support/upstreams.ts'
import type { BrowserRow } from './rows.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import type { DirectWays } from '../../../instances/driver.ts'
import { alone } from '../../../store/leases.ts'
import { makeSessionProxies, type SessionProxyFit } from './session-proxies.ts'

const signal = new AbortController().signal

/** An agent that stores the last setting it got. */
async function agentAlone() {
  const listener = new ProxyListener(200)
  const received: ProxyFit[] = []
  const server = createServer((incoming, reply) => {
    const work = async () => {
      const { proxy } = (await json(incoming)) as { proxy: ProxyFit }
      received.push(proxy)
      if (proxy.on) await listener.open(proxy.links!)
      else listener.close()
      reply.writeHead(204).end()
    }
    void work()
  })
  mountUpgrades(server, silentLog, {
    [SOCKETS.links]: async ({ params, socket }) => listener.link(params.key!, socket, () => completeHandshake(socket, { headers: {} })),
  })
  const served = await serveSockets(server)
  return {
    endpoint: { host: '127.0.0.1', port: served.port },
    received,
    /** The status of a request through the agent's port, made as a browser makes it. */
    status: async (): Promise<number> => {
      const { request } = await import('node:http')
      const asked = request({ host: '127.0.0.1', port: listener.port!, path: 'http://site.test/', agent: false }).end()
      return new Promise((resolve) => asked.on('response', (answer) => resolve(answer.resume().statusCode!)).on('error', () => resolve(0)))
    },
    async [Symbol.asyncDispose]() {
      listener.close()
      await served[Symbol.asyncDispose]()
    },
  }
}

const routingBy = (upstream: Upstream | undefined) => upstream && { upstream, routes: [] }

/** A service that knows all rows. `over` replaces other settings. */
function service(rows: Map<string, Upstream | undefined>, over: Partial<Parameters<typeof makeSessionProxies>[0]> = {}) {
  const forwarder = makeForwarder({ allowHostLoopback: true, logLevel: 'silent', log: silentLog })
  const proxies = makeSessionProxies({
    uses: { hold: () => () => {} },
    leases: alone('this one'),
    holdLinks: async () => {},
    forwarder,
    directWays: undefined,
    routingOf: async ({ id }) => routingBy(rows.get(id)),
    find: async (id) => (rows.has(id) ? ({ id } as BrowserRow) : undefined),
    apiHosts: () => ['api.test:80'],
    log: silentLog,
    ...over,
  })
  return { forwarder, proxies, [Symbol.asyncDispose]: () => forwarder[Symbol.asyncDispose]() }
}

const through = ({ port }: { port: number }): Upstream => ({ protocol: 'http', host: '127.0.0.1', port, bypassHosts: [] })

test('a session uses the proxy of its row; a service that takes it over gives it the same; after its end there is none', async () => {
  await using proxy = await httpProxy({ names: { 'site.test': '127.0.0.1' } })
  await using agent = await agentAlone()
  const id = newId()
  const rows = new Map<string, Upstream | undefined>([[id, through(proxy)]])
  const fit = (body: SessionProxyFit) => call(agent.endpoint, session.fitSession, { body }, { signal })
  {
    await using first = service(rows)
    await first.proxies.fitted({ id } as BrowserRow, agent.endpoint, fit, signal)
    expect(agent.received).toEqual([{ on: true, links: expect.any(String), direct: ['api.test:80'] }])
    await agent.status()
    expect(proxy.asked).toHaveLength(1)
  }
  // Without a service, requests fail. They never take another route.
  expect(await agent.status()).toBe(502)
  await using second = service(rows)
  second.proxies.restore(id, agent.endpoint)
  await expect.poll(() => agent.received.length).toBe(2)
  await agent.status()
  expect(proxy.asked).toHaveLength(2)
  expect(second.proxies.forget.run({ id, reason: 'deleted' }, signal, () => {})).toBeUndefined()
  await expect.poll(agent.status).toBe(502)
  expect(proxy.asked).toHaveLength(2)
})

test('with stealth the agent is told the time zone at the proxy, and its first one again without a proxy or where the zone is not known', async () => {
  await using proxy = await httpProxy()
  await using agent = await agentAlone()
  const [rows, zones] = [new Map<string, Upstream>(), new Map<string, string>()]
  await using only = service(rows, { timeZoneOf: async ({ id }) => zones.get(id) })
  const id = newId()
  const zoneOf = async (stealth: boolean, endpoint: Endpoint = agent.endpoint) => {
    let zone: string | undefined
    const fit = async (received: SessionProxyFit) => void (zone = received.time_zone)
    await only.proxies.fitted({ id, options: { stealth } } as BrowserRow, endpoint, fit, signal)
    return zone
  }
  rows.set(id, through(proxy))
  expect(await zoneOf(true)).toBe('')
  zones.set(id, 'Asia/Tokyo')
  expect([await zoneOf(true), await zoneOf(false)]).toEqual(['Asia/Tokyo', undefined])
  expect(await zoneOf(true, { ...agent.endpoint, older: { version: '1', lacks: ['fitSession.time_zone'] } })).toBeUndefined()
  rows.delete(id)
  expect(await zoneOf(true)).toBe('')
})

test('a session without a proxy starts no program, and one that is taken over is told so', async () => {
  await using agent = await agentAlone()
  const id = newId()
  await using only = service(new Map([[id, undefined]]))
  only.proxies.restore(id, agent.endpoint)
  await expect.poll(() => agent.received).toEqual([{ on: false }])
  expect(only.forwarder.pid()).toBeUndefined()
})

test('an agent of an older version is asked for nothing', async () => {
  await using agent = await agentAlone()
  const id = newId()
  await using only = service(new Map([[id, undefined]]))
  only.proxies.restore(id, { ...agent.endpoint, older: { version: '1', lacks: ['fitSession.proxy'] } })
  await new Promise((resolve) => setTimeout(resolve, 50))
  expect(agent.received).toEqual([])
})

test('changes of one session take effect one after the other', async () => {
  await using first = await httpProxy({ names: { 'site.test': '127.0.0.1' } })
  await using second = await httpProxy({ names: { 'site.test': '127.0.0.1' } })
  await using agent = await agentAlone()
  const id = newId()
  const rows = new Map<string, Upstream | undefined>([[id, through(first)]])
  await using only = service(rows)
  const order: string[] = []
  const fit = (name: string) => async (body: SessionProxyFit) => {
    order.push(`${name} begins`)
    await call(agent.endpoint, session.fitSession, { body }, { signal })
    order.push(`${name} ends`)
  }
  const row = { id } as BrowserRow
  const one = only.proxies.fitted(row, agent.endpoint, fit('first'), signal)
  rows.set(id, through(second))
  await Promise.all([one, only.proxies.fitted(row, agent.endpoint, fit('second'), signal)])
  expect(order).toEqual(['first begins', 'first ends', 'second begins', 'second ends'])
  await agent.status()
  expect([first.asked.length, second.asked.length]).toEqual([0, 1])
})

test("what leads around a session's proxy is closed while its browser turns, and ended after that; it is opened again without one, also by another service", async () => {
  await using proxy = await httpProxy()
  await using agent = await agentAlone()
  const id = newId()
  const rows = new Map<string, Upstream | undefined>([[id, through(proxy)]])
  const order: string[] = []
  let isBroken = false
  const ways: DirectWays = {
    async close(of) {
      if (isBroken) throw new Error('the network is closed')
      order.push(`close ${of === id}`)
      return async () => void order.push('end')
    },
    open: async (of) => void order.push(`open ${of === id}`),
  }
  const fit = async ({ proxy: to }: SessionProxyFit) => {
    await new Promise((resolve) => setImmediate(resolve))
    order.push(`turned ${to.on}`)
  }
  await using first = service(rows, { directWays: ways })
  await first.proxies.fitted({ id } as BrowserRow, agent.endpoint, fit, signal)
  expect(order.splice(0)).toEqual(['close true', 'turned true', 'end'])
  // The caller gets an answer only after all direct routes around the proxy are closed.
  isBroken = true
  await expect(first.proxies.fitted({ id } as BrowserRow, agent.endpoint, fit, signal)).rejects.toThrow('the network is closed')
  await expect.poll(() => order.splice(0)).toEqual(['turned true'])
  rows.set(id, undefined)
  await using second = service(rows, { directWays: ways })
  second.proxies.restore(id, agent.endpoint)
  await expect.poll(() => order).toEqual(['open true'])
})

test('a session that is taken over while the database does not answer gets its proxy when it is back', async () => {
  await using agent = await agentAlone()
  let asked = 0
  const find = async (id: string) => {
    if (++asked <= 30) throw new Error('the database does not answer')
    return { id } as BrowserRow
  }
  const held = { rests: 0 }
  await using only = service(new Map(), { uses: { hold: () => () => void held.rests++ }, find, againMs: 1 })
  only.proxies.restore(newId(), agent.endpoint)
  await expect.poll(() => agent.received).toEqual([{ on: false }])
  await expect.poll(() => held.rests).toBe(1)
})

test('a list of hosts is no matter of an agent that does not answer; with other replicas the agent is told whose links it is to take', async () => {
  await using agent = await agentAlone()
  await using proxy = await httpProxy({ names: { 'site.test': '127.0.0.1' } })
  const row = { id: newId(), lease: 0, state: 'running', options: { network: { allowed_hosts: ['site.test'] } } } as BrowserRow
  const routingOf = async ({ options }: BrowserRow) => ({ ...routingBy(through(proxy))!, allowedHosts: options.network!.allowed_hosts! })
  const of = { routingOf, find: async () => row }
  await using only = service(new Map(), of)
  await only.proxies.fitted(row, agent.endpoint, (body) => call(agent.endpoint, session.fitSession, { body }, { signal }), signal)
  await agent.status()
  expect(proxy.asked).toHaveLength(1)
  row.options.network = { allowed_hosts: ['other.test'] }
  // No agent listens at this address.
  await only.proxies.allow(row, { host: '127.0.0.1', port: 1 }, signal)
  expect(await agent.status()).toBe(403)
  expect(agent.received).toHaveLength(1)
  await using shared = service(new Map(), { ...of, forwarder: only.forwarder, leases: sharing() })
  await shared.proxies.allow(row, agent.endpoint, signal)
  expect(agent.received).toHaveLength(2)
  await expect(shared.proxies.allow(row, { host: '127.0.0.1', port: 1 }, AbortSignal.timeout(300))).rejects.toThrow()
})
