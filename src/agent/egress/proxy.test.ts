// Whether Chromium uses its proxy, asked of a pretended browser.
import { expect, onTestFinished, test } from 'vitest'
import { silentLog } from '../../base/log.ts'
import { PROXY_ERROR_HEADER } from '../../base/proxy-probe.ts'
import { CdpRefusal, type Cdp } from '../chromium/cdp.ts'
import { makeBrowserProxy } from './proxy.ts'

/** A browser with one page, whose site forbids requests to others. */
function strictPage() {
  const asked: string[] = []
  const open = new Set<string>()
  const pipe = {
    async send(method: string, { targetId }: { targetId?: string }) {
      if (method === 'Target.getTargets') return { targetInfos: [{ type: 'page', targetId: 'shown' }] }
      if (method === 'Target.createTarget') return { targetId: (open.add('hidden'), 'hidden') }
      if (method === 'Target.closeTarget') return open.delete(targetId!)
      throw new Error(method)
    },
    async session(page: string) {
      asked.push(page)
      return {
        async send() {
          if (page === 'shown') throw new CdpRefusal('CSP violation')
          return { resource: { headers: { [PROXY_ERROR_HEADER]: 'refused' } } }
        },
        async [Symbol.asyncDispose]() {},
      }
    },
  }
  return { asked, open, pipe: pipe as unknown as Cdp }
}

test('a page whose policy forbids the question is not asked: a hidden one is, which is closed again', async () => {
  const { asked, open, pipe } = strictPage()
  const proxy = makeBrowserProxy({ browser: { run: async () => ({ pipe }) as never }, writePolicy: () => {}, apiPorts: [], log: silentLog })
  await proxy.use({ on: true, links: 'a key of sixteen or more' })
  onTestFinished(async () => {
    await proxy.use({ on: false })
  })
  await proxy.confirmed()
  expect(asked).toEqual(['shown', 'hidden'])
  expect([...open]).toEqual([])
})
