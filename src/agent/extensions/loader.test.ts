// Loading extensions over a Chromium that answers as a test requires.
import { describe, expect, test } from 'vitest'
import { silentLog } from '../../base/log.ts'
import { CdpRefusal } from '../chromium/cdp.ts'
import type { Keeper } from '../chromium/keeper.ts'
import type { Installer } from './installer.ts'
import { extensionLoader } from './loader.ts'

/** A Chromium whose extensions have the id `id-<folder>`, or the one that `keys` gives a folder. */
function pretended({
  refused = [],
  keys = {},
  disabled = [],
  forced = {},
  stuck = [],
}: {
  refused?: string[]
  keys?: Record<string, string>
  disabled?: string[]
  /** Extensions that a policy installs: ids by name. */
  forced?: Record<string, string>
  /** The ids of extensions that Chromium does not install. */
  stuck?: string[]
} = {}) {
  const running = new Map<string, string>()
  const policy = new Set<string>()
  const send = async (method: string, params: { path?: string; id?: string }): Promise<object> => {
    if (method === 'Extensions.getExtensions')
      return { extensions: [...running].map(([id, path]) => ({ id, path, enabled: !disabled.includes(path.slice('/x/'.length)) })) }
    if (method === 'Extensions.uninstall') return running.delete(params.id!) ? {} : Promise.reject(new CdpRefusal('could not find extension'))
    const name = params.path!.slice('/x/'.length)
    if (refused.includes(name)) throw new CdpRefusal('the manifest is wrong')
    const id = keys[name] ?? `id-${name}`
    running.set(id, params.path!)
    return { id }
  }
  const browser = { run: async () => ({ pipe: { send } }) } as unknown as Pick<Keeper, 'run'>
  const folder = { forced: (name: string) => (forced[name] === undefined ? undefined : { id: forced[name], updateUrl: `file:///x/${name}/update.xml` }) }
  const installer: Installer = {
    add: (some) => some.forEach(({ id }) => policy.add(id)),
    remove: (ids) => ids.forEach((id) => policy.delete(id)),
    missing: async (ids) => ids.filter((id) => !policy.has(id) || stuck.includes(id)),
  }
  return { running, policy, refused, stuck, loader: extensionLoader({ browser, dir: '/x', folder, installer, log: silentLog }) }
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

describe('extensions that a policy installs', () => {
  test('are installed when all unpacked ones are loaded', async () => {
    const { loader, running, policy } = pretended({ forced: { p: 'id-p' } })
    await (
      await loader.load(['p', 'a'])
    )()
    expect([[...running.keys()], [...policy]]).toEqual([['id-a'], ['id-p']])
  })

  test('are out again when one is not installed, or an unpacked one is refused; those before stay', async () => {
    const { loader, running, policy, stuck, refused } = pretended({ forced: { p: 'id-p', q: 'id-q' }, stuck: ['id-q'] })
    await loader.load(['p'])
    await expect(loader.load(['a', 'q'])).rejects.toMatchObject({ status: 400, message: expect.stringContaining('Chromium does not install "q" by policy') })
    expect([[...running.keys()], [...policy]]).toEqual([[], ['id-p']])
    stuck.pop()
    refused.push('b')
    await expect(loader.load(['q', 'b'])).rejects.toThrow('Chromium does not load "b"')
    expect([...policy]).toEqual(['id-p'])
    await loader.load(['q'])
    expect([...policy]).toEqual(['id-p', 'id-q'])
  })

  test('and have the key of another one are refused, in any order, and the one before stays', async () => {
    const { loader, running, policy } = pretended({ forced: { p: 'same', q: 'same' }, keys: { a: 'same' } })
    for (const names of [
      ['p', 'a'],
      ['a', 'p'],
      ['p', 'q'],
    ])
      await expect(loader.load(names)).rejects.toThrow('are the same extension')
    expect([[...running.keys()], [...policy]]).toEqual([[], []])
    await loader.load(['p'])
    for (const name of ['a', 'q']) await expect(loader.load([name])).rejects.toThrow('are the same extension')
    expect([[...running.keys()], [...policy]]).toEqual([[], ['same']])
  })

  test('and one that is gone after a restart is left out', async () => {
    const { loader, stuck } = pretended({ forced: { p: 'id-p', q: 'id-q' } })
    await loader.load(['p', 'q'])
    stuck.push('id-q')
    await (
      await loader.again()
    )()
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
    const browser = { run: async () => Promise.reject(new Error('it has ended')) } as unknown as Pick<Keeper, 'run'>
    const installer: Installer = { add() {}, remove() {}, missing: async () => [] }
    const loader = extensionLoader({ browser, dir: '/x', folder: { forced: () => undefined }, installer, log: silentLog })
    await expect(loader.load(['a'])).rejects.toThrow('it has ended')
    await (
      await loader.again()
    )()
  })
})
