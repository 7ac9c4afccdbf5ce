// The tabs of a lean browser, over a pretended one: which addresses the next browser opens.
import { EventEmitter } from 'node:events'
import { expect, test } from 'vitest'
import { silentLog } from '../../base/log.ts'
import type { ChromiumRun } from './process.ts'
import { Tabs } from './tabs.ts'

function pretended() {
  const events = new EventEmitter()
  let made = 0
  const pipe = {
    on: (name: string, listener: (params: unknown) => void) => void events.on(name, listener),
    ended: new AbortController().signal,
    send: async () => {
      const targetId = `other-${++made}`
      tell(targetId, '')
      return { targetId }
    },
    session: async () => ({ send: async () => ({}), [Symbol.asyncDispose]: async () => {} }),
  }
  const tell = (targetId: string, url: string) => events.emit('Target.targetInfoChanged', { targetInfo: { targetId, type: 'page', url } })
  return { run: { pipe, firstPage: 'first' } as unknown as ChromiumRun, tell }
}

test('a tab that was opened again counts with its address before its page has one, and then with that of its page', async () => {
  const tabs = new Tabs()
  const { run, tell } = pretended()
  tabs.follow(run)
  tell('first', 'about:blank')
  await tabs.reopen(run, ['http://a/', 'http://b/'], silentLog)
  expect(tabs.open).toEqual(['http://a/', 'http://b/'])
  tell('first', 'http://a/moved')
  tell('other-1', 'http://b/')
  expect(tabs.open).toEqual(['http://a/moved', 'http://b/'])
  tell('first', 'about:blank')
  expect(tabs.open).toEqual(['http://b/'])
})
