// A client may redirect downloads to its own folder. They are also copied to the downloads folder, under their names.
import { constants } from 'node:fs'
import { copyFile, link, rm } from 'node:fs/promises'
import { basename, dirname, extname, join } from 'node:path'
import type { Log } from '../../base/log.ts'
import { temporaryName } from '../fs/stage.ts'
import type { Cdp } from './cdp.ts'

/** Most download names that are remembered, and most free names that are tried. */
const MAX_BEGUN = 1_000
const MAX_NAMES = 1_000

/** Longest name in bytes; leaves room for a number and an extension below the file system's limit of 255. */
const MAX_NAME = 200

/** A download without progress for this time does not count: its server may never send the rest. */
const STALLED_MS = 30_000

/** The running downloads, by the time of their last progress. */
export class CurrentDownloads {
  readonly #receivedAt = new Map<string, number>()

  received(guid: string): void {
    this.#receivedAt.set(guid, performance.now())
    if (this.#receivedAt.size > MAX_BEGUN) this.over(this.#receivedAt.keys().next().value!)
  }

  over(guid: string): void {
    this.#receivedAt.delete(guid)
  }

  get any(): boolean {
    const since = performance.now() - STALLED_MS
    return [...this.#receivedAt.values()].some((at) => at > since)
  }
}

/**
 * Copies a file into `folder` when the browser has saved it elsewhere under a bare number. Playwright redirects the downloads of every browser that it connects
 * to, because it expects to read the files from its own disk. Playwright's file stays.
 */
export async function mirrorDownloads(cdp: Cdp, folder: string, current: CurrentDownloads, log: Log, isLean = false): Promise<void> {
  const begun = new Map<string, string>()
  cdp.on('Browser.downloadWillBegin', ({ guid, suggestedFilename }) => {
    current.received(guid)
    begun.set(guid, suggestedFilename)
    if (begun.size > MAX_BEGUN) begun.delete(begun.keys().next().value!)
  })
  cdp.on('Browser.downloadProgress', ({ guid, state, filePath }) => {
    if (state === 'inProgress') return current.received(guid)
    current.over(guid)
    const name = begun.get(guid)
    begun.delete(guid)
    if (state !== 'completed' || name === undefined || filePath === undefined) return
    if (basename(filePath) !== guid || dirname(filePath) === folder) return
    copyInto(filePath, folder, name).catch((err: unknown) => log.warn({ err, filePath }, 'a download could not be copied to the downloads folder'))
  })
  // This subscribes to download events of every profile. Policies and clients determine the folder; the shell reads no policies.
  const where = isLean ? ({ behavior: 'allow', downloadPath: folder } as const) : ({ behavior: 'default' } as const)
  await cdp.send('Browser.setDownloadBehavior', { ...where, eventsEnabled: true })
}

/** Copies a file into `folder` under a free name, as the browser does: `a.pdf`, `a (1).pdf` and so on. The file appears there complete. */
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
    throw new Error(`${MAX_NAMES} files of this name exist already`)
  } finally {
    await rm(staged, { force: true })
  }
}
