// Attaching to targets, with a fake Chromium: no target stays paused, enabled domains are disabled again, and interruptions are reported.
import { EventEmitter } from 'node:events'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { exceptionsAtTop, fakeCdp, silence, type FakeCdp } from '../../../../test/support/fake-cdp.ts'
import { silentLog } from '../../../base/log.ts'
import type { Keeper } from '../../chromium/keeper.ts'
import type { ChromiumRun } from '../../chromium/process.ts'
import type { SettableCategory } from '../contract.ts'
import { EventBuffer } from '../event-buffer.ts'
import { makeSecrets } from '../../../base/redact/redact.ts'
import type { NewEvent } from '../telemetry.ts'
import type { Collector, WatchedTarget } from './collector.ts'
import { openCapture } from './targets.ts'

const secrets = makeSecrets()

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** A collector that records its calls. */
function collector(categories: SettableCategory[], types: Collector['types'], watch: (target: WatchedTarget) => Promise<unknown> = async () => {}) {
  const began: WatchedTarget[] = []
  const ended: string[] = []
  const made: Collector = {
    categories,
    types,
    async watch(target) {
      began.push(target)
      await watch(target)
      return async () => void ended.push(target.context().target_id)
    },
  }
  return { ...made, began, ended }
}

function capture(collectors: Collector[], replies: FakeCdp['replies'] = {}) {
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const buffer = new EventBuffer()
  const received: NewEvent[] = []
  vi.spyOn(buffer, 'emit').mockImplementation((event) => void received.push(event))
  const work: (() => Promise<void>)[] = []
  const chromium = () =>
    fakeCdp({ 'Target.attachToBrowserTarget': () => ({ sessionId: 'browser' }), 'Target.getTargets': () => ({ targetInfos: [] }), ...replies })
  const state = { run: chromium() }
  const browser = Object.assign(new EventEmitter(), {
    run: async () => ({ pipe: state.run.cdp }) as ChromiumRun,
    onRestart: (one: () => Promise<void>) => void work.push(one),
    isFinished: false,
  }) as unknown as Keeper & EventEmitter
  openCapture({ browser, telemetry: buffer, collectors, secrets, log: silentLog, signal: stop.signal })
  const attach = (targetId: string, more: object = {}, by = 'browser', waitingForDebugger = true) =>
    state.run.emit(
      'Target.attachedToTarget',
      { sessionId: `s-${targetId}`, targetInfo: { targetId, type: 'page', url: 'http://a/', title: '', attached: true, ...more }, waitingForDebugger },
      by,
    )
  return {
    received,
    state,
    browser,
    attach,
    use: (...categories: SettableCategory[]) => buffer.capture({ categories, excluded_methods: [] }),
    of: (sessionId: string) => state.run.sent.filter((command) => command.sessionId === sessionId).map(({ method }) => method),
    async restart() {
      const before = state.run
      state.run = chromium()
      before.receiver.onEnd()
      await vi.advanceTimersByTimeAsync(700)
      await Promise.all(work.map((one) => one()))
    },
    types: (by = 'browser') =>
      state.run.sent
        .filter((command) => command.method === 'Target.setAutoAttach' && command.sessionId === by)
        .map(({ params }) => (params.filter as { type: string }[]).map(({ type }) => type).join(' ')),
  }
}

const settle = () => vi.advanceTimersByTimeAsync(1)
const RESUMED = 'Runtime.runIfWaitingForDebugger'

test('a target is begun by every collector that wants its type, before it goes on; and it is left when none is wanted', async () => {
  const page = collector(['page'], ['page'])
  const network = collector(['network'], ['page', 'iframe', 'worker'])
  const { attach, of, state, types, use } = capture([page, network])
  await use('page')
  expect(types()).toEqual(['page'])
  attach('one')
  await settle()
  expect(of('s-one')).toEqual(['Page.enable', RESUMED])
  expect([page.began.length, network.began.length]).toEqual([1, 0])
  await use('page', 'network')
  // Frames and workers inside of pages are attached to now, also in existing pages.
  expect(types('s-one')).toEqual(['iframe worker'])
  attach('frame', { type: 'iframe' }, 's-one')
  attach('worker', { type: 'worker' }, 's-frame')
  await settle()
  expect(network.began.map(({ type }) => type)).toEqual(['page', 'iframe', 'worker'])
  expect(of('s-worker')).toContain(RESUMED)
  await use('network')
  expect(page.ended).toEqual(['one'])
  await use()
  expect(network.ended.toSorted()).toEqual(['frame', 'one', 'worker'])
  expect(network.began.every(({ signal }) => signal.aborted)).toBe(true)
  expect(state.run.sent.at(-1)).toMatchObject({ method: 'Target.detachFromTarget', params: { sessionId: 'browser' } })
})

