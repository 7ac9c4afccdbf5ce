// Downloads to other folders: which ones are copied to the downloads folder, and under which name.
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { fakeCdp } from '../../../test/support/fake-cdp.ts'
import { tempDir, treeOf } from '../../../test/support/trees.ts'
import { silentLog } from '../../base/log.ts'
import { copyInto, CurrentDownloads, mirrorDownloads } from './downloads.ts'

test('a copied download gets a free name, chosen as the browser does, for any name that a site gives its file', async () => {
  using dir = tempDir()
  const [from, to] = [join(dir.path, 'guid'), join(dir.path, 'to')]
  mkdirSync(to)
  writeFileSync(from, 'x')
  const long = 'ü'.repeat(300)
  for (const name of ['a.pdf', 'a.pdf', 'a', 'a.tar.gz', '../../evil', '/etc/passwd', '..', '', 'x\0y', '.hidden', `${long}.txt`, `b.${long}`])
    await copyInto(from, to, name)
  const names = readdirSync(to)
  expect(names.every((name) => Buffer.byteLength(name) <= 255 && !name.includes('/'))).toBe(true)
  expect(names.filter((name) => !name.includes('ü')).sort()).toEqual(
    ['a', 'a (1).pdf', 'a.pdf', 'a.tar.gz', 'evil', 'passwd', 'download', 'download (1)', 'xy', '.hidden'].sort(),
  )
  expect(names).toHaveLength(12)
  expect(new Set(Object.values(treeOf(to)).map((text) => text[0]))).toEqual(new Set(['x']))
})

test('a download saved under its GUID in another folder is copied; one with its own name, or a canceled one, is not', async () => {
  using dir = tempDir()
  const [elsewhere, to] = [join(dir.path, 'elsewhere'), join(dir.path, 'to')]
  for (const folder of [elsewhere, to]) mkdirSync(folder)
  const { cdp, sent, emit } = fakeCdp()
  const current = new CurrentDownloads()
  await mirrorDownloads(cdp, to, current, silentLog)
  expect(sent.map(({ method }) => method)).toEqual(['Browser.setDownloadBehavior'])
  const download = (guid: string, suggestedFilename: string, filePath: string, state = 'completed') => {
    writeFileSync(filePath, guid)
    emit('Browser.downloadWillBegin', { guid, suggestedFilename })
    emit('Browser.downloadProgress', { guid, state: 'inProgress' })
    emit('Browser.downloadProgress', { guid, state, filePath })
    emit('Target.targetCreated', {})
  }
  download('1-1', 'copied', join(elsewhere, '1-1'))
  download('2-2', 'named', join(elsewhere, 'named'))
  download('3-3', 'broken', join(elsewhere, '3-3'), 'canceled')
  download('4-4', 'here', join(to, '4-4'))
  await expect.poll(() => treeOf(to)).toEqual({ copied: '1-1 644', '4-4': '4-4 644' })
})

test('a download counts as going on from its beginning to its end', async () => {
  using dir = tempDir()
  const { cdp, emit } = fakeCdp()
  const current = new CurrentDownloads()
  await mirrorDownloads(cdp, dir.path, current, silentLog)
  expect(current.any).toBe(false)
  emit('Browser.downloadWillBegin', { guid: '1-1', suggestedFilename: 'a' })
  expect(current.any).toBe(true)
  emit('Browser.downloadProgress', { guid: '1-1', state: 'inProgress' })
  expect(current.any).toBe(true)
  emit('Browser.downloadProgress', { guid: '1-1', state: 'canceled' })
  expect(current.any).toBe(false)
})
