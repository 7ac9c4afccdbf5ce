// The CDP commands that input needs, with a fake Chromium: for the waits before it (painted.ts) and after shortcuts (handled.ts).
import { expect, onTestFinished, test, vi } from 'vitest'
import { fakeCdp, silence } from '../../../test/support/fake-cdp.ts'
import { silentLog } from '../../base/log.ts'
import { pagesHandled } from './handled.ts'
import { watchPaints } from './painted.ts'
import type { ChromiumRun } from './process.ts'

const forever = new AbortController().signal
const page = (targetId: string, type = 'page') => ({ targetId, type, title: '', url: '', attached: false, canAccessOpener: false })

test('input asks each page that was just navigated once, in a session that is then ended, and asks other pages nothing', async () => {
  const { cdp, sent, emit } = fakeCdp()
  const painted = await watchPaints(cdp, silentLog)
  emit('Target.targetCreated', { targetInfo: page('new') })
  emit('Target.targetInfoChanged', { targetInfo: page('new') })
  emit('Target.targetCreated', { targetInfo: page('gone') })
  emit('Target.targetDestroyed', { targetId: 'gone' })
  emit('Target.targetCreated', { targetInfo: page('worker', 'service_worker') })
  sent.length = 0
  await painted(forever)
  expect(sent.map(({ method, sessionId }) => [method, sessionId])).toEqual([
    ['Target.attachToTarget', undefined],
    ['Page.createIsolatedWorld', 'session-1'],
    ['Runtime.evaluate', 'session-1'],
    ['Target.detachFromTarget', undefined],
  ])
  await painted(forever)
  expect(sent).toHaveLength(4)
})

test('input waits once for each navigation, also of one that changes nothing about its page; who attaches to a page does not navigate it', async () => {
  const { cdp, sent, replies, emit } = fakeCdp()
  let clients = 0
  const changed = () => emit('Target.targetInfoChanged', { targetInfo: { ...page('one'), attached: clients > 0 } })
  // Like Chromium: an event for the first client, and one after the last one.
  const client = (change: 1 | -1) => {
    clients += change
    if (clients === (change === 1 ? 1 : 0)) changed()
  }
  const attach = replies['Target.attachToTarget']!
  replies['Target.attachToTarget'] = (params) => {
    client(1)
    return attach(params)
  }
  replies['Target.detachFromTarget'] = () => client(-1)
  const painted = await watchPaints(cdp, silentLog)
  const waits = async (inputs: number) => {
    sent.length = 0
    for (let input = 0; input < inputs; input++) await painted(forever)
    return sent.filter(({ method }) => method === 'Runtime.evaluate').length
  }
  emit('Target.targetCreated', { targetInfo: page('one') })
  expect(await waits(10)).toBe(1)
  client(1)
  expect(await waits(10)).toBe(0)
  changed()
  expect(await waits(10)).toBe(1)
  client(-1)
  expect(await waits(10)).toBe(0)
  changed()
  client(1)
  client(-1)
  expect(await waits(10)).toBe(1)
})

test('a page that is closed while input waits for it delays the input no longer', async () => {
  const { cdp, sent, emit } = fakeCdp({ 'Runtime.evaluate': silence })
  const painted = await watchPaints(cdp, silentLog)
  emit('Target.targetCreated', { targetInfo: page('new') })
  // No limit ends the wait.
  vi.useFakeTimers({ toFake: ['setTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const waiting = painted(forever)
  await expect.poll(() => sent.at(-1)?.method).toBe('Runtime.evaluate')
  emit('Target.detachedFromTarget', { sessionId: 'session-1', targetId: 'new' })
  await waiting
})

test('after a shortcut, each page and frame is asked whether it is on the screen, and those that are whether they have handled their input', async () => {
  const { cdp, sent, replies } = fakeCdp()
  replies['Target.getTargets'] = () => ({ targetInfos: [page('seen'), page('frame', 'iframe'), page('other', 'service_worker')] })
  replies['Runtime.evaluate'] = ({ expression }) => ({ result: { value: !String(expression).includes('hasFocus') } })
  await pagesHandled({ run: async () => ({ pipe: cdp }) as ChromiumRun }, silentLog)()
  const ofSession = (id: string) => sent.filter(({ sessionId, params }) => sessionId === id || params.sessionId === id).map(({ method }) => method)
  expect(sent.filter(({ sessionId }) => sessionId === undefined).map(({ method }) => method)).toEqual([
    'Target.getTargets',
    'Target.attachToTarget',
    'Target.attachToTarget',
    'Target.detachFromTarget',
    'Target.detachFromTarget',
  ])
  expect(ofSession('session-1')).toEqual(['Runtime.evaluate', 'Input.synthesizeScrollGesture', 'Target.detachFromTarget'])
  expect(ofSession('session-2')).toEqual(['Runtime.evaluate', 'Target.detachFromTarget'])
})
