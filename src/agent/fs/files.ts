// The real files of a session, for the agent in it.
import { mkdirSync } from 'node:fs'
import type { Log } from '../../base/log.ts'
import { DOWNLOADS_DIR } from '../chromium/flags.ts'
import { createDirectory, deleteDirectory, deleteFile, move, setPermissions } from './change.ts'
import { onPath } from './faults.ts'
import type { Files } from './handlers.ts'
import { fileInfo, listFiles } from './info.ts'
import { readFile } from './read.ts'
import { writeFile } from './stage.ts'
import { Undo } from './undo.ts'
import { receiveZip, uploadFiles } from './upload.ts'
import { Watches } from './watches.ts'

/** The files of this instance; dispose it to end the watches. `home` is on disk: uploads are stored there until their path is known. */
export function openFiles(home: string, log: Log): Files & AsyncDisposable {
  const watches = new Watches(log)
  return {
    createDirectory,
    deleteDirectory,
    deleteFile,
    info: fileInfo,
    list: listFiles,
    move,
    read: readFile,
    setPermissions,
    upload: (parts, signal) => uploadFiles(parts, home, signal),
    async uploadZip(parts, signal) {
      await using undo = new Undo()
      const { destination, archive } = await receiveZip(parts, home, undo, signal)
      await (await import('./unzip.ts')).unzip(archive, destination, signal)
    },
    watch: (path, recursive, signal) => watches.start(path, recursive, signal),
    watchEvents: (id, signal) => watches.events(id, signal),
    stopWatch: (id) => watches.stop(id),
    get isWatching() {
      return watches.any
    },
    write: (path, mode, body, signal) => onPath('path', path, () => writeFile(path, mode, body, signal)),
    zip: async (path) => (await import('./zip.ts')).zipDirectory(path),
    [Symbol.asyncDispose]: () => watches[Symbol.asyncDispose](),
  }
}

/** Creates the downloads folder, so that it can be watched before the first download. */
export const makeDownloads = (): void => void mkdirSync(DOWNLOADS_DIR, { recursive: true })
