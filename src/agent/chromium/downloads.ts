// Downloads that a client has sent to a folder of its own: they appear among the downloads all the same, under their names.
import { constants } from 'node:fs'
import { copyFile, link, rm } from 'node:fs/promises'
import { basename, dirname, extname, join } from 'node:path'
import type { Log } from '../../base/log.ts'
import { temporaryName } from '../fs/stage.ts'
import type { CdpPipe } from './pipe.ts'

/** Names remembered of downloads that have begun, and tried for one that is taken. */
const MAX_BEGUN = 1_000
const MAX_NAMES = 1_000

/** Bytes of a name that leave room for a number and an ending below the 255 that a name may have. */
const MAX_NAME = 200

/**
 * Copies into `folder` what the browser has put elsewhere under a bare number. Playwright does that to every browser it
 * connects to, for files that it would fetch from its own disk; its own file stays as it is.
 */
export async function mirrorDownloads(pipe: CdpPipe, folder: string, log: Log): Promise<void> {
  const begun = new Map<string, string>()
  pipe.on(({ method, params }) => {
    const { guid, suggestedFilename, state, filePath } = params as Partial<Record<string, string>>
    if (guid === undefined) return
    if (method === 'Browser.downloadWillBegin') {
      begun.set(guid, suggestedFilename ?? '')
      if (begun.size > MAX_BEGUN) begun.delete(begun.keys().next().value!)
    }
    if (method !== 'Browser.downloadProgress' || state === 'inProgress') return
    const name = begun.get(guid)
    begun.delete(guid)
    if (state !== 'completed' || name === undefined || filePath === undefined) return
    if (basename(filePath) !== guid || dirname(filePath) === folder) return
    copyInto(filePath, folder, name).catch((err: unknown) => log.warn({ err, filePath }, 'a download was not copied to the downloads'))
  })
  // Told of downloads without being asked where they go: that is for policy, and for clients, to say.
  await pipe.send('Browser.setDownloadBehavior', { behavior: 'default', eventsEnabled: true })
}

/** Copies a file into `folder` under a name that is free: `a.pdf`, `a (1).pdf` and so on, as the browser itself does. It appears there whole. */
export async function copyInto(path: string, folder: string, wanted: string): Promise<void> {
  const whole = basename(wanted.replaceAll('\0', ''))
  const ending = extname(whole).slice(0, 20)
  const cut = Buffer.from(whole.slice(0, whole.length - ending.length))
    .subarray(0, MAX_NAME)
    .toString()
    .replace(/\ufffd+$/, '')
  const stem = ['', '.', '..'].includes(cut) ? 'download' : cut
  const staged = join(folder, temporaryName())
  try {
    await copyFile(path, staged, constants.COPYFILE_EXCL)
    for (let count = 0; count < MAX_NAMES; count++) {
      try {
        return await link(staged, join(folder, `${stem}${count === 0 ? '' : ` (${count})`}${ending}`))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      }
    }
    throw new Error(`${MAX_NAMES} files of this name are there already`)
  } finally {
    await rm(staged, { force: true })
  }
}
