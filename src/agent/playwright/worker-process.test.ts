// The worker process without a browser, so that no code begins. test/sdk/playwright.test.ts tests it with a browser.
import { afterEach, expect, test } from 'vitest'
import { silentLog } from '../../base/log.ts'
import { makePlaywright } from './playwright.ts'
import { NotBegun, WorkerProcess } from './worker-process.ts'

const NOWHERE = 'ws://127.0.0.1:9/none'
const never = new AbortController().signal
const started: WorkerProcess[] = []
const start = (): WorkerProcess => {
  const worker = new WorkerProcess()
  started.push(worker)
  return worker
}
afterEach(() => Promise.all(started.splice(0).map((worker) => worker.kill())))

test('a run has not begun if its browser is not there, and the worker can take the next run', async () => {
  const worker = start()
  for (let i = 0; i < 2; i++) {
    await expect(worker.run('return 1', NOWHERE, 1_000, never)).rejects.toBeInstanceOf(NotBegun)
    expect(await worker.ready()).toBe(true)
  }
})

test('a run ends with its process when its caller leaves', async () => {
  const worker = start()
  const left = new AbortController()
  const run = worker.run('return 1', NOWHERE, 1_000, left.signal)
  left.abort(new Error('left'))
  await expect(run).rejects.toThrow('left')
  expect(await worker.ready()).toBe(false)
})

test('a worker that is ended before the code begins is reported', async () => {
  const worker = start()
  const run = worker.run('return 1', NOWHERE, 1_000, never)
  void worker.kill()
  await expect(run).rejects.toThrow(/SIGKILL/)
})

test('a run that has not begun is tried with the next browser, and then answers unavailable', async () => {
  let asked = 0
  const run = { port: 9, browserPath: '/none', exited: Promise.resolve({ code: 0, signal: null }), closePrintPreviews: async () => {} }
  const playwright = makePlaywright({ runForClient: async () => (asked++, run as never) }, silentLog)
  await expect(playwright.execute('return 1', 1_000, never)).rejects.toMatchObject({ code: 'unavailable', headers: { 'x-should-retry': 'false' } })
  expect(asked).toBe(2)
})