test('the address of a page is told without what is learned later, and without a part of a secret where it is cut', async () => {
  onTestFinished(() => secrets.forget())
  const page = collector(['page'], ['page'])
  const { attach, use } = capture([page])
  await use('page')
  secrets.learn('learned-before')
  attach('one', { url: `http://a/hunter22/${'x'.repeat(4096 - 26)}/learned-before` })
  await settle()
  const url = () => page.began[0]!.context().url!
  expect(url()).toContain('hunter22')
  expect(url()).not.toMatch(/learn/)
  secrets.learn('hunter22')
  expect(url()).not.toMatch(/hunt|learn/)
})

test('of the address of a new tab its query is not told, nor its title: what is typed there is not known yet', async () => {
  const { attach, received, use } = capture([collector(['page'], ['page'])])
  await use('page')
  attach('one', { url: 'http://a/in?user=kim&answer=hunter22#hunter22', title: 'a/in?user=kim&answer=hunter22', openerId: 'zero' })
  expect(received).toMatchObject([{ type: 'page_tab_opened', truncated: true }])
  expect(received[0]!.data).toEqual({ target_id: 'one', target_type: 'page', url: 'http://a/in', opener_id: 'zero' })
})

describe('a target goes on', () => {
  test('when a collector fails, which is told with its step', async () => {
    const failing = collector(['network'], ['page'], ({ session }) => session.send('Network.enable', {}))
    const { attach, of, received, use } = capture([failing], {
      'Network.enable': () => {
        throw new Error('no')
      },
    })
    await use('network')
    attach('one')
    await settle()
    expect(of('s-one')).toContain(RESUMED)
    expect(received).toMatchObject([{ type: 'monitor_init_failed', data: { step: 'Network.enable' } }])
  })

  test('when a collector throws at once, and when a page answers nothing', async () => {
    const throwing = collector(['page'], ['page'])
    throwing.watch = () => {
      throw new Error('at once')
    }
    const { attach, of, received, use } = capture([throwing, collector(['page'], ['page'], silence)], {
      'Page.enable': silence,
      'Target.setAutoAttach': () => ({}),
    })
    await use('page')
    attach('one')
    await vi.advanceTimersByTimeAsync(600)
    expect(of('s-one')).toContain(RESUMED)
    await vi.advanceTimersByTimeAsync(20_000)
    expect(received.map(({ type }) => type)).toEqual(['page_tab_opened', ...Array(3).fill('monitor_init_failed')])
  })

  test('when a page hangs; a collector that did not begin there does so with its next document', async () => {
    let hangs = true
    const page = collector(['page'], ['page'], () => (hangs ? silence() : Promise.resolve()))
    const { attach, of, state, received, use } = capture([page])
    await use('page')
    attach('one')
    await vi.advanceTimersByTimeAsync(20_000)
    expect(of('s-one')).toContain(RESUMED)
    expect(received.at(-1)).toMatchObject({ type: 'monitor_init_failed', data: { step: 'collecting page' } })
    expect(page.began.map(({ signal }) => signal.aborted)).toEqual([true])
    hangs = false
    state.run.emit('Page.frameNavigated', { frame: { id: 'one', loaderId: '1', url: 'http://b/' } }, 's-one')
    await settle()
    expect(page.began.map(({ signal }) => signal.aborted)).toEqual([true, false])
  })

  test('when it is not watched: of another type, of an extension, or one too many', async () => {
    const page = collector(['page'], ['page', 'service_worker'])
    const { attach, of, received, use } = capture([page])
    await use('page')
    attach('other', { type: 'other' })
    attach('extension', { type: 'service_worker', url: 'chrome-extension://abc/worker.js' })
    for (let number = 0; number < 202; number++) attach(String(number))
    await settle()
    expect(page.began.length).toBe(200)
    for (const left of ['other', 'extension', '200', '201']) expect(of(`s-${left}`)).toEqual([RESUMED])
    expect(of('browser').filter((method) => method === 'Target.detachFromTarget').length).toBe(4)
    expect(received.filter(({ type }) => type === 'monitor_init_failed').length).toBe(1)
  })
})

