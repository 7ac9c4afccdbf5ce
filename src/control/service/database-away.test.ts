// A database that is killed, that does not answer, or that is full: callers get an error at once, and the service recovers by itself.
import { readFileSync, readdirSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { conforms } from '../../../test/support/contract.ts'
import { fastCloud, type Session } from '../../../test/support/fast-cloud.ts'
import { until } from '../../base/wait.ts'

/** Timeout for the service to notice within a second that the database is gone and to start it again, on a busy machine. */
const RECOVER_MS = 30_000
/** Calls of every kind fail within this time: the service checks at most once a second. */
const AWAY_MS = 20_000

let session: Session
/** An ended session, which only the database knows. */
let ended: Session
const cloud = fastCloud()
beforeAll(async () => {
  ended = await cloud.create()
  await cloud.fetch(`/browsers/${ended.session_id}`, { method: 'DELETE' })
  session = await cloud.create()
})

const postmaster = (): number => Number(readFileSync(join(cloud.paths.postgres, 'postmaster.pid'), 'utf8').split('\n')[0])
/** Postgres and its children, each in its own process group. */
function postgres(): number[] {
  const parent = postmaster()
  const children = readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && parentOf(pid) === parent)
  return [parent, ...children.map(Number)]
}
function parentOf(pid: string): number | undefined {
  try {
    return Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')[1])
  } catch {
    return undefined // it has ended meanwhile
  }
}
const signal = (pids: number[], name: NodeJS.Signals) =>
  pids.forEach((pid) => {
    try {
      process.kill(pid, name)
    } catch {} // it has ended meanwhile
  })

/** The answer that a caller must get: 503 in the one shape, with Retry-After. */
async function refusal(answer: Promise<Response>): Promise<{ message: string; retry: string | null; shouldRetry: string | null }> {
  const response = await answer
  const body = (await response.json()) as { code: string; message: string }
  expect([response.status, body.code, body.message]).toEqual([503, 'unavailable', expect.stringMatching(/^the database /)])
  expect(response.headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
  conforms('ErrorModel', body)
  return { message: body.message, retry: response.headers.get('retry-after'), shouldRetry: response.headers.get('x-should-retry') }
}

/** The answer to a WebSocket handshake. */
const handshake = (url: string): Promise<{ status: number | undefined; retry: string | undefined }> =>
  new Promise((resolve, reject) => {
    const headers = { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13', 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' }
    request(url.replace(/^ws/, 'http'), { headers })
      .on('response', ({ statusCode, headers: said }) => resolve({ status: statusCode, retry: said['retry-after'] }))
      .on('upgrade', (_response, socket) => (socket.destroy(), resolve({ status: 101, retry: undefined })))
      .on('error', reject)
      .end()
  })

const recovered = () =>
  until('the service to be well', RECOVER_MS, async () => (await cloud.fetch('/health')).ok && (await cloud.fetch(`/browsers/${session.session_id}`)).ok, {
    everyMs: 50,
  })

describe('while Postgres has crashed', () => {
  test('callers of every kind get 503, with any key, and the service recovers by itself', async () => {
    const calls: Record<string, { ask: () => Promise<Response>; shouldRetry: string | null }> = {
      read: { ask: () => cloud.fetch('/browsers'), shouldRetry: null },
      change: { ask: () => cloud.send('PATCH', `/browsers/${session.session_id}`, { tags: { a: 'b' } }), shouldRetry: 'false' },
      stranger: { ask: () => fetch(`${cloud.url}/browsers`, { headers: { authorization: 'Bearer somebody-else-s-key' } }), shouldRetry: null },
      health: { ask: () => fetch(`${cloud.url}/health`), shouldRetry: null },
    }
    const statuses = new Set<number | undefined>()
    const met = new Set<string>()
    /** Kill it again for each kind of caller: with its files in the page cache, Postgres is back within a moment. */
    const crash = (name: string) => !met.has(name) && signal(postgres(), 'SIGKILL')
    for (const end = performance.now() + AWAY_MS; met.size <= Object.keys(calls).length && performance.now() < end;) {
      for (const [name, { ask, shouldRetry }] of Object.entries(calls)) {
        crash(name)
        const response = await ask()
        statuses.add(response.status)
        if (response.status !== 503) await response.arrayBuffer()
        else if ((await refusal(Promise.resolve(response))).shouldRetry === shouldRetry) met.add(name)
      }
      crash('socket')
      const { status, retry } = await handshake(ended.cdp_ws_url)
      statuses.add(status)
      if (status === 503 && Number(retry) > 0) met.add('socket')
    }
    await recovered()
    expect([...met].toSorted()).toEqual([...Object.keys(calls), 'socket'].toSorted())
    expect([200, 503]).toEqual(expect.arrayContaining([...statuses].filter((status) => status !== 401 && status !== 404)))
  })
})

describe('while Postgres hangs', () => {
  test('callers get 503 within a limit, also from /health and /status, and nothing is left behind when it continues', async () => {
    await recovered()
    const pids = postgres()
    signal(pids, 'SIGSTOP')
    onTestFinished(() => signal(pids, 'SIGCONT'))
    // More calls than the pool has connections.
    const calls = Promise.all(Array.from({ length: 25 }, () => refusal(cloud.fetch('/browsers'))))
    calls.catch(() => {})
    const status = (await (await fetch(`${cloud.url}/status`)).json()) as { status: string }
    expect(status.status).toBe('full_outage')
    await refusal(fetch(`${cloud.url}/health`))
    await calls
    expect(await handshake(ended.cdp_ws_url)).toEqual({ status: 503, retry: expect.any(String) as string })
    // Sessions that this service holds in memory can be used without the database.
    expect((await handshake(session.cdp_ws_url)).status).toBe(101)
    signal(pids, 'SIGCONT')
    await recovered()
    // A warm browser that could not be recorded is retried a little later.
    await until(
      'all to be well',
      RECOVER_MS,
      async () => ((await (await fetch(`${cloud.url}/status`)).json()) as { status: string }).status === 'operational',
      {
        everyMs: 50,
      },
    )
    await cloud.fetch(`/browsers/${(await cloud.create()).session_id}`, { method: 'DELETE' })
  }, 60_000)
})

describe('while the disk of Postgres is full', () => {
  test('calls that must write get 503, /status and /health report it, and they succeed when there is space again', async () => {
    await recovered()
    const change = () => cloud.send('PATCH', `/browsers/${session.session_id}`, { tags: { at: 'last' } })
    await cloud.query(`create function no_space() returns trigger language plpgsql as
      $$ begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$`)
    // Limit every table: a successful write elsewhere, for example that of a warm browser, would tell that there is space.
    await cloud.query(`do $$ declare name text; begin
      for name in select tablename from pg_tables where schemaname = 'public' loop
        execute format('create trigger no_space before insert or update or delete on %I for each statement execute function no_space()', name);
      end loop; end $$`)
    onTestFinished(async () => void (await cloud.query('drop function if exists no_space cascade')))
    expect(await refusal(change())).toMatchObject({ message: 'the database has no space left on its disk', shouldRetry: 'false' })
    expect(((await (await fetch(`${cloud.url}/status`)).json()) as { status: string }).status).toBe('partial_outage')
    await refusal(fetch(`${cloud.url}/health`))
    expect((await cloud.fetch('/browsers')).status).toBe(200)
    await cloud.query('drop function no_space cascade')
    expect((await change()).status).toBe(200)
    // A warm browser that could not be recorded is retried a little later.
    await until('all to be well', RECOVER_MS, async () => (await fetch(`${cloud.url}/health`)).status === 200, { everyMs: 50 })
  })
})
