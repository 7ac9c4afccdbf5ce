// The service as a whole: behaviour for every caller before the rules of a group apply.
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { conforms } from '../../test/support/contract.ts'
import { fastCloud, startFastCloud } from '../../test/support/fast-cloud.ts'
import { readConfig } from '../base/config.ts'
import { silentLog } from '../base/log.ts'
import { startControlPlane } from './main.ts'

const START_MS = 60_000
const MAX_JSON_BYTES = 1024 * 1024

const cloud = fastCloud()

async function refused(answer: Promise<Response>): Promise<{ status: number; code: string; message: string; headers: Headers }> {
  const response = await answer
  const body = (await response.json()) as { code: string; message: string }
  conforms('ErrorModel', body)
  expect(response.headers.get('x-request-id')).toMatch(/^[\w.-]{1,100}$/)
  return { status: response.status, code: body.code, message: body.message, headers: response.headers }
}

describe('a caller', () => {
  test.each([
    ['GET', '/nothing'],
    ['POST', '/browsers/abc'],
    ['GET', '/browsers/abc/computer/screenshot'],
    ['POST', '/browsers/abc/computer/nothing'],
    ['GET', '/browsers/abc/session/status'],
    ['POST', '/session/fit'],
    ['GET', '/v1/browsers'],
  ])('of %s %s, which does not exist, gets 404 or 405', async (method, path) => {
    expect([404, 405]).toContain((await refused(cloud.fetch(path, { method }))).status)
  })

  test('with the right path and the wrong method gets 405 with the allowed methods', async () => {
    const allow = async (method: string, path: string) => {
      const { status, headers } = await refused(cloud.fetch(path, { method }))
      return [status, headers.get('allow')]
    }
    expect(await allow('PUT', '/browsers')).toEqual([405, 'POST, GET, HEAD'])
    expect(await allow('POST', '/browsers/abc')).toEqual([405, 'GET, PATCH, DELETE, HEAD'])
    expect(await allow('GET', '/browsers/abc/computer/screenshot')).toEqual([405, 'POST'])
    expect(await allow('PUT', '/deployments/abc')).toEqual([405, 'GET, DELETE, HEAD'])
  })

  test('whose body is broken, not JSON or too large gets an error that says which', async () => {
    const { session_id } = await cloud.create()
    const paths = [
      ['POST', '/browsers'],
      ['PATCH', `/browsers/${session_id}`],
      ['POST', `/browsers/${session_id}/computer/screenshot`],
      ['POST', `/browsers/${session_id}/computer/drag_mouse`],
    ] as const
    for (const [method, path] of paths) {
      const send = (body: RequestInit['body'], type = 'application/json') => refused(cloud.fetch(path, { method, body, headers: { 'content-type': type } }))
      expect(await send('{"a":')).toMatchObject({ status: 400, message: expect.stringMatching(/^body: is not valid JSON/) as string })
      expect(await send('[]')).toMatchObject({ status: 400 })
      expect(await send('{}', 'text/plain')).toMatchObject({ status: 400, message: 'content-type: must be application/json' })
      expect(await send(new Uint8Array([0x7b, 0xff, 0x7d]))).toMatchObject({ status: 400 })
      expect(await send(JSON.stringify({ name: 'x'.repeat(7 * MAX_JSON_BYTES) }))).toMatchObject({ status: 413, code: 'payload_too_large' })
    }
  })

  test('gets its request id back, also from a forwarded call and from a failed one', async () => {
    const { session_id } = await cloud.create()
    for (const [method, path] of [
      ['GET', '/health'],
      ['GET', '/browsers'],
      ['GET', '/nothing'],
      ['POST', `/browsers/${session_id}/computer/screenshot`],
      ['POST', '/browsers/abc/computer/screenshot'],
    ] as const) {
      const response = await cloud.fetch(path, { method, headers: { 'x-request-id': 'mine-42' } })
      expect([path, response.headers.get('x-request-id')]).toEqual([path, 'mine-42'])
    }
  })

  test('gets URLs with the address that it used', async () => {
    const { port } = new URL(cloud.url)
    const response = await fetch(`http://localhost:${port}/browsers`, { method: 'POST', headers: { authorization: `Bearer ${cloud.key}` } })
    const session = (await response.json()) as { base_url: string; cdp_ws_url: string; session_id: string }
    expect([session.base_url, session.cdp_ws_url.split('?')[0]]).toEqual([
      `http://localhost:${port}/browser/session/${session.session_id}`,
      `ws://localhost:${port}/browsers/${session.session_id}/cdp`,
    ])
  })
})