test('the context follows the page: navigations are counted, addresses are cut, and those of frames are not its own', async () => {
  const page = collector(['page'], ['page'])
  const { attach, state, use } = capture([page])
  await use('page')
  attach('one')
  await settle()
  const [target] = page.began
  const frame = (id: string, url: string, more = {}) =>
    state.run.emit('Page.frameNavigated', { frame: { id, loaderId: `l-${url.length}`, url, ...more } }, 's-one')
  expect(target!.context()).toEqual({ target_id: 'one', target_type: 'page', session_id: 's-one', frame_id: 'one', url: 'http://a/' })
  frame('one', 'http://b/')
  frame('inside', 'http://c/', { parentId: 'one' })
  expect(target!.context()).toMatchObject({ nav_seq: 1, loader_id: 'l-9', url: 'http://b/' })
  frame('one', 'chrome-error://chromewebdata/', { unreachableUrl: 'http://down/' })
  expect(target!.context()).toMatchObject({ nav_seq: 2, url: 'http://down/' })
  state.run.emit('Page.navigatedWithinDocument', { frameId: 'one', url: `http://b/${'x'.repeat(10_000)}` }, 's-one')
  expect(target!.context().url?.length).toBe(4096)
  expect(target!.context({ frame_id: 'inside' }).frame_id).toBe('inside')
})

test("nothing is told of Chromium's own pages, and again when the tab shows another one", async () => {
  const { attach, state, received, use } = capture([
    {
      categories: ['page'],
      types: ['page'],
      async watch({ session }, telemetry) {
        session.on('Page.loadEventFired', () => telemetry.emit({ type: 'page_load', source: { kind: 'cdp' } }))
        return async () => {}
      },
    },
  ])
  await use('page')
  attach('one', { url: 'chrome://settings/' })
  await settle()
  state.run.emit('Page.loadEventFired', {}, 's-one')
  expect(received).toEqual([])
  state.run.emit('Page.frameNavigated', { frame: { id: 'one', loaderId: '1', url: 'http://a/' } }, 's-one')
  state.run.emit('Page.loadEventFired', {}, 's-one')
  expect(received.map(({ type }) => type)).toEqual(['page_load'])
})

test('workers that no collector wants are let go on: Chromium stops them at their start also when it attaches to frames only', async () => {
  const page = collector(['page'], ['page', 'iframe'])
  const { attach, of, types, use } = capture([page])
  await use('page')
  attach('one')
  await settle()
  expect(types('s-one')).toEqual(['iframe worker'])
  attach('worker', { type: 'worker' }, 's-one')
  await settle()
  expect(of('s-worker')).toEqual([RESUMED])
  expect(of('s-one').at(-1)).toBe('Target.detachFromTarget')
  expect(page.began.length).toBe(1)
})

test('while passwords may go unnoticed in a page, nothing that may hold one is told of it', async () => {
  let answers = false
  const guard = { ...collector(['page'], ['page'], async () => (answers ? undefined : Promise.reject(new Error('no')))), isGuard: true }
  const telling = collector(['page'], ['page'])
  telling.watch = async ({ session, context }, telemetry) => {
    session.on('Page.loadEventFired', () => {
      const data = { ...context(), url: 'http://a/path?q=hunter2#hunter2', post_data: 'hunter2', body: 'hunter2', text: 'hunter2', args: ['hunter2'] }
      telemetry.emit({ type: 'page_load', source: { kind: 'cdp' }, data: { ...data, lcp_details: { url: 'http://a/?hunter2', size: 1 } } })
    })
    return async () => {}
  }
  const { attach, state, received, use } = capture([guard, telling])
  await use('page')
  attach('one')
  await settle()
  const tell = () => {
    received.length = 0
    state.run.emit('Page.loadEventFired', {}, 's-one')
    return received[0]
  }
  expect(JSON.stringify(tell())).not.toContain('hunter2')
  expect(tell()).toMatchObject({ truncated: true, data: { target_id: 'one', url: 'http://a/path', text: '', lcp_details: { url: 'http://a/', size: 1 } } })
  // It is retried without a new document.
  answers = true
  await vi.advanceTimersByTimeAsync(6_000)
  expect(tell()?.data).toMatchObject({ url: 'http://a/path?q=hunter2#hunter2', post_data: 'hunter2' })
})

