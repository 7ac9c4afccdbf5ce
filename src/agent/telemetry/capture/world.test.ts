// The world of a target's documents, with a fake Chromium: however many frames a page makes, few commands are pending, and no document is forgotten.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { fakeCdp, silence, type FakeCdp } from '../../../../test/support/fake-cdp.ts'
import { worldOf } from './world.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const ARMS = 'Page.createIsolatedWorld'
const settle = () => vi.advanceTimersByTimeAsync(1)

async function world(replies: FakeCdp['replies'] = {}) {
  const tree = { frameTree: { frame: { id: 'TARGET' } } }
  const chromium = fakeCdp({
    'Page.getFrameTree': () => tree,
    'Page.addScriptToEvaluateOnNewDocument': () => ({ identifier: 'script' }),
    'Runtime.evaluate': () => ({ result: { value: false } }),
    ...replies,
  })
  const session = await chromium.cdp.session('TARGET')
  const emit = (event: string, frameId: string) => chromium.emit(event, event === 'Page.frameNavigated' ? { frame: { id: frameId } } : { frameId }, 'session-1')
  const armed = (): unknown[] => chromium.sent.filter(({ method }) => method === ARMS).map(({ params }) => params.frameId)
  return { ...chromium, emit, armed, made: worldOf({ session }), session }
}

/** Answers that the test sends. */
function answers() {
  const waiting: ((context: object) => void)[] = []
  let context = 0
  const answer = () => waiting.splice(0).map((done) => done({ executionContextId: ++context }))
  return { reply: () => new Promise((resolve) => waiting.push(resolve)), waiting, answer }
}

test('a page that makes thousands of frames gets eight commands at once; frames that are gone get none, and those above 500 are lost', async () => {
  const { reply, waiting, answer } = answers()
  const { emit, armed, made } = await world({ [ARMS]: reply })
  let lost = 0
  await made.use(
    'interaction',
    () => {},
    () => lost++,
  )
  await settle()
  for (let frame = 0; frame < 5_000; frame++) {
    emit('Page.frameAttached', `${frame}`)
    emit('Page.frameNavigated', `${frame}`)
    emit('Page.frameDetached', `${frame}`)
  }
  expect([waiting.length, lost, made.isBehind]).toEqual([8, 0, false])
  for (let frame = 5_000; frame < 5_600; frame++) emit('Page.frameAttached', `${frame}`)
  expect([waiting.length, lost, made.isBehind]).toEqual([8, 100, true])
  expect(await made.showsSecret()).toBe(true)
  for (let turn = 0; turn < 100; turn++) {
    answer()
    await settle()
  }
  expect(made.size).toBeLessThanOrEqual(500)
  expect(armed().length).toBeLessThanOrEqual(520)
  expect(armed()).not.toContain('4000')
  expect(await made.showsSecret()).toBe(true)
})

test('a document that hangs is prepared when it answers, and until then its passwords may be missed', async () => {
  let hangs = true
  const { armed, made, sent } = await world({ [ARMS]: () => (hangs ? silence() : { executionContextId: 1 }) })
  await made.use('passwords', () => {})
  await vi.advanceTimersByTimeAsync(30_000)
  expect(made.isBehind).toBe(true)
  expect(armed().length).toBeGreaterThan(1)
  hangs = false
  await vi.advanceTimersByTimeAsync(12_000)
  expect(made.isBehind).toBe(false)
  expect(made.size).toBe(1)
  expect(sent.map(({ method }) => method)).toContain('Runtime.addBinding')
  const before = armed().length
  await vi.advanceTimersByTimeAsync(60_000)
  expect(armed().length).toBe(before)
})

test('a document that hangs and goes away is not tried again; nor is anything when nobody listens any more', async () => {
  const { armed, emit, made } = await world({ [ARMS]: ({ frameId }) => (frameId === 'TARGET' ? { executionContextId: 1 } : silence()) })
  const stop = await made.use('passwords', () => {})
  await settle()
  emit('Page.frameAttached', 'gone')
  emit('Page.frameAttached', 'stays')
  await vi.advanceTimersByTimeAsync(10_500)
  emit('Page.frameDetached', 'gone')
  await vi.advanceTimersByTimeAsync(15_000)
  expect(armed().filter((frame) => frame === 'gone')).toHaveLength(1)
  expect(armed().filter((frame) => frame === 'stays').length).toBeGreaterThan(1)
  await stop()
  const before = armed().length
  await vi.advanceTimersByTimeAsync(60_000)
  expect([armed().length, made.isBehind, made.size]).toEqual([before, false, 0])
})