describe('a service', () => {
  test('behind a proxy returns its public address in URLs, with TLS for WebSockets', async () => {
    await using behind = await startFastCloud({ COB_PUBLIC_URL: 'https://browsers.example.com', COB_WARM_BROWSERS: '0' }).then((made) => ({
      ...made,
      address: made.url,
      [Symbol.asyncDispose]: () => made[Symbol.asyncDispose](),
    }))
    expect(behind.address).toBe('https://browsers.example.com')
  })

  test('whose port is in use fails with the name of the setting, and leaves nothing behind', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const dataDir = mkdtempSync(join(tmpdir(), 'cob-fast-'))
    try {
      const config = readConfig({ COB_DATA_DIR: dataDir, COB_DRIVER: 'fake', COB_PORT: String((taken.address() as { port: number }).port) })
      await expect(startControlPlane(config, silentLog, AbortSignal.timeout(START_MS))).rejects.toThrow(
        new RegExp(`^COB_PORT: port \\d+ on 127.0.0.1 is in use by process ${process.pid} \\(`),
      )
      expect(() => readFileSync(join(dataDir, 'postgres/postmaster.pid'))).toThrow('ENOENT')
    } finally {
      taken.close()
      rmSync(dataDir, { recursive: true, force: true })
    }
  })

  test('that cannot show others that it runs fails, and does not wait for itself', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'cob-start-'))
    try {
      mkdirSync(join(dataDir, 'service.sock'))
      const config = readConfig({ COB_DATA_DIR: dataDir, COB_DRIVER: 'fake', COB_PORT: '0' })
      await expect(startControlPlane(config, silentLog, AbortSignal.timeout(START_MS))).rejects.toThrow(/service\.sock/)
    } finally {
      rmSync(dataDir, { recursive: true, force: true })
    }
  })

  test('does not start beside another one with the same data, and does not disturb it', async () => {
    const config = readConfig({ COB_DATA_DIR: cloud.paths.root, COB_DRIVER: 'fake', COB_PORT: '0' })
    await expect(startControlPlane(config, silentLog, AbortSignal.timeout(START_MS))).rejects.toThrow('another Cob runs with this data directory already')
    expect((await cloud.fetch('/health')).status).toBe(200)
    await cloud.create()
  })

  test('that starts again with the same data keeps its key and its sessions', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'cob-fast-'))
    const start = () => startControlPlane(readConfig({ COB_DATA_DIR: dataDir, COB_DRIVER: 'fake', COB_PORT: '0' }), silentLog, AbortSignal.timeout(START_MS))
    const headers = (key: string) => ({ authorization: `Bearer ${key}` })
    try {
      const first = await start()
      expect(first.key.isNew).toBe(true)
      const { session_id } = (await (await fetch(`${first.url}/browsers`, { method: 'POST', headers: headers(first.key.value) })).json()) as {
        session_id: string
      }
      await first[Symbol.asyncDispose]()
      await using second = await start()
      expect(second.key).toMatchObject({ value: first.key.value, isNew: false })
      const found = await fetch(`${second.url}/browsers/${session_id}?include_deleted=true`, { headers: headers(second.key.value) })
      expect([found.status, ((await found.json()) as { deleted_at?: string }).deleted_at]).toEqual([200, expect.any(String)])
    } finally {
      rmSync(dataDir, { recursive: true, force: true })
    }
  })
})