test('an event that cannot be read is counted as lost, and the others are told', async () => {
  using top = exceptionsAtTop()
  const odd = collector(['page'], ['page'])
  odd.watch = async ({ session }, telemetry) => {
    session.on('Page.loadEventFired', ({ timestamp }) => telemetry.emit({ type: 'page_load', source: { kind: 'cdp', event: timestamp.toFixed() } }))
    return async () => {}
  }
  const { attach, state, received, use } = capture([odd])
  await use('page')
  attach('one')
  state.run.emit('Target.attachedToTarget', { sessionId: 7 }, 'browser')
  await settle()
  for (const timestamp of ['odd', null, 1]) state.run.emit('Page.loadEventFired', { timestamp }, 's-one')
  await vi.advanceTimersByTimeAsync(1_500)
  expect(received.filter(({ type }) => type !== 'page_tab_opened')).toMatchObject([{ type: 'page_load' }, { type: 'monitor_events_lost', data: { count: 2 } }])
  expect(top.thrown).toEqual([])
})

test('events that are too large to be read are counted as lost, while something is captured', async () => {
  const { state, received, use } = capture([collector(['page'], ['page'])])
  const lose = async () => {
    for (let count = 0; count < 3; count++) state.run.receiver.onTooLarge('{"method":"Network.requestWillBeSent","params":{"request":{"url":"data:')
    await vi.advanceTimersByTimeAsync(1_500)
  }
  await lose()
  await use('page')
  await lose()
  await use()
  await lose()
  expect(received.map(({ type, data }) => [type, data])).toEqual([['monitor_events_lost', { reason: 'too_large', count: 3 }]])
})

test('what Chromium refuses at first is asked again, and the target that waits goes on however often that is refused', async () => {
  let refuses = true
  const refusing = () => {
    if (refuses) throw new Error('not now')
    return {}
  }
  const { attach, of, received, types, use } = capture([collector(['page'], ['page'])], { 'Target.setAutoAttach': refusing, [RESUMED]: refusing })
  await use('page')
  attach('one')
  await vi.advanceTimersByTimeAsync(4_500)
  expect(of('s-one').filter((method) => method === RESUMED).length).toBeGreaterThan(3)
  expect(types()).toHaveLength(1)
  refuses = false
  await vi.advanceTimersByTimeAsync(12_000)
  expect(types()).toHaveLength(2)
  const resumed = of('s-one').length
  await vi.advanceTimersByTimeAsync(12_000)
  expect([types().length, of('s-one').length]).toEqual([2, resumed])
  expect(received.filter(({ type }) => type === 'monitor_init_failed')).toHaveLength(1)
})

describe('when Chromium ends', () => {
  test('and does not come back, that is told', async () => {
    const { browser, state, received, use } = capture([collector(['page'], ['page'])])
    await use('page')
    state.run.receiver.onEnd()
    browser.emit('given_up', 'it ended too often')
    expect(received.map(({ type, data }) => [type, data])).toEqual([
      ['monitor_disconnected', { reason: 'chrome_restarted' }],
      ['monitor_reconnect_failed', { reason: 'reconnect_exhausted' }],
    ])
  })

  test('while nothing of it is captured, nothing is told', async () => {
    const { restart, state, received, use } = capture([collector(['page'], ['page'])])
    await use('page')
    await use('control')
    await restart()
    expect(received).toEqual([])
    expect(state.run.sent).toEqual([])
  })
})
