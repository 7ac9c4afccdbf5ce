// The API as tools call it, against a server with any answer that a program in a sandbox may invent.
import type { FastifyRequest } from 'fastify'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterEach, expect, test } from 'vitest'
import { computer } from '../../../agent/computer/contract.ts'
import { processes } from '../../../agent/process/contract.ts'
import { browsers, type Browser } from '../../sessions/browsers/contract.ts'
import { apiFor, inSession, refusalOf, type Api } from './api.ts'
import { computerAction } from './tools/computer.ts'
import { execCommand } from './tools/inside.ts'

let server: Server
afterEach(() => server.close())

const HEADERS = {
  host: 'cob.example',
  authorization: 'Bearer key',
  cookie: 'a=b',
  'x-forwarded-for': '192.0.2.9',
  'x-request-id': 'abc',
  'x-secret': 'not passed on',
  connection: 'keep-alive',
}

/** The API at a server that answers every request with this. */
function api(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  headers: Record<string, string> = HEADERS,
  signal = new AbortController().signal,
): Api {
  server = createServer(answer)
  const request = { headers, raw: { socket: { remoteAddress: '192.0.2.7' } } } as unknown as FastifyRequest
  return apiFor(server, request, signal)
}
const says = (status: number, body: string | Buffer) => (_request: IncomingMessage, response: ServerResponse) => response.writeHead(status).end(body)
const run = { command: 'true' }
const exec = (of: Api) => of.call(inSession(processes.execProcess), { params: { id: 's' }, body: run })
const reason = (of: Api) =>
  exec(of).then(String, (error: Error) => {
    const { code, message } = refusalOf(error) ?? { code: undefined, message: error.message }
    return `${code}: ${message}`
  })

test('a call carries who its caller is, and nothing else of the request', async () => {
  const seen: { url: string | undefined; headers: IncomingMessage['headers']; from: string | undefined; body: string }[] = []
  const of = api((request, response) => {
    void text(request).then((body) => {
      seen.push({ url: request.url, headers: request.headers, from: request.socket.remoteAddress, body })
      response.setHeader('x-has-more', 'true').setHeader('x-next-offset', '7').end('[]')
    })
  })
  expect(await of.call(browsers.listBrowsers, { query: { limit: 5, query: 'a b&c' } })).toEqual({ items: [], nextOffset: 7 })
  const { connection: _, host, ...headers } = seen[0]!.headers
  expect(host).toBe('cob.example')
  expect(headers).toEqual({ accept: 'application/json', authorization: 'Bearer key', cookie: 'a=b', 'x-forwarded-for': '192.0.2.9', 'x-request-id': 'abc' })
  expect([seen[0]!.url, seen[0]!.from, seen[0]!.body]).toEqual(['/browsers?limit=5&query=a%20b%26c', '192.0.2.7', ''])
  await of.forProject('Ü').call(browsers.listBrowsers, { query: {} })
  expect(Buffer.from(seen[1]!.headers['x-kernel-project'] as string, 'latin1').toString()).toBe('Ü')
})

test('the project of a connection is not replaced by that of a call: both are sent, and the API refuses what differs', async () => {
  let seen: IncomingMessage['headers'] = {}
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    seen = request.headers
    response.end('[]')
  }
  await api(answer, { 'x-kernel-project': 'fixed' }).forProject('other').call(browsers.listBrowsers, { query: {} })
  expect([seen['x-kernel-project'], seen['x-kernel-project-id']]).toEqual(['fixed', 'other'])
})

test('a name in a path stays one part of it', async () => {
  let path: string | undefined
  const of = api((request, response) => {
    path = request.url
    response.writeHead(404).end('{"code":"not_found","message":"no"}')
  })
  await expect(of.call(inSession(computer.readClipboard), { params: { id: '../../org/api_keys?x=#y' } })).rejects.toThrow('no')
  expect(path).toBe('/browsers/..%2F..%2Forg%2Fapi_keys%3Fx%3D%23y/computer/clipboard/read')
})

test('what is no answer of the call is refused, of bounded length', async () => {
  expect(await reason(api(says(200, '<html>')))).toMatch(/^bad_gateway: execProcess .* gave an answer that the route does not have: it is not JSON$/)
  server.close()
  expect(await reason(api(says(200, '{"exit_code":"0"}')))).toMatch(
    /^bad_gateway: execProcess .* gave an answer that the route does not have: exit_code: expected /,
  )
  server.close()
  expect(await reason(api(says(200, `[${'0,'.repeat(300_000)}0]`)))).toMatch(/^bad_gateway: .* it has more than 200000 values/)
  server.close()
  expect(await reason(api(says(200, Buffer.alloc(25 * 1024 * 1024, 'a'))))).toMatch(/^bad_gateway: .* it has more than 25165824 bytes/)
  server.close()
  expect(await reason(api((_request, response) => response.writeHead(200, { 'content-length': '9' }).write('{', () => response.destroy())))).toEqual(
    expect.stringMatching(/^bad_gateway: execProcess .* broke off/),
  )
  server.close()
  expect((await reason(api(says(500, JSON.stringify({ code: 'a] [code: forged', message: 'm'.repeat(50_000) }))))).length).toBeLessThan(2_100)
  server.close()
  expect(await reason(api(says(502, 'nonsense')))).toBe('internal_error: nonsense')
})

test('a tool tells a refusal in one line with its code, whatever the message says', async () => {
  const of = api(says(403, JSON.stringify({ code: 'forbidden', message: 'viewers only look on' })))
  const { isError, content } = await execCommand.call({ session_id: 's', ...run }, of)
  expect([isError, content]).toEqual([true, [{ type: 'text', text: 'Error in exec_command: viewers only look on [code: forbidden]' }]])
})

const SESSION: Browser = {
  session_id: 's',
  created_at: new Date(0).toISOString(),
  cdp_ws_url: '',
  webdriver_ws_url: '',
  timeout_seconds: 60,
  headless: false,
  stealth: false,
  kiosk_mode: false,
  region: 'us-east',
  memory: '1GiB',
  viewport: { width: 1, height: 1, refresh_rate: 1 },
  telemetry: null,
  usage: { uptime_ms: 1 },
}

test('only a PNG of bounded size is passed on as a picture', async () => {
  const shoot = (body: Buffer) =>
    computerAction.call(
      { session_id: 's', actions: [{ type: 'screenshot', screenshot: null, click_mouse: null }] },
      api((request, response) => response.end(request.method === 'GET' ? JSON.stringify(SESSION) : body)),
    )
  const png = Buffer.from('89504e470d0a1a0a', 'hex')
  expect((await shoot(png)).content.at(-1)).toEqual({ type: 'image', data: png.toString('base64'), mimeType: 'image/png' })
  server.close()
  expect((await shoot(Buffer.from('<svg onload=alert(1)>'))).content).toEqual([
    { type: 'text', text: expect.stringContaining('is no picture [code: bad_gateway]') },
  ])
  server.close()
  expect((await shoot(Buffer.concat([png, Buffer.alloc(9 * 1024 * 1024)]))).content).toEqual([
    { type: 'text', text: expect.stringContaining('ask for a region') },
  ])
})
