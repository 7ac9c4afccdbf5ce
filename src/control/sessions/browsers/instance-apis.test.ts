// Calls of a session's tools over the fake browser: which part of a URL reaches the agent, and how many calls may run at the same time.
import { beforeAll, expect, test } from 'vitest'
import { answersIn, say } from '../../../../test/support/raw-http.ts'
import { fastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { hostileDriver } from '../../../../test/support/hostile-driver.ts'
import { until } from '../../../base/wait.ts'
import { innerPath } from './instance-apis.ts'

const PATIENCE_MS = 2_000
const FULL = 256

const agents = hostileDriver()
let session: Session
const cloud = fastCloud({}, agents.drive)
beforeAll(async () => {
  session = await cloud.create({ timeout_seconds: 3600 })
})

/** Requests a file by a URL that is sent byte for byte. The fake agent has no files and names the file that was requested. */
async function read(target: string): Promise<{ status: number; message: string }> {
  const raw = `GET /browsers/${session.session_id}/fs/read_file${target} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${cloud.key}\r\nconnection: close\r\n\r\n`
  const [answer] = answersIn(await say(cloud.url, Buffer.from(raw, 'latin1'), PATIENCE_MS))
  return { status: answer!.status, message: (JSON.parse(answer!.body.toString()) as { message: string }).message }
}

test.each([
  ['?path=/tmp/w?x', '/tmp/w?x'],
  ['?path=/tmp/w?x=1?y', '/tmp/w?x=1?y'],
  ['?path=/tmp/w??', '/tmp/w??'],
  ['?jwt=&path=/tmp/w?jwt=x', undefined],
  ['?path=/tmp/w%3Fx', '/tmp/w?x'],
  ['?path=/tmp/a+b%2Bc', '/tmp/a b+c'],
  ['?path=/tmp/w#x', '/tmp/w#x'],
])('a call with %s reaches the agent with its whole path', async (target, path) => {
  const { status, message } = await read(target)
  if (path === undefined) expect(status).toBe(401)
  else expect({ status, message }).toEqual({ status: 404, message: `there is no file "${path}"` })
})

test('a path with a fragment is refused, not cut', async () => {
  expect(await read('#?path=/tmp/w')).toEqual({ status: 400, message: 'path: must not hold "#"; write it as %23' })
})

test.each([
  ['/browsers/b/fs/read_file?path=/a?b&jwt=t', '/fs/read_file?path=%2Fa%3Fb'],
  ['http://host/browsers/b/fs/x?jwt=t', '/fs/x'],
  ['//browsers//b//fs/x', '/fs/x'],
])('%s reaches the agent as %s', (url, inner) => expect(innerPath(url)).toBe(inner))

test(`${FULL} concurrent calls of a session are its limit: the next gets 429, calls of another session do not`, async () => {
  const other = await cloud.create()
  const leave = new AbortController()
  agents.takeOver(session.session_id, () => {})
  const path = `/browsers/${session.session_id}/computer/get_mouse_position`
  const calls = Array.from({ length: FULL }, () => cloud.fetch(path, { method: 'POST', signal: leave.signal }).catch(() => undefined))
  await until('all calls to be under way', PATIENCE_MS * 5, () => agents.held() >= FULL)
  const refused = await cloud.fetch(path, { method: 'POST' })
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1'])
  expect((await cloud.fetch(`/browsers/${other.session_id}/computer/get_mouse_position`, { method: 'POST' })).status).toBe(200)
  leave.abort()
  await Promise.all(calls)
  agents.release(session.session_id)
  await until('room for another', PATIENCE_MS, async () => (await cloud.fetch(path, { method: 'POST' })).status === 200)
})
