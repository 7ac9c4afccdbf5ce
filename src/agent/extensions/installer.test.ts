// The installer over a Chromium that follows its policy as a test requires.
import { expect, test } from 'vitest'
import type { Keeper } from '../chromium/keeper.ts'
import type { Forced } from './by-policy.ts'
import { extensionInstaller } from './installer.ts'

const forced = (id: string): Forced => ({ id, updateUrl: `file:///x/${id}/update.xml` })

/** A Chromium that misses the first `missed` changes of its policy, and never installs what is in `refused`. */
function pretended({ missed = 0, refused = [] }: { missed?: number; refused?: string[] } = {}) {
  const written: string[][] = []
  const closed: string[] = []
  const runs = () => (written.length > missed ? written.at(-1)!.filter((id) => !refused.includes(id)) : [])
  const send = async (method: string, { targetId }: { targetId?: string }) => {
    if (method === 'Target.closeTarget') closed.push(targetId!)
    return { targetId: 'hidden' }
  }
  const session = async () => ({
    send: async (_method: string, { url }: { url: string }) => {
      const isRunning = runs().includes(new URL(url).host)
      return { resource: { success: false, netErrorName: isRunning ? 'net::ERR_BLOCKED_BY_CLIENT' : 'net::ERR_FAILED' } }
    },
    [Symbol.asyncDispose]: async () => {},
  })
  const browser = { run: async () => ({ pipe: { send, session } }) } as unknown as Pick<Keeper, 'run'>
  const installer = extensionInstaller(browser, (all) => written.push(all.map(({ id }) => id)), 1_200)
  return { installer, written, closed }
}

test('each change names all extensions; those that run are not missing, and the page that asks is closed', async () => {
  const { installer, written, closed } = pretended()
  installer.add([forced('a')])
  installer.add([forced('b')])
  expect(await installer.missing(['a', 'b'])).toEqual([])
  installer.remove(['a', 'unknown'])
  installer.remove(['unknown'])
  expect([written, closed]).toEqual([[['a'], ['a', 'b'], ['b']], ['hidden']])
})

test('a change that Chromium has missed is made again', async () => {
  const { installer, written } = pretended({ missed: 1 })
  installer.add([forced('a')])
  expect(await installer.missing(['a'])).toEqual([])
  expect(written).toEqual([['a'], ['a']])
})

test('those that Chromium does not install are told after a while', async () => {
  const { installer } = pretended({ refused: ['b'] })
  installer.add([forced('a'), forced('b')])
  expect(await installer.missing(['a', 'b'])).toEqual(['b'])
})
