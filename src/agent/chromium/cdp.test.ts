// The CDP client with a fake Chromium: answers, sessions, events, ends and limits.
import { expect, test } from 'vitest'
import { exceptionsAtTop, fakeCdp, silence } from '../../../test/support/fake-cdp.ts'
import { WaitTimeout } from '../../base/wait.ts'
import { CdpGone, CdpRefusal, makeCdp, type CdpSession } from './cdp.ts'

/** The state of a promise at this moment. */
async function stateOf(promise: Promise<unknown>): Promise<string> {
  const settled = promise.then(
    () => 'resolved',
    () => 'rejected',
  )
  return Promise.race([settled, new Promise<string>((resolve) => setImmediate(resolve, 'pending'))])
}

const bare = () => {
  const written: { id: number; method: string; sessionId?: string }[] = []
  const { cdp, receiver } = makeCdp((text) => void written.push(JSON.parse(text)))
  return { cdp, receiver, written, tell: (message: unknown) => receiver.onMessage(JSON.stringify(message)) }
}

test('an answer reaches its own command, in whatever order answers come', async () => {
  const { cdp, written, tell } = bare()
  const [first, second] = [cdp.send('Target.createTarget', { url: 'a' }), cdp.send('Target.createTarget', { url: 'b' })]
  expect(written).toEqual([
    { id: 1, method: 'Target.createTarget', params: { url: 'a' } },
    { id: 2, method: 'Target.createTarget', params: { url: 'b' } },
  ])
  tell({ id: 2, result: { targetId: 'B' } })
  tell({ id: 1, result: { targetId: 'A' } })
  expect([await first, await second]).toEqual([{ targetId: 'A' }, { targetId: 'B' }])
})

test("a refusal has Chromium's message; one that says that the target is gone is told apart; an answer without a result is refused", async () => {
  const { cdp, tell } = bare()
  const [refused, gone, neither] = [cdp.send('Page.enable', {}), cdp.send('Page.enable', {}), cdp.send('Page.enable', {})]
  tell({ id: 1, error: { code: -32_000, message: 'Cannot navigate' } })
  tell({ id: 2, error: { code: -32_001, message: 'Session with given id not found.' } })
  tell({ id: 3, result: 'text' })
  for (const [work, kind, message] of [
    [refused, CdpRefusal, 'Cannot navigate'],
    [gone, CdpGone, 'Session with given id not found.'],
    [neither, CdpRefusal, 'the answer has no result'],
  ] as const) {
    const error = await work.catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(kind)
    expect(error).toHaveProperty('message', message)
  }
})

test('events reach the listeners of their own session only, in order, until the listener is removed', async () => {
  const { cdp, sent, emit } = fakeCdp()
  const [first, second] = [await cdp.session('a'), await cdp.session('a')]
  expect(sent.map(({ method, params }) => [method, params])).toEqual(
    Array.from({ length: 2 }, () => ['Target.attachToTarget', { targetId: 'a', flatten: true }]),
  )
  const heard: string[] = []
  const leave = first.on('Network.loadingFinished', ({ requestId }) => heard.push(`first ${requestId}`))
  const also = ({ requestId }: { requestId: string }) => void heard.push(`also ${requestId}`)
  const alsoLeaves = first.on('Network.loadingFinished', also)
  second.on('Network.loadingFinished', ({ requestId }) => heard.push(`second ${requestId}`))
  cdp.on('Network.loadingFinished', ({ requestId }) => heard.push(`browser ${requestId}`))
  emit('Network.loadingFinished', { requestId: '1' }, 'session-1')
  emit('Network.loadingFinished', { requestId: '2' }, 'session-2')
  emit('Network.loadingFinished', { requestId: '3' })
  emit('Network.loadingFinished', { requestId: '4' }, 'unknown')
  emit('Network.loadingFailed', { requestId: '5' }, 'session-1')
  leave()
  emit('Network.loadingFinished', { requestId: '6' }, 'session-1')
  alsoLeaves()
  emit('Network.loadingFinished', { requestId: '7' }, 'session-1')
  expect(heard).toEqual(['first 1', 'also 1', 'second 2', 'browser 3', 'also 6'])
})

test('a command names its session', async () => {
  const { cdp, sent } = fakeCdp()
  const page = await cdp.session('a')
  await page.send('Page.navigate', { url: 'about:blank' })
  expect(sent.at(-1)).toMatchObject({ method: 'Page.navigate', params: { url: 'about:blank' }, sessionId: 'session-1' })
})

