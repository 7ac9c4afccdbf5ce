// Reading pages without their notice, with a fake Chromium. test/e2e/stealth.test.ts has pages that try to detect it.
import { expect, test } from 'vitest'
import { fakeCdp } from '../../../test/support/fake-cdp.ts'
import { evaluateApart, read } from './unseen.ts'

test('what only reads is stopped before it changes anything, and leaves no world in the page', async () => {
  const { cdp, sent } = fakeCdp({ 'Runtime.evaluate': () => ({ result: { value: 'visible' } }) })
  expect(await read(await cdp.session('page'), 'document.visibilityState')).toBe('visible')
  expect(sent.slice(1)).toMatchObject([{ method: 'Runtime.evaluate', params: { throwOnSideEffect: true } }])
})

test('where the page has put a function of its own in the way, the answer comes from a world without it', async () => {
  const { cdp, sent } = fakeCdp({
    'Page.createIsolatedWorld': () => ({ executionContextId: 7 }),
    'Runtime.evaluate': ({ contextId }) =>
      contextId === 7 ? { result: { value: 'hidden' } } : { result: { type: 'object' }, exceptionDetails: { text: 'Possible side-effect' } },
  })
  expect(await read(await cdp.session('page'), 'document.visibilityState')).toBe('hidden')
  expect(sent[2]).toMatchObject({ method: 'Page.createIsolatedWorld', params: { frameId: 'page' } })
})

test('what calls functions is evaluated in a world of its own', async () => {
  const { cdp, sent } = fakeCdp({ 'Page.createIsolatedWorld': () => ({ executionContextId: 7 }), 'Runtime.evaluate': () => ({ result: { value: true } }) })
  expect(await evaluateApart(await cdp.session('page'), 'new Promise(requestAnimationFrame)')).toBe(true)
  expect(sent.at(-1)).toMatchObject({ method: 'Runtime.evaluate', params: { contextId: 7, awaitPromise: true } })
})
