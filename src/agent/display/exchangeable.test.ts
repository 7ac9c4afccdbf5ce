// A display that is exchanged while tools use it, over pretended displays.
import { expect, test } from 'vitest'
import type { Viewport } from '../session/contract.ts'
import type { Controls, Display } from './display.ts'
import { exchangeable } from './exchangeable.ts'

/** A display that notes what is done with it. `change` is that of its screen. */
function pretended(name: string, did: string[]) {
  let viewport: Viewport = { width: 100, height: 100, refresh_rate: 60 }
  let hidden = false
  const watchers = new Set<() => void>()
  const resized: (() => Promise<void>)[] = []
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  const screen: Display['screen'] = {
    get viewport() {
      return viewport
    },
    async resize(wanted) {
      did.push(`${name}: ${wanted.width}`)
      viewport = wanted
      for (const listener of resized) await listener()
    },
    cursor: {
      get hidden() {
        return hidden
      },
      hide: (wanted) => void (hidden = wanted),
    },
    version: async () => 7,
    capture: async () => Promise.reject(new Error('not pretended')),
    copy: async () => Promise.reject(new Error('not pretended')),
    watch(onChange) {
      watchers.add(onChange)
      return () => void watchers.delete(onChange)
    },
    onResize: (listener) => void resized.push(listener),
  }
  const display = {
    screen,
    windows: { alwaysFull: name === 'first' } as Display['windows'],
    env: { NAME: name },
    ended,
    said: () => name,
    openControls: async () => ({ input: { move: (x: number) => void did.push(`${name} at ${x}`) } }) as unknown as Controls,
    openPicture: () => ({ connect: async () => Promise.reject(new Error(`the picture of ${name}`)) }),
    close: end,
  }
  return { display, watchers, end, change: () => watchers.forEach((watcher) => watcher()) }
}

test('tools keep their parts, which belong to the next display then; it gets the size, the cursor and the watchers, and the former one gets nothing more', async () => {
  const did: string[] = []
  const [first, second] = [pretended('first', did), pretended('second', did)]
  const display = exchangeable(first.display)
  const { screen, windows } = display
  const { input } = await display.openControls()
  const picture = display.openPicture(() => {})
  await expect(picture.connect(AbortSignal.timeout(1_000))).rejects.toThrow('the picture of first')
  let changes = 0
  let sizes = 0
  const unwatch = screen.watch(() => changes++)
  screen.onResize(async () => void sizes++)
  await screen.resize({ width: 300, height: 200, refresh_rate: 60 })
  screen.cursor.hide(true)
  input.move(1, 1)
  const before = await screen.version()

  expect(await display.exchange(second.display)).toBe(first.display)
  expect([screen.viewport.width, screen.cursor.hidden, windows.alwaysFull, display.env, display.said()]).toEqual([
    300,
    true,
    false,
    { NAME: 'second' },
    'second',
  ])
  await expect(picture.connect(AbortSignal.timeout(1_000))).rejects.toThrow('the picture of second')
  input.move(2, 2)
  expect(did).toEqual(['first: 300', 'first at 1', 'second: 300', 'second at 2'])
  // The picture is another one, although both screens count the same.
  expect([changes, (await screen.version()) === before]).toEqual([1, false])
  first.change()
  second.change()
  expect([changes, first.watchers.size]).toEqual([2, 0])
  const counted = sizes
  await screen.resize({ width: 400, height: 200, refresh_rate: 60 })
  expect(sizes).toBe(counted + 1)
  unwatch()
  expect(second.watchers.size).toBe(0)
})

test('it ends with the present display, not with a former one', async () => {
  const [first, second] = [pretended('first', []), pretended('second', [])]
  const display = exchangeable(first.display)
  let hasEnded = false
  void display.ended.then(() => (hasEnded = true))
  const former = await display.exchange(second.display)
  former.close()
  await former.ended
  await Promise.resolve()
  expect(hasEnded).toBe(false)
  second.end()
  await display.ended
})

test('a display that cannot take the size changes nothing', async () => {
  const did: string[] = []
  const [first, second] = [pretended('first', did), pretended('second', did)]
  const display = exchangeable(first.display)
  await display.screen.resize({ width: 300, height: 200, refresh_rate: 60 })
  second.display.screen.resize = async () => Promise.reject(new Error('too large'))
  await expect(display.exchange(second.display)).rejects.toThrow('too large')
  expect(display.said()).toBe('first')
})
