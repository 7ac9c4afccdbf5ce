// A server's guard ends requests whose credential becomes invalid, whatever their handlers do.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, expect, test } from 'vitest'
import * as z from 'zod'
import { silentLog } from '../base/log.ts'
import { abortable, within } from '../base/wait.ts'
import { fault, type Fault } from './fault.ts'
import { mount, type MountContext } from './mount.ts'
import { bytes, events, json, route, type Principal } from './route.ts'
import { makeServer } from './server.ts'

const ENDS_MS = 5_000
const PRINCIPAL: Principal = { by: { kind: 'key', id: 'k', project: undefined, deployment: undefined }, project: 'p' }
const common = { method: 'GET', group: 'Test', summary: '', deadlineMs: Infinity } as const
const contract = {
  call: route({ ...common, path: '/call', id: 'call', reply: json(z.object({})) }),
  stream: route({ ...common, path: '/stream', id: 'stream', reply: events(z.object({ event: z.string() })) }),
  download: route({ ...common, path: '/download', id: 'download', reply: bytes('application/octet-stream') }),
  deaf: route({ ...common, path: '/deaf', id: 'deaf', reply: json(z.object({})) }),
}

/** Ways to end running requests. */
const ends = new Set<(reason: Fault) => void>()
let context: MountContext
let url: string
beforeAll(async () => {
  context = makeServer({
    log: silentLog,
    authenticate: async () => PRINCIPAL,
    guard(principal, end) {
      expect(principal).toBe(PRINCIPAL)
      ends.add(end)
      return { [Symbol.dispose]: () => void ends.delete(end) }
    },
  })
  const never = new Promise<never>(() => {})
  mount(context, contract, {
    call: ({ signal }) => abortable(never, signal),
    async *stream({ signal }) {
      yield { event: 'first' }
      await once(signal, 'abort')
    },
    download: () => new Readable({ read() {} }),
    deaf: () => never,
  })
  await context.app.listen({ host: '127.0.0.1', port: 0 })
  url = `http://127.0.0.1:${(context.app.server.address() as AddressInfo).port}`
})
afterAll(() => context.app.close())

/** A request that is ended while it runs: returns its status and body, or that its connection was closed. */
async function ended(path: string): Promise<unknown> {
  const answer = fetch(url + path).then(
    async (response) => [response.status, await response.text().catch(() => 'broken off')],
    () => 'broken off',
  )
  await expect.poll(() => ends.size, { timeout: ENDS_MS }).toBe(1)
  for (const end of ends) end(fault.unauthorized('over'))
  const result = await within('the request to end', ENDS_MS, answer)
  await expect.poll(() => ends.size, { timeout: ENDS_MS }).toBe(0)
  return result
}

test('a call that waits is answered with the reason', async () => {
  expect(await ended('/call')).toEqual([401, JSON.stringify({ code: 'unauthorized', message: 'over' })])
})

test('a stream of events ends with the reason as its last event', async () => {
  expect(await ended('/stream')).toEqual([200, expect.stringMatching(/"event":"error","error":\{"code":"unauthorized","message":"over"\}.*\n\n$/)])
})

test.each(['/download', '/deaf'])('%s, which does not look at its signal, ends with its connection', async (path) => {
  expect(JSON.stringify(await ended(path))).toContain('broken off')
})

test('a request that is over is not guarded any more', async () => {
  const response = await fetch(`${url}/nothing`)
  await response.text()
  expect(ends.size).toBe(0)
})
