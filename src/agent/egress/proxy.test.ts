// Whether Chromium uses its proxy, checked with a fake browser.
import { expect, onTestFinished, test } from 'vitest'
import { silentLog } from '../../base/log.ts'
import { PROXY_ERROR_HEADER } from '../../base/proxy-probe.ts'
import type { Cdp } from '../chromium/cdp.ts'
import { makeBrowserProxy } from './proxy.ts'

/** A browser that follows its policy, with a client's page. */
function pretended() {
  const asked: string[] = []
  const open = new Set<string>()
  const pipe = {
    async send(method: string, { targetId }: { targetId?: string }) {
      if (method === 'Target.createTarget') return { targetId: (open.add('hidden'), 'hidden') }
      if (method === 'Target.closeTarget') return open.delete(targetId!)
      throw new Error(method)
    },
    async session(targetId: string) {
      asked.push(targetId)
      const send = async () => ({ resource: { headers: { [PROXY_ERROR_HEADER]: 'refused' } } })
      return { targetId, send, async [Symbol.asyncDispose]() {} }
    },
  }
  const proxy = makeBrowserProxy({
    browser: { run: async () => ({ pipe: pipe as unknown as Cdp }) as never, useProxy: () => {}, followProxy: async () => {} },
    writePolicy: () => {},
    apiPorts: [],
    log: silentLog,
  })
  onTestFinished(() => proxy.use({ on: false }))
  return { asked, open, proxy }
}

test('no page of a client is asked: a hidden one is, which is closed again', async () => {
  const { asked, open, proxy } = pretended()
  await proxy.use({ on: true, links: 'a key of sixteen or more' })
  await proxy.confirmed()
  expect(asked).toEqual(['hidden'])
  expect([...open]).toEqual([])
})

test('other links of the same port are no matter of the browser, other hosts without the proxy are; one that has just started is asked again', async () => {
  const { asked, proxy } = pretended()
  const after = async (what: object) => {
    await proxy.use({ on: true, links: 'a key of sixteen or more', ...what })
    await proxy.confirmed()
    return asked.length
  }
  expect([await after({}), await after({ links: 'another key of sixteen' }), await after({ direct: ['a.test'] })]).toEqual([1, 1, 2])
  await proxy.confirmed({ isNewRun: true })
  expect(asked).toHaveLength(3)
})
