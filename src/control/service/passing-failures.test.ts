// Temporary failures that callers have not caused: they get 503 with Retry-After, nothing is left of the call, and the published SDK retries a create. 500 is
// for bugs.
import { readdirSync } from 'node:fs'
import Kernel from '@onkernel/sdk'
import { beforeEach, expect, test } from 'vitest'
import { fastCloud, startFastCloud, type FastCloud, type Session } from '../../../test/support/fast-cloud.ts'
import { hostileDriver, type Attack } from '../../../test/support/hostile-driver.ts'
import { sleep, until } from '../../base/wait.ts'
import type { Driver, Instance, InstanceSpec } from '../../instances/driver.ts'
import { contracts } from '../modules.ts'

type Start = (spec: InstanceSpec, signal: AbortSignal, start: Driver['start'], of: Pick<FastCloud, 'query'>) => Promise<Instance>

const hostile = hostileDriver()
const usual: Start = (spec, signal, start) => start(spec, signal)
/** Replacements for the driver's next starts, in this order; later starts work as usual. */
let starts: Start[] = []
const drive: typeof hostile.drive = (paths) => {
  const inner = hostile.drive(paths)
  return { ...inner, start: (spec, signal) => (starts.shift() ?? usual)(spec, signal, inner.start, cloud) }
}

const cloud = fastCloud({ COB_WARM_BROWSERS: '0' }, drive)
beforeEach(() => {
  starts = []
})

