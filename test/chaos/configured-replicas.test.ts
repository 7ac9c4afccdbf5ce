// Two replicas and sessions with proxies, profiles and extensions: what one has made the other one uses, and takes over when that one is killed.
import { createServer } from 'node:http'
import Kernel from '@onkernel/sdk'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { blockingExtension, markingExtension } from '../support/extensions.ts'
import { replicaProcesses } from '../support/replica-processes.ts'
import type { ReplicaProcess } from '../support/replicas.ts'
import { httpProxy, serveSockets, type TestProxy } from '../support/upstreams.ts'

/** A name that only the proxies of this test know: whatever goes directly fails. */
const SITE = 'site.test'
const LOGIN = { username: 'ann', password: 'secret-of-ann' }
/** A takeover takes 5 s at most on an idle machine. */
const TAKEN_MS = 60_000

let site: Awaited<ReturnType<typeof serveSockets>>
let proxy: TestProxy
const ended = new AsyncDisposableStack()
beforeAll(async () => {
  const answer = createServer(({ url }, reply) => void reply.writeHead(200, { 'content-type': 'text/html' }).end(`<title>${url}</title>`))
  site = ended.use(await serveSockets(answer))
  proxy = ended.use(await httpProxy({ names: { [SITE]: '127.0.0.1' }, login: LOGIN }))
})
afterAll(() => ended.disposeAsync())
const { shared, replicas, key } = replicaProcesses(2, {
  COB_DRIVER: 'local-tls',
  COB_WARM_BROWSERS: '1',
  COB_WARM_BROWSERS_MAX: '1',
  COB_ALLOW_HOST_LOOPBACK: '1',
})

const client = ({ url }: ReplicaProcess) => new Kernel({ baseURL: url, apiKey: key, maxRetries: 5 })

/** What a page of the site has in a session: its title when it came through the proxy, its mark of each extension, and what was stored there before. */
async function seen(replica: ReplicaProcess, id: string, path: string, script = ''): Promise<unknown> {
  const from = proxy.asked.length
  const { result, error } = await client(replica).browsers.playwright.execute(id, {
    code: `await page.goto('http://${SITE}:${site.port}${path}', { timeout: 10000 }); return page.evaluate(() => { ${script}
      const { marker, blocker } = document.documentElement.dataset; return [document.title, marker, blocker, localStorage.mark] })`,
  })
  return proxy.asked.slice(from).some((what) => what.endsWith(path)) ? result : `not through the proxy: ${error}`
}
const file = (zip: Buffer) => new File([new Uint8Array(zip)], 'extension.zip')

test('what one replica has made configures a session of the other one, which is saved by either', { timeout: 300_000 }, async () => {
  const [a, b] = replicas
  const made = await client(a).proxies.create({ type: 'custom', protocol: 'http', config: { host: '127.0.0.1', port: proxy.port, ...LOGIN } })
  await client(a).extensions.upload({ file: file(markingExtension('marker')), name: 'marker' })
  await client(a).extensions.upload({ file: file(blockingExtension('blocker')), name: 'blocker' })
  await client(a).profiles.create({ name: 'dressed' })
  const options = {
    proxy_id: made.id!,
    extensions: [{ name: 'marker' }, { name: 'blocker' }],
    profile: { name: 'dressed', save_changes: true },
    timeout_seconds: 600,
  }
  const first = await client(b).browsers.create(options)
  expect(await seen(b, first.session_id, '/b', 'localStorage.mark = "by b"')).toEqual(['/b', 'marked', 'marked', 'by b'])
  expect(await seen(a, first.session_id, '/a')).toEqual(['/a', 'marked', 'marked', 'by b'])
  // The other one ends it, and saves its profile.
  await client(a).browsers.deleteByID(first.session_id)

  const second = await client(a).browsers.create(options)
  expect(await seen(a, second.session_id, '/c')).toEqual(['/c', 'marked', 'marked', 'by b'])
  await a.kill()
  const after = () => seen(b, second.session_id, '/d', 'localStorage.mark = "after a"').catch((error: unknown) => error)
  await expect.poll(after, { timeout: TAKEN_MS, interval: 500 }).toEqual(['/d', 'marked', 'marked', 'after a'])
  // The one that has died comes back, and the session's proxy is no worse for it.
  await a.start()
  await expect.poll(() => seen(a, second.session_id, '/e'), { timeout: TAKEN_MS }).toEqual(['/e', 'marked', 'marked', 'after a'])
  expect(await seen(b, second.session_id, '/f')).toEqual(['/f', 'marked', 'marked', 'after a'])
  await client(b).browsers.deleteByID(second.session_id)

  const third = await client(a).browsers.create(options)
  expect(await seen(a, third.session_id, '/g')).toEqual(['/g', 'marked', 'marked', 'after a'])
  // Both are killed: the next start of one finds all of it.
  await Promise.all(replicas.map((replica) => replica.kill()))
  await b.start()
  await expect
    .poll(() => seen(b, third.session_id, '/h').catch((error: unknown) => error), { timeout: TAKEN_MS, interval: 500 })
    .toEqual(['/h', 'marked', 'marked', 'after a'])
  await client(b).browsers.update(third.session_id, { proxy_id: '' })
  expect(await seen(b, third.session_id, '/direct')).toMatch(/^not through the proxy/)
  await a.start()
  await client(a).browsers.deleteByID(third.session_id)
})

test('a session keeps its proxy when the replica is killed that has made it from a warm browser of another one', { timeout: 300_000 }, async () => {
  const watching = async () => (await shared.query<{ replica: string }>(`select replica from browsers where state = 'warm'`))[0]?.replica
  await expect.poll(watching, { timeout: TAKEN_MS }).toBeTypeOf('string')
  const watcher = await watching()
  const [maker, other] = replicas.toSorted((one, two) => Number(one.replica() === watcher) - Number(two.replica() === watcher))
  const made = await client(maker!).proxies.create({ type: 'custom', protocol: 'http', config: { host: '127.0.0.1', port: proxy.port, ...LOGIN } })
  const { session_id: id } = await client(maker!).browsers.create({ proxy_id: made.id!, timeout_seconds: 600 })
  expect(await shared.query('select replica from browsers where id = $1', [id])).toEqual([{ replica: other!.replica() }])
  expect((await seen(maker!, id, '/i')) as unknown[]).toContain('/i')
  await maker!.kill()
  await expect.poll(() => seen(other!, id, '/j').catch((error: unknown) => error), { timeout: TAKEN_MS, interval: 500 }).toContain('/j')
  await maker!.start()
  expect((await seen(maker!, id, '/k')) as unknown[]).toContain('/k')
  await client(maker!).browsers.deleteByID(id)
})
