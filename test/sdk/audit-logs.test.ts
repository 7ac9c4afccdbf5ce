// The published SDK with a running service: the audit log of a session, and its download.
import Kernel from '@onkernel/sdk'
import { createHash, randomBytes } from 'node:crypto'
import { gunzipSync } from 'node:zlib'
import type { AuditLogEntry } from '@onkernel/sdk/resources/audit-logs'
import { once } from 'node:events'
import { chromium } from 'playwright-core'
import { expect, test } from 'vitest'
import WebSocket from 'ws'
import { until } from '../../src/base/wait.ts'
import { conforms } from '../support/contract.ts'
import { forTests } from '../support/for-tests.ts'
import { processesOf } from '../support/inside.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const cloud = forTests(() => shareCloud({ COB_WARM_BROWSERS: '1' }))

/** A range from one hour ago to one hour ahead. */
const around = () => ({ start: new Date(Date.now() - 3600_000).toISOString(), end: new Date(Date.now() + 3600_000).toISOString() })

async function found(query: Parameters<typeof cloud.client.auditLogs.list>[0]): Promise<AuditLogEntry[]> {
  const entries: AuditLogEntry[] = []
  for await (const entry of cloud.client.auditLogs.list(query)) {
    conforms('AuditLogEntry', entry)
    entries.push(entry)
  }
  return entries
}

const short = ({ method, path, status, auth_strategy }: AuditLogEntry): string => `${auth_strategy} ${method} ${path} ${status}`

test("a session's life can be read in the log, with its sockets, by whom each call was made", async () => {
  const { client } = cloud
  const { session_id: id, cdp_ws_url, browser_live_view_url } = await client.browsers.create({ timeout_seconds: 300 })
  await client.browsers.computer.clickMouse(id, { x: 10, y: 10 })
  const playwright = await chromium.connectOverCDP(cdp_ws_url)
  await playwright.close()
  const viewer = new WebSocket(`${browser_live_view_url!.replace(/^http/, 'ws')}/socket`, 'binary')
  await once(viewer, 'open')
  viewer.close()
  // The caller disconnects while the command runs.
  const leaving = new AbortController()
  const left = expect(client.browsers.process.exec(id, { command: 'sleep', args: ['4711'] }, { signal: leaving.signal })).rejects.toThrow()
  await until('the command', 20_000, () => processesOf(cloud, id).some(({ command }) => command.startsWith('sleep 4711')))
  leaving.abort()
  await left
  await client.browsers.deleteByID(id)
  const all = { ...around(), search: id }
  // A result follows its request. The result of a disconnected caller comes when its connection has closed here.
  await expect
    .poll(async () => (await found(all)).toReversed().map(short))
    .toEqual([
      expect.stringMatching(`^(api_key POST /browsers/${id}|session POST /browser/session/${id})/computer/click_mouse 200$`),
      // Playwright asks an http address for the browser's address first; with wss it does not.
      `session GET /browsers/${id}/cdp 101`,
      'link GET /browser/live/… 101',
      expect.stringMatching(`/process/exec 499$`),
      `api_key DELETE /browsers/${id} 204`,
    ])
  expect((await found({ ...around(), search: id, method: 'DELETE' })).map(short)).toEqual([`api_key DELETE /browsers/${id} 204`])
  expect((await found({ ...around(), search: id, exclude_method: ['GET', 'DELETE'] })).every(({ method }) => method === 'POST')).toBe(true)
})

test('secrets of a session, and of what is done in it, are neither in the log of the service nor in the audit log', async () => {
  const { client } = cloud
  const canary = () => `canary${randomBytes(12).toString('hex')}`
  const [typed, written, argument, variable, header] = [canary(), canary(), canary(), canary(), canary()]
  const created = await client.apiKeys.create({ name: 'canaries' })
  const mine = new Kernel({ apiKey: created.key, baseURL: cloud.url, defaultHeaders: { 'X-Canary': header } })
  const { session_id: id, cdp_ws_url, browser_live_view_url } = await mine.browsers.create({ timeout_seconds: 300 })
  await mine.browsers.computer.typeText(id, { text: typed })
  await mine.browsers.fs.writeFile(id, Buffer.from('x'), { path: `/tmp/${written}` })
  await mine.browsers.process.exec(id, { command: 'true', args: [argument], env: { SECRET: variable } })
  await expect(mine.browsers.process.exec(id, { command: 'true', nonsense: argument } as never)).rejects.toThrow()
  await fetch(browser_live_view_url!)
  await mine.browsers.deleteByID(id)
  await client.apiKeys.delete(created.id)
  const tokens = [new URL(cdp_ws_url).searchParams.get('jwt')!, new URL(browser_live_view_url!).pathname.split('/').at(-1)!]
  const chunk = await (await client.auditLogs.exportChunk({ ...around(), format: 'jsonl' })).text()
  const rows = await cloud.query<{ text: string }>('select audit_log::text as text from audit_log')
  const everything = [chunk, cloud.log(), ...rows.map(({ text }) => text)].join('\n')
  expect(everything).toContain(created.id)
  for (const secret of [created.key, cloud.key, typed, written, argument, variable, header, ...tokens]) expect(everything).not.toContain(secret)
})

test('pages follow each other, and the download helper gets the same entries in verified chunks', async () => {
  const { client } = cloud
  for (let i = 0; i < 25; i++) await client.browsers.retrieve(`none-${i}`).catch(() => {})
  const end = new Date(Date.now() + 1).toISOString()
  const window = { ...around(), end, search: '/browsers/none-' }
  const listed = await found({ ...window, limit: 10 })
  expect(new Set(listed.map(({ path }) => path))).toEqual(new Set(Array.from({ length: 25 }, (_, i) => `/browsers/none-${i}`)))
  const chunks: Uint8Array[] = []
  const progress: number[] = []
  const result = await client.auditLogs.download(
    { ...window, limit: 10 },
    { write: (chunk) => void chunks.push(chunk) },
    { maxTransferRetries: 0, onProgress: ({ chunkRows }) => void progress.push(chunkRows) },
  )
  const file = Buffer.concat(chunks)
  expect(result).toEqual({ bytesWritten: file.length, chunks: 3, rows: 25 })
  expect(progress).toEqual([10, 10, 5])
  // The chunks, joined in order, are one gzip file.
  const lines = gunzipSync(file).toString().trimEnd().split('\n')
  expect(lines.map((line) => JSON.parse(line) as AuditLogEntry)).toEqual(listed)
  const chunk = await client.auditLogs.exportChunk({ ...window, format: 'jsonl' })
  const body = Buffer.from(await chunk.arrayBuffer())
  expect(chunk.headers.get('x-content-sha256')).toBe(createHash('sha256').update(body).digest('hex'))
  expect(body.toString().trimEnd().split('\n')).toEqual(lines)
})