/** Checks an answer that tells a client when to retry. `isSafe`: and that a retry is safe, because nothing was done. */
async function expectPassing(answer: Response, isSafe: boolean): Promise<string> {
  const { code, message } = (await answer.json()) as { code: string; message: string }
  expect([answer.status, code]).toEqual([503, 'unavailable'])
  expect(answer.headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
  if (isSafe) expect(answer.headers.get('x-should-retry')).not.toBe('false')
  return message
}

const left = () => cloud.query(`select id, state from browsers where deleted_at is null`)

/** How a start may fail. */
const FAILURES: Record<string, Start> = {
  'the engine is away': () => Promise.reject(Object.assign(new Error('connect ENOENT /var/run/docker.sock'), { code: 'ENOENT' })),
  'the agent ends while it boots': async () => {
    throw new Error('instance x did not start: its program ended with 137')
  },
  'the browser ends as soon as it has started': async (spec, signal, start) => {
    const instance = await start(spec, signal)
    await instance[Symbol.asyncDispose]()
    return instance
  },
  'the agent answers nothing': async (spec, signal, start) => {
    const instance = await start(spec, signal)
    hostile.takeOver(spec.id, (socket) => socket.destroy())
    return instance
  },
  'the browser ends while it gets its settings': async (spec, signal, start) => {
    const instance = await start(spec, signal)
    hostile.takeOver(spec.id, (socket) => void (instance[Symbol.asyncDispose]() as Promise<void>).finally(() => socket.destroy()))
    return instance
  },
  'its row was ended by another': async (spec, signal, start, of) => {
    const instance = await start(spec, signal)
    await of.query(`update browsers set state = 'stopping' where id = $1`, [spec.id])
    return instance
  },
}

test.each(Object.entries(FAILURES))('when %s, a create gets another browser or is told to try again, and nothing is left', async (_what, failing) => {
  starts = [failing]
  const answer = await cloud.send('POST', '/browsers', { start_url: 'https://site.test' })
  // If the end of a browser is known before its caller gets it, it is replaced at once.
  if (answer.status === 200) await cloud.fetch(`/browsers/${((await answer.json()) as Session).session_id}`, { method: 'DELETE' })
  else await expectPassing(answer, true)
  await until('nothing to be left', 20_000, async () => (await left()).length === 0 && readdirSync(cloud.paths.instances).length === 0)
})

test('the published SDK gets its browser from the next try', async () => {
  starts = [FAILURES['the agent ends while it boots']!]
  const client = new Kernel({ baseURL: cloud.url, apiKey: cloud.key, maxRetries: 1 })
  const { session_id: id } = await client.browsers.create({ start_url: 'https://site.test' })
  await client.browsers.deleteByID(id)
})

test('a bug of ours stays an error of ours', async () => {
  starts = [() => Promise.reject(new TypeError('x is not a function'))]
  const answer = await cloud.send('POST', '/browsers', {})
  expect([answer.status, answer.headers.get('x-should-retry')]).toEqual([500, 'false'])
})

/** Failures of an agent that its callers see. */
const ATTACKS: Record<string, Attack> = {
  'is gone': (socket) => socket.destroy(),
  'ends during its answer': (socket) =>
    void socket.write('HTTP/1.1 200 OK\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: 100\r\n\r\n{"a":', () => socket.destroy()),
  fails: (socket) =>
    void socket.end(
      'HTTP/1.1 500 X\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: 54\r\n\r\n{"code":"internal_error","message":"said by the agent"}',
    ),
}

const routes = contracts
  .flatMap((contract) => Object.values(contract))
  // The recording's agent cannot be asked to stop, so the call waits for it.
  .filter(({ path, method, id }) => path.startsWith('/browsers/{') && method !== 'DELETE' && id !== 'stopReplay')

/** Calls of a session that reach its agent, with bodies that are valid, or that only the agent checks. */
const BODIES: Record<string, unknown> = { updateBrowser: { viewport: { width: 1280, height: 800 } } }

async function callAll(id: string, replay: string): Promise<{ route: string; status: number; text: string; retryAfter: string | null }[]> {
  const call = async (route: (typeof routes)[number]) => {
    const path = route.path
      .replace(/\{(id|id_or_name)\}/, id)
      .replace('{replay_id}', replay)
      .replaceAll(/\{\w+\}/g, 'x')
    const answer = ['GET', 'HEAD'].includes(route.method)
      ? await cloud.fetch(path, { method: route.method })
      : await cloud.send(route.method, path, BODIES[route.id] ?? {})
    // An answer that has started is cut off.
    return { route: route.id, status: answer.status, text: await answer.text().catch(String), retryAfter: answer.headers.get('retry-after') }
  }
  return Promise.all(routes.map(call))
}

test.each(Object.entries(ATTACKS))(
  'no call to a session whose agent %s is answered as a bug of ours, and each says when to try again',
  async (_how, attack) => {
    const { session_id: id } = await cloud.create()
    const { replay_id: replay } = (await (await cloud.send('POST', `/browsers/${id}/replays`, {})).json()) as { replay_id: string }
    hostile.takeOver(id, attack)
    const answers = await callAll(id, replay)
    hostile.release(id)
    await cloud.fetch(`/browsers/${id}`, { method: 'DELETE' })
    const isOurs = ({ status, text }: (typeof answers)[number]) => status === 500 && !text.includes('said by the agent')
    const isSilent = ({ status, retryAfter }: (typeof answers)[number]) => status === 503 && !/^[1-9]\d*$/.test(retryAfter ?? '')
    expect(answers.filter((answer) => isOurs(answer) || isSilent(answer))).toEqual([])
    expect(answers.filter(({ status }) => status === 503).length).toBeGreaterThan(3)
  },
)

test.each(Object.entries(FAILURES).filter(([what]) => what.startsWith('the agent')))(
  'when %s, each time, a caller of a pool is told to try again',
  async (_what, failing) => {
    await using pools = await startFastCloud({ COB_WARM_BROWSERS: '0' }, (paths) => {
      const inner = hostile.drive(paths)
      return { ...inner, start: (spec, signal) => failing(spec, signal, inner.start, pools) }
    })
    const { id } = (await (await pools.send('POST', '/browser_pools', { size: 1 })).json()) as { id: string }
    await expectPassing(await pools.send('POST', `/browser_pools/${id}/acquire`, { acquire_timeout_seconds: 30, start_url: 'https://site.test' }), true)
    expect((await pools.send('DELETE', `/browser_pools/${id}`, { force: true })).status).toBe(204)
  },
)

test.each([
  [
    'boots',
    async (spec: InstanceSpec, signal: AbortSignal, start: Driver['start'], begun: () => void) => (
      begun(),
      await new Promise((resolve) => setTimeout(resolve, 300)),
      start(spec, signal)
    ),
  ],
  [
    'waits for a boot that hangs',
    async (_spec: InstanceSpec, signal: AbortSignal, _start: Driver['start'], begun: () => void) => (
      begun(),
      new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
    ),
  ],
])('a create that %s while the service stops is told to try again', async (_what, how) => {
  const begun = Promise.withResolvers<void>()
  const other = await startFastCloud({ COB_WARM_BROWSERS: '0' }, (paths) => {
    const inner = hostile.drive(paths)
    return { ...inner, start: (spec, signal) => how(spec, signal, inner.start, begun.resolve) }
  })
  const answer = other.send('POST', '/browsers', {})
  await begun.promise
  await other[Symbol.asyncDispose]()
  await expectPassing(await answer, true)
})

test('no call that comes while the service stops is answered as a bug of ours', async () => {
  const other = await startFastCloud({ COB_WARM_BROWSERS: '1' })
  const { session_id: id } = await other.create()
  const { id: pool } = (await (await other.send('POST', '/browser_pools', { size: 1 })).json()) as { id: string }
  const calls: [string, string, object?][] = [
    ['POST', '/browsers', {}],
    ['POST', '/browsers', { headless: true, start_url: 'https://site.test' }],
    ['GET', '/browsers'],
    ['GET', `/browsers/${id}`],
    ['PATCH', `/browsers/${id}`, { viewport: { width: 1280, height: 800 } }],
    ['POST', `/browsers/${id}/computer/screenshot`, {}],
    ['POST', `/browser_pools/${pool}/acquire`, { acquire_timeout_seconds: 5 }],
    ['POST', '/profiles', {}],
    ['POST', '/org/api_keys', { name: 'x' }],
    ['POST', '/invocations', { app_name: 'x', version: 'x', action_name: 'x' }],
  ]
  let isOver = false
  const wrong: unknown[] = []
  const caller = async ([method, path, body]: (typeof calls)[number]) => {
    while (!isOver) {
      const answer = await (body ? other.send(method, path, body) : other.fetch(path, { method })).catch(() => undefined)
      // The service does not listen any more.
      if (!answer) return
      const text = await answer.text().catch(() => '')
      const tells = answer.status !== 503 || /^[1-9]\d*$/.test(answer.headers.get('retry-after') ?? '')
      if (answer.status === 500 || !tells) wrong.push([method, path, answer.status, text])
    }
  }
  const callers = Promise.all(calls.map(caller))
  await sleep(200)
  await other[Symbol.asyncDispose]()
  isOver = true
  await callers
  expect([wrong, other.errors.filter(({ message }) => message.startsWith('something went wrong'))]).toEqual([[], []])
})
