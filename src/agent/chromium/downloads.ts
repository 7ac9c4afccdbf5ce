// A client may redirect downloads to a folder of its own. They are copied to the downloads folder too, under their names.
import { constants } from 'node:fs'
import { copyFile, link, rm } from 'node:fs/promises'
import { basename, dirname, extname, join } from 'node:path'
import type { Log } from '../../base/log.ts'
import { temporaryName } from '../fs/stage.ts'
import type { Cdp } from './cdp.ts'

/** How many download names are remembered, and how many free names are tried. */
const MAX_BEGUN = 1_000
const MAX_NAMES = 1_000

/** Longest name in bytes; leaves room for a number and an extension below the file system's limit of 255. */
const MAX_NAME = 200

/** A download that has not progressed for so long is not counted: its server may never send the rest. */
const STALLED_MS = 30_000

/** The downloads that go on, by when they were last heard of. */
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
 * Copies a file into `folder` when the browser has saved it elsewhere under a bare number. Playwright redirects the downloads of every browser that
 * it connects to, because it expects to read the files from its own disk. Its own file stays.
 */
export async function mirrorDownloads(cdp: Cdp, folder: string, current: CurrentDownloads, log: Log): Promise<void> {
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
  // Only subscribes to download events, of every profile. Where downloads go is decided by policy and by clients.
  await cdp.send('Browser.setDownloadBehavior', { behavior: 'default', eventsEnabled: true })
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
