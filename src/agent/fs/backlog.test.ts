// A watch's queue for its readers: every event in order, or a notice of lost events.
import { describe, expect, test } from 'vitest'
import { Backlog, MAX_CHARS, MAX_EVENTS } from './backlog.ts'
import type { WatchEvent } from './contract.ts'

const event = (name: string, type: 'CREATE' | 'WRITE' = 'CREATE'): WatchEvent => ({ type, path: `/d/${name}`, name, is_dir: false })
const nameOf = (value: WatchEvent | undefined): string | undefined => (value === undefined ? undefined : 'event' in value ? value.error.code : value.name)

/** A reader that takes one event at a time. */
function reading(backlog: Backlog) {
  const left = new AbortController()
  const events = backlog.read(left.signal)
  return {
    next: async () => nameOf((await events.next()).value as WatchEvent | undefined),
    leave: async () => {
      left.abort()
      await events.return(undefined)
    },
  }
}

describe('the events of a watch', () => {
  test('are kept before the first reader comes, and it then gets later ones as well', async () => {
    const backlog = new Backlog()
    backlog.push(event('a'))
    backlog.push(event('b'))
    const reader = reading(backlog)
    expect([await reader.next(), await reader.next()]).toEqual(['a', 'b'])
    const waiting = reader.next()
    backlog.push(event('c'))
    expect(await waiting).toBe('c')
    backlog.end()
    expect(await reader.next()).toBeUndefined()
  })

  test('go to all readers; a later reader gets those from its start on', async () => {
    const backlog = new Backlog()
    backlog.push(event('a'))
    const first = reading(backlog)
    expect(await first.next()).toBe('a')
    const second = reading(backlog)
    const [one, two] = [first.next(), second.next()]
    backlog.push(event('b'))
    expect([await one, await two]).toEqual(['b', 'b'])
  })

  test('continue for the next reader where the last one left', async () => {
    const backlog = new Backlog()
    const first = reading(backlog)
    const waiting = first.next()
    backlog.push(event('a'))
    expect(await waiting).toBe('a')
    const again = first.next()
    await first.leave()
    expect(await again).toBeUndefined()
    backlog.push(event('b'))
    const second = reading(backlog)
    expect(await second.next()).toBe('b')
  })

  test.each([
    ['events', () => Array.from({ length: MAX_EVENTS + 7 }, (_, index) => event(String(index)))],
    ['characters', () => Array.from({ length: 2_000 }, (_, index) => event(`${'x'.repeat(2_000)}${index}`))],
  ])('are limited to so many %s; a late reader first learns how many are missing', async (_, make) => {
    const backlog = new Backlog()
    const all = make()
    for (const each of all) backlog.push(each)
    backlog.end()
    const got: WatchEvent[] = []
    for await (const each of backlog.read(new AbortController().signal)) got.push(each)
    expect(got[0]).toMatchObject({ event: 'error', error: { code: 'overflow', message: expect.stringContaining(String(all.length - got.length + 1)) } })
    expect(got.slice(1)).toEqual(all.slice(1 - got.length))
    expect(got.length).toBeLessThanOrEqual(MAX_EVENTS + 1)
    expect(JSON.stringify(got).length).toBeLessThan(MAX_CHARS * 1.5)
    expect(got.length).toBeGreaterThan(400)
  })

  test('report their loss to a reader that falls behind, and then continue', async () => {
    const backlog = new Backlog()
    const reader = reading(backlog)
    const waiting = reader.next()
    backlog.push(event('first'))
    expect(await waiting).toBe('first')
    for (let i = 0; i < MAX_EVENTS + 100; i++) backlog.push(event(String(i)))
    expect([await reader.next(), await reader.next()]).toEqual(['overflow', '100'])
  })

  test.each([
    ['has left', async (first: ReturnType<typeof reading>) => first.leave()],
    ['is not yet noticed as gone', async () => {}],
  ])('report their loss to a reader that follows one that was blocked and %s', async (_, end) => {
    const backlog = new Backlog()
    for (const name of ['a', 'b', 'c']) backlog.push(event(name))
    const first = reading(backlog)
    expect(await first.next()).toBe('a')
    expect(await first.next()).toBe('b')
    await end(first)
    const second = reading(backlog)
    expect([await second.next(), await second.next(), await second.next()]).toEqual(['overflow', 'b', 'c'])
  })

  test('merge repeated writes to a file until a reader has got the first, and never omit the last', async () => {
    const backlog = new Backlog()
    for (let i = 0; i < 5; i++) backlog.push(event('a', 'WRITE'))
    backlog.push(event('b', 'WRITE'))
    backlog.push(event('a', 'WRITE'))
    const reader = reading(backlog)
    expect([await reader.next(), await reader.next(), await reader.next()]).toEqual(['a', 'b', 'a'])
    backlog.push(event('a', 'WRITE'))
    expect(await reader.next()).toBe('a')
  })

  test('end with the failure, after everything that came before it', async () => {
    const backlog = new Backlog()
    backlog.push(event('a'))
    backlog.end(new Error('broken'))
    const reader = reading(backlog)
    expect(await reader.next()).toBe('a')
    await expect(reader.next()).rejects.toMatchObject({ code: 'unavailable' })
  })
})
