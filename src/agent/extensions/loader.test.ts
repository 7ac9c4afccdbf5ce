// Loading extensions over a Chromium that answers as a test says.
import { describe, expect, test } from 'vitest'
import { silentLog } from '../../base/log.ts'
import { CdpRefusal } from '../chromium/cdp.ts'
import type { Browser } from '../chromium/keeper.ts'
import { extensionLoader } from './loader.ts'

/** A Chromium whose extensions have the id `id-<folder>`, or the one that `keys` gives a folder. */
function pretended({ refused = [], keys = {}, disabled = [] }: { refused?: string[]; keys?: Record<string, string>; disabled?: string[] } = {}) {
  const running = new Map<string, string>()
  const send = async (method: string, params: { path?: string; id?: string }): Promise<object> => {
    if (method === 'Extensions.getExtensions')
      return { extensions: [...running].map(([id, path]) => ({ id, path, enabled: !disabled.includes(path.slice('/x/'.length)) })) }
    if (method === 'Extensions.uninstall') return running.delete(params.id!) ? {} : Promise.reject(new CdpRefusal('not installed'))
    const name = params.path!.slice('/x/'.length)
    if (refused.includes(name)) throw new CdpRefusal('the manifest is wrong')
    const id = keys[name] ?? `id-${name}`
    running.set(id, params.path!)
    return { id }
  }
  const browser = { run: async () => ({ pipe: { send } }) } as unknown as Pick<Browser, 'run'>
  return { running, refused, loader: extensionLoader(browser, '/x', silentLog) }
}

describe('extensions', () => {
  test('are loaded from their folders, and are checked to run', async () => {
    const { loader, running } = pretended()
    await (
      await loader.load(['a', 'b'])
    )()
    expect([...running]).toEqual([
      ['id-a', '/x/a'],
      ['id-b', '/x/b'],
    ])
  })

  test('that Chromium has and does not run are told of', async () => {
    const check = await pretended({ disabled: ['b'] }).loader.load(['a', 'b'])
    await expect(check()).rejects.toThrow('Chromium does not run the extensions id-b')
  })

  test('are all taken out again when one is refused, and the error names it', async () => {
    const { loader, running } = pretended({ refused: ['c'] })
    await loader.load(['a'])
    await expect(loader.load(['b', 'c'])).rejects.toMatchObject({ status: 400, message: 'extensions: Chromium does not load "c": the manifest is wrong' })
    expect([...running.keys()]).toEqual(['id-a'])
  })

  test('that are the same by their key are refused, and the one before stays', async () => {
    const { loader, running } = pretended({ keys: { a: 'same', b: 'same' } })
    await loader.load(['a'])
    await expect(loader.load(['b'])).rejects.toThrow('"b" and "a" are the same extension')
    expect([...running]).toEqual([['same', '/x/a']])
    await expect(pretended({ keys: { a: 'same', b: 'same' } }).loader.load(['a', 'b'])).rejects.toThrow('"b" and "a" are the same extension')
  })
})

describe('after a restart of Chromium', () => {
  test('all are loaded again; one whose folder was spoiled is left out', async () => {
    const { loader, running, refused } = pretended()
    await loader.load(['a', 'b'])
    running.clear()
    refused.push('a')
    await (
      await loader.again()
    )()
    expect([...running.keys()]).toEqual(['id-b'])
  })

  test('those of a refused call are not loaded', async () => {
    const { loader, running } = pretended({ refused: ['b'] })
    await expect(loader.load(['a', 'b'])).rejects.toThrow()
    await (
      await loader.again()
    )()
    expect([...running]).toEqual([])
  })

  test('that ends Chromium once more is an error', async () => {
    const loader = extensionLoader({ run: async () => Promise.reject(new Error('it has ended')) } as unknown as Pick<Browser, 'run'>, '/x', silentLog)
    await expect(loader.load(['a'])).rejects.toThrow('it has ended')
    await (
      await loader.again()
    )()
  })
})
