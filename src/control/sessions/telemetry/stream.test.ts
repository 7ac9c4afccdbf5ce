// The stream of a session over the API: who may read it, where it begins, how it ends, and that it does not keep a session alive.
import { expect, test } from 'vitest'
import { fastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { within } from '../../../base/wait.ts'
import { telemetryFeed } from '../../../agent/telemetry/contract.ts'
import { newId } from '../../../base/ids.ts'
import { call } from '../../../http/client.ts'
import type { Endpoint } from '../../../http/endpoint.ts'

/** A session ends within 5 s of its timeout. The rest is for a busy machine. */
const ENDS_MS = 10_000 + 5_000 + 10_000

const cloud = fastCloud()

const watched = (): Promise<Session> => cloud.create({ telemetry: { enabled: true } })
/** Records an event as the driver does. */
const tell = async ({ session_id: id }: Session, said: string): Promise<void> => {
  const [row] = await cloud.query<{ endpoint: { path: string } }>('select endpoint from browsers where id = $1', [id])
  const source = { kind: 'local_process' as const }
  await call(
    row!.endpoint as unknown as Endpoint,
    telemetryFeed.addTelemetry,
    { body: { type: 'service_crashed', source, data: { said } } },
    { signal: AbortSignal.timeout(5_000) },
  )
}
const path = ({ session_id: id }: Session, query = '') => `/browsers/${id}/telemetry/stream${query}`

/** The text of a stream until `isEnough` is true, or until it ends. */
async function read(response: Response, isEnough: (text: string) => boolean): Promise<string> {
  let text = ''
  const reader = response.body!.getReader()
  for (;;) {
    const { done, value } = await within('a stream', ENDS_MS, reader.read())
    if (done) return text
    text += Buffer.from(value).toString()
    if (!isEnough(text)) continue
    await reader.cancel()
    return text
  }
}
const saying = (word: string) => (text: string) => text.includes(word)

test('a new reader gets what comes next; replay=all and Last-Event-ID begin earlier, and that id wins', async () => {
  const session = await watched()
  await tell(session, 'first')
  await tell(session, 'second')
  const fresh = await cloud.fetch(path(session))
  const all = await cloud.fetch(path(session, '?replay=all'))
  const after = await cloud.fetch(path(session, '?replay=all'), { headers: { 'last-event-id': '1' } })
  await tell(session, 'third')
  const texts = await Promise.all([fresh, all, after].map((response) => read(response, saying('third'))))
  expect(texts.map((text) => ['first', 'second', 'third'].filter((word) => text.includes(word)))).toEqual([
    ['third'],
    ['first', 'second', 'third'],
    ['second', 'third'],
  ])
  expect(texts[1]).toMatch(/^: open\n\nid: 1\ndata: \{"seq":1,"event":\{"type":"service_crashed","category":"system","ts":\d{16},/)
  expect(texts.join('')).not.toContain('event: ')
})

test('types that are left out are not sent; names that nobody knows match nothing', async () => {
  const session = await watched()
  const some = await cloud.fetch(path(session, '?replay=all&type=api_call,nonesuch&type=cdp_connect'))
  await tell(session, 'unseen')
  await cloud.fetch(`/browsers/${session.session_id}`, { method: 'DELETE' })
  expect(await read(some, () => false)).not.toContain('unseen')
})

test('a session that nobody knows, and one that has ended, are not found', async () => {
  const ended = await watched()
  await cloud.fetch(`/browsers/${ended.session_id}`, { method: 'DELETE' })
  for (const id of [newId(), ended.session_id]) expect((await cloud.fetch(`/browsers/${id}/telemetry/stream`)).status).toBe(404)
})

test.each(['x', '-1', '1.5', '9'.repeat(30)])('an id that no stream has given out is refused by name: %s', async (id) => {
  const response = await cloud.fetch(path(await watched()), { headers: { 'last-event-id': id } })
  expect([response.status, JSON.stringify(await response.json())]).toEqual([400, expect.stringContaining('Last-Event-ID')])
})

test("the session's token reads it below base_url, and no other session's", async () => {
  const [mine, other] = [await watched(), await watched()]
  const token = new URL(mine.cdp_ws_url).searchParams.get('jwt')!
  const below = await fetch(`${mine.base_url}/telemetry/stream?replay=all&jwt=${token}`)
  await tell(mine, 'mine')
  expect(await read(below, saying('mine'))).toContain('mine')
  expect((await fetch(`${other.base_url}/telemetry/stream?jwt=${token}`)).status).toBe(401)
  for (const hidden of ['feed', 'add']) expect((await cloud.fetch(`/browsers/${mine.session_id}/telemetry/${hidden}`)).status).toBe(404)
})

test('a key of another project does not find the session', async () => {
  const session = await watched()
  const project = (await (await cloud.send('POST', '/org/projects', { name: `p-${newId()}` })).json()) as { id: string }
  expect((await cloud.fetch(path(session), { headers: { 'x-kernel-project-id': project.id } })).status).toBe(404)
})

test('a reader does not keep the session from timing out', async () => {
  const session = await cloud.create({ telemetry: { enabled: true }, timeout_seconds: 10 })
  const stream = await cloud.fetch(path(session))
  expect(await read(stream, () => false)).toMatch(/^: open/)
  expect((await cloud.fetch(`/browsers/${session.session_id}`)).status).toBe(404)
})