test('a session whose page closes rejects its pending commands and gets no events; the others continue', async () => {
  const { cdp, emit, sent } = fakeCdp({ 'IO.read': silence })
  const [gone, stays] = [await cdp.session('a'), await cdp.session('b')]
  const heard: string[] = []
  gone.on('Network.loadingFinished', () => heard.push('gone'))
  gone.detached.addEventListener('abort', () => heard.push('detached'))
  const [lost, kept] = [gone.send('IO.read', { handle: 'h' }), stays.send('IO.read', { handle: 'h' })]
  emit('Target.detachedFromTarget', { sessionId: 'session-1', targetId: 'a' })
  expect(heard).toEqual(['detached'])
  await expect(lost).rejects.toBeInstanceOf(CdpGone)
  emit('Network.loadingFinished', {}, 'session-1')
  gone.on('Network.loadingFinished', () => heard.push('late'))
  emit('Network.loadingFinished', {}, 'session-1')
  const before = sent.length
  await expect(gone.send('Page.enable', {})).rejects.toBeInstanceOf(CdpGone)
  await gone.detach()
  expect([heard, sent.length, stays.detached.aborted, await stateOf(kept)]).toEqual([['detached'], before, false, 'pending'])
})

test('a page that closes in the moment after its session was opened ends the session', async () => {
  const { cdp, tell } = bare()
  const opening = cdp.session('a')
  // Both arrive in one piece, so no promise settles between them.
  tell({ id: 1, result: { sessionId: 's' } })
  tell({ method: 'Target.detachedFromTarget', params: { sessionId: 's', targetId: 'a' } })
  const page = await opening
  expect(page.detached.aborted).toBe(true)
  await expect(page.send('Page.enable', {})).rejects.toBeInstanceOf(CdpGone)
})

test('a session that is no longer needed is ended in Chromium; also when its page closes meanwhile, and when the work in it fails', async () => {
  const { cdp, sent, replies, emit } = fakeCdp()
  const failing = async () => {
    await using page = await cdp.session('a')
    await page.send('Page.enable', {})
    throw new Error('the work failed')
  }
  await expect(failing()).rejects.toThrow('the work failed')
  expect(sent.at(-1)).toMatchObject({ method: 'Target.detachFromTarget', params: { sessionId: 'session-1' } })
  expect(sent.at(-1)).not.toHaveProperty('sessionId')

  const page = await cdp.session('b')
  replies['Target.detachFromTarget'] = () => {
    emit('Target.detachedFromTarget', { sessionId: 'session-2', targetId: 'b' })
    throw new Error('No session with given id')
  }
  await page.detach()
  const refused = await cdp.session('c')
  replies['Target.detachFromTarget'] = () => {
    throw new Error('not now')
  }
  await expect(refused.detach()).rejects.toThrow('not now')
  expect([page.detached.aborted, refused.detached.aborted]).toEqual([true, true])
})

test('a session that is dropped ends without a word to Chromium', async () => {
  const { cdp, sent } = fakeCdp({ 'IO.read': silence })
  const page = await cdp.session('a')
  const reading = page.send('IO.read', { handle: 'h' })
  const before = sent.length
  page.drop()
  await expect(reading).rejects.toBeInstanceOf(CdpGone)
  expect([page.detached.aborted, sent.length]).toEqual([true, before])
})

test('when the connection ends, all commands are rejected, all sessions are detached, and nothing more is sent', async () => {
  const { cdp, sent, receiver } = fakeCdp({ 'IO.read': silence, 'Browser.getVersion': silence })
  const page = await cdp.session('a')
  const pending = [page.send('IO.read', { handle: 'h' }), cdp.send('Browser.getVersion', {})]
  const before = sent.length
  receiver.onEnd(new Error('why'))
  receiver.onEnd()
  for (const one of pending) await expect(one).rejects.toMatchObject({ message: 'the browser closed the connection', cause: { message: 'why' } })
  await expect(cdp.send('Browser.close', {})).rejects.toBeInstanceOf(CdpGone)
  await expect(cdp.session('b')).rejects.toBeInstanceOf(CdpGone)
  expect([page.detached.aborted, cdp.ended.aborted, sent.length]).toEqual([true, true, before])
})

test('a command ends at its limit or with its signal, and its late answer changes nothing', async () => {
  const { cdp, tell, written } = bare()
  await expect(cdp.send('Page.enable', {}, { limitMs: 5 })).rejects.toBeInstanceOf(WaitTimeout)
  const left = new AbortController()
  const leaving = cdp.send('Page.enable', {}, { signal: left.signal })
  left.abort(new Error('left'))
  await expect(leaving).rejects.toThrow('left')
  await expect(cdp.send('Page.enable', {}, { signal: left.signal })).rejects.toThrow('left')
  expect(written).toHaveLength(2)
  const next = cdp.send('Target.createTarget', { url: '' })
  for (const id of [1, 2, 2, 77, 'x', null]) tell({ id, result: { targetId: 'late' } })
  tell({ id: 3, result: { targetId: 'mine' } })
  expect(await next).toEqual({ targetId: 'mine' })
})

