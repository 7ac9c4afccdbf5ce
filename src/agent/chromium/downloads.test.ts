// Downloads to other folders: which ones are copied to the downloads folder, and under which name.
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { tempDir, treeOf } from '../../../test/support/trees.ts'
import { silentLog } from '../../base/log.ts'
import { copyInto, mirrorDownloads } from './downloads.ts'
import type { CdpEvent, CdpPipe } from './pipe.ts'

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
  const listeners: ((event: CdpEvent) => void)[] = []
  const sent: string[] = []
  const pipe: CdpPipe = {
    send: async (method) => void sent.push(method) as never,
    on(listener) {
      listeners.push(listener)
      return () => {}
    },
  }
  await mirrorDownloads(pipe, to, silentLog)
  expect(sent).toEqual(['Browser.setDownloadBehavior'])
  const download = (guid: string, suggestedFilename: string, filePath: string, state = 'completed') => {
    writeFileSync(filePath, guid)
    for (const listener of listeners) {
      listener({ method: 'Browser.downloadWillBegin', params: { guid, suggestedFilename } })
      listener({ method: 'Browser.downloadProgress', params: { guid, state: 'inProgress' } })
      listener({ method: 'Browser.downloadProgress', params: { guid, state, filePath } })
      listener({ method: 'Target.targetCreated', params: {} })
    }
  }
  download('1-1', 'copied', join(elsewhere, '1-1'))
  download('2-2', 'named', join(elsewhere, 'named'))
  download('3-3', 'broken', join(elsewhere, '3-3'), 'canceled')
  download('4-4', 'here', join(to, '4-4'))
  await expect.poll(() => treeOf(to)).toEqual({ copied: '1-1 644', '4-4': '4-4 644' })
})
