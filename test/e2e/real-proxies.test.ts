// Sessions through proxy servers that people run: squid, tinyproxy, microsocks (SOCKS5) and proxy-chain, each with a password.
import { createServer as createHttp, type RequestListener } from 'node:http'
import { createServer as createHttps } from 'node:https'
import { networkInterfaces } from 'node:os'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocketServer } from 'ws'
import type { Cloud } from '../support/cloud.ts'
import { tryToLoad } from '../support/pages.ts'
import { hasSquid, REAL_PROXIES } from '../support/real-proxies.ts'
import { openSession, type Session } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { makeCertificates, serveSockets } from '../support/upstreams.ts'

/** An address of this machine that proxies can reach, and that a session without a proxy cannot. */
const HOST = Object.values(networkInterfaces())
  .flatMap((addresses) => addresses ?? [])
  .find(({ family, internal }) => family === 'IPv4' && !internal)?.address

const LOGIN = { username: 'ann', password: 'CANARY-secret' }

let cloud: Cloud
let session: Session
let plain: { port: number }
let secure: { port: number }
const ended = new AsyncDisposableStack()
beforeAll(async () => {
  const answer: RequestListener = ({ url, headers }, reply) =>
    void reply.writeHead(200, { 'content-type': 'text/html' }).end(`${url} for ${headers['proxy-authorization'] ?? 'nobody'}`)
  const [http, https] = [createHttp(answer), createHttps(await makeCertificates(), answer)]
  for (const server of [http, https])
    new WebSocketServer({ server }).on('connection', (socket) => socket.on('message', (data: Buffer) => socket.send(`echo ${data.toString()}`)))
  plain = ended.use(await serveSockets(http, HOST))
  secure = ended.use(await serveSockets(https, HOST))
  cloud = await shareCloud()
  session = await openSession(cloud, { timeout_seconds: 300 })
  const cdp = await session.page.context().newCDPSession(session.page)
  await cdp.send('Security.setIgnoreCertificateErrors', { ignore: true })
})
afterAll(async () => {
  await session[Symbol.asyncDispose]()
  for await (const { id } of cloud.client.proxies.list()) await cloud.client.proxies.delete(id!)
  await cloud[Symbol.asyncDispose]()
  await ended.disposeAsync()
})

const echo = (url: string) =>
  session.page.evaluate(
    (to) =>
      new Promise((resolve) => {
        const socket = new WebSocket(to)
        socket.onopen = () => socket.send('hello')
        socket.onmessage = ({ data }) => resolve(data)
        socket.onerror = () => resolve('an error')
      }),
    url,
  )

/** Lets the session use a proxy with this login. */
async function use(name: keyof typeof REAL_PROXIES, port: number, login: typeof LOGIN): Promise<string> {
  const protocol = (name === 'microsocks' ? 'socks5' : 'http') as 'http'
  const { id } = await cloud.client.proxies.create({ type: 'custom', protocol, config: { host: '127.0.0.1', port, ...login } })
  await cloud.client.browsers.update(session.id, { proxy_id: id! })
  return id!
}

test('without a proxy the site of this test is not reached', async () => {
  await expect(tryToLoad(session.page, `http://${HOST}:${plain.port}/`)).rejects.toThrow('net::ERR_CONNECTION_REFUSED')
})

test.each(Object.entries(REAL_PROXIES).map(([name, start]) => [name as keyof typeof REAL_PROXIES, start] as const))(
  '%s: pages by HTTP and HTTPS, WebSockets; a wrong password is an error that says so',
  async (name, start) => {
    if (name === 'squid') expect(hasSquid(), 'squid is missing: run script/setup with COB_SETUP_TEST=1').toBe(true)
    await using proxy = await start(LOGIN)
    const { page } = session
    await use(name, proxy.port, LOGIN)
    for (const at of [`http://${HOST}:${plain.port}`, `https://${HOST}:${secure.port}`]) {
      await page.goto(`${at}/a`)
      expect(await page.textContent('body')).toBe('/a for nobody')
      expect(await echo(at.replace('http', 'ws'))).toBe('echo hello')
      const answers = await page.evaluate(() => Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map((n) => fetch(`/${n}`).then((answer) => answer.text()))))
      expect(answers).toEqual([1, 2, 3, 4, 5, 6, 7, 8].map((n) => `/${n} for nobody`))
    }
    const wrong = await use(name, proxy.port, { ...LOGIN, password: 'not this one' })
    const refused = await tryToLoad(page, `http://${HOST}:${plain.port}/b`).then(
      ({ answer }) => `${answer.status()} ${answer.headers()['x-kernel-proxy-error']}`,
      (error: Error) => /net::\w+/.exec(error.message)![0],
    )
    // tinyproxy answers 401, which could come from the site, so Cob passes it to the page unchanged.
    expect(refused).toBe(name === 'tinyproxy' ? 'net::ERR_INVALID_AUTH_CREDENTIALS' : '502 credentials')
    await expect(tryToLoad(page, `https://${HOST}:${secure.port}/b`)).rejects.toThrow('ERR_TUNNEL_CONNECTION_FAILED')
    // The check asks the proxy for a connection elsewhere. The proxy refuses the password before it connects.
    expect(await cloud.client.proxies.check(wrong)).toMatchObject({
      status: 'unavailable',
      status_reason: 'the proxy does not accept the user name and the password',
    })
  },
)