test('a session that opens after its caller has left is ended in Chromium', async () => {
  const { cdp, tell, written } = bare()
  const left = new AbortController()
  const opening = cdp.session('a', { signal: left.signal })
  left.abort(new Error('left'))
  await expect(opening).rejects.toThrow('left')
  await expect(cdp.session('b', { limitMs: 5 })).rejects.toBeInstanceOf(WaitTimeout)
  tell({ id: 1, result: { sessionId: 's' } })
  tell({ id: 2, error: { message: 'No target with given id found' } })
  await expect.poll(() => written.slice(2)).toEqual([{ id: 3, method: 'Target.detachFromTarget', params: { sessionId: 's' } }])
})

test('a browser that answers nothing gets 10,000 commands and no more; an answer makes room', async () => {
  const { cdp, receiver, written, tell } = bare()
  const all = Array.from({ length: 10_000 }, () => cdp.send('Page.enable', {}))
  await expect(cdp.send('Page.enable', {})).rejects.toThrow('the browser has not answered 10000 commands')
  tell({ id: 1, result: {} })
  await all[0]
  all.push(cdp.send('Page.enable', {}))
  expect(written).toHaveLength(10_001)
  receiver.onEnd()
  expect((await Promise.allSettled(all)).filter(({ status }) => status === 'rejected')).toHaveLength(10_000)
})

test('sessions that Chromium has opened get 2,000 commands without an answer, those that are urgent besides, and take nothing from others', async () => {
  const { cdp, receiver, written } = bare()
  const page = cdp.adopt('s', 'a')
  const all: Promise<unknown>[] = Array.from({ length: 2_000 }, () => page.send('Page.enable', {}))
  await expect(page.send('Page.enable', {})).rejects.toThrow('the browser has not answered 2000 commands')
  all.push(page.send('Runtime.runIfWaitingForDebugger', {}, { isUrgent: true }), cdp.send('Browser.getVersion', {}))
  expect(written).toHaveLength(2_002)
  receiver.onEnd()
  expect((await Promise.allSettled(all)).filter(({ status }) => status === 'rejected')).toHaveLength(2_002)
})

test('a message that is not CDP, or a listener that fails, is an exception at the top, and the next messages are read', async () => {
  using top = exceptionsAtTop()
  const { cdp, receiver, tell } = bare()
  const heard: string[] = []
  cdp.on('Target.targetDestroyed', () => {
    throw new Error('the listener failed')
  })
  cdp.on('Target.targetDestroyed', ({ targetId }) => heard.push(targetId))
  for (const text of ['{', 'null', '[]', '"text"', '{}', '{"method":7,"params":[]}', '{"method":"Target.detachedFromTarget"}']) receiver.onMessage(text)
  tell({ method: 'Target.targetDestroyed', params: { targetId: 't' } })
  expect(heard).toEqual(['t'])
  expect(top.thrown).toEqual([
    expect.stringContaining('JSON'),
    ...Array.from({ length: 3 }, () => expect.stringContaining('not an object')),
    'the listener failed',
  ])
})

test('a session that Chromium has opened by itself gets its events at once, ends with the one that it was opened in, and is left there', async () => {
  const { cdp, sent, emit } = fakeCdp()
  const page = await cdp.session('page')
  const heard: string[] = []
  let inside: CdpSession | undefined
  page.on('Target.attachedToTarget', ({ sessionId, targetInfo }) => {
    inside = cdp.adopt(sessionId, targetInfo.targetId, page)
    inside.on('Page.loadEventFired', () => heard.push(targetInfo.targetId))
  })
  const attach = (targetId: string) => emit('Target.attachedToTarget', { sessionId: `own-${targetId}`, targetInfo: { targetId } }, 'session-1')
  attach('frame')
  emit('Page.loadEventFired', {}, 'own-frame')
  expect(heard).toEqual(['frame'])
  await inside!.detach()
  expect(sent.at(-1)).toMatchObject({ method: 'Target.detachFromTarget', params: { sessionId: 'own-frame' }, sessionId: 'session-1' })
  attach('other')
  page.drop()
  expect(inside!.detached.aborted).toBe(true)
})
