// Files and programs of the operator that providers may use: below one folder, and nothing else of this machine.
import { constants } from 'node:fs'
import { access, lstat, open, readlink, realpath, type FileHandle } from 'node:fs/promises'
import { resolve } from 'node:path'
import { BackendProblem } from './backend.ts'

export interface CredentialFiles {
  /** Reads a whole file. @throws BackendProblem when it does not exist, is no file, is outside of the folder, or is larger than `maxBytes` */
  read(path: string, options: { maxBytes: number; isPrivate?: boolean }): Promise<Buffer>
  /** The real path of a program. @throws BackendProblem when it does not exist, cannot be run, or other users of the machine can change it */
  program(path: string): Promise<string>
}

const OTHERS_MAY = 0o077
const OTHERS_MAY_WRITE = 0o022

/** `root` is the folder that the operator allows (COB_CREDENTIAL_FILES_DIR). */
export function credentialFiles(root: string): CredentialFiles {
  /** The real path of a token's path, with links followed. @throws BackendProblem */
  async function real(path: string): Promise<string> {
    const base = await realpath(root).catch(() => {
      throw new BackendProblem('the folder of credential files does not exist on the machine of the service (COB_CREDENTIAL_FILES_DIR)')
    })
    const found = await realpath(resolve(base, path)).catch(() => undefined)
    // A file outside is reported as missing: an answer must not tell which files this machine has.
    if (found === undefined || !isInside(base, found)) throw missing(path)
    return found
  }

  /** Opens a file. Checks the open file again: a folder may have been replaced by a link between the two. @throws BackendProblem */
  async function opened(path: string): Promise<FileHandle> {
    const found = await real(path)
    // Do not wait for a writer if it is a pipe.
    const file = await open(found, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch((error: NodeJS.ErrnoException) => {
      throw error.code === 'EACCES' ? new BackendProblem(`the service may not read the file "${shown(path)}"`) : missing(path)
    })
    try {
      if ((await readlink(`/proc/self/fd/${file.fd}`)) !== found) throw missing(path)
      return file
    } catch (error) {
      await file.close()
      throw error
    }
  }

  return {
    async read(path, { maxBytes, isPrivate = false }) {
      await using file = await opened(path)
      const stat = await file.stat()
      if (!stat.isFile()) throw missing(path)
      if (isPrivate && (stat.mode & OTHERS_MAY) !== 0)
        throw new BackendProblem(`other users of the machine may read or write the file "${shown(path)}": its mode must be 0600`)
      if (stat.size > maxBytes) throw new BackendProblem(`the file "${shown(path)}" is larger than ${maxBytes} bytes, the limit`)
      const bytes = Buffer.alloc(stat.size)
      // The file may have become shorter meanwhile; added data is not read.
      let at = 0
      while (at < bytes.length) {
        const { bytesRead } = await file.read(bytes, at, bytes.length - at, at)
        if (bytesRead === 0) break
        at += bytesRead
      }
      return bytes.subarray(0, at)
    },
    async program(path) {
      const found = await real(path)
      const stat = await lstat(found).catch(() => undefined)
      if (!stat?.isFile()) throw missing(path)
      if ((stat.mode & OTHERS_MAY_WRITE) !== 0)
        throw new BackendProblem(`other users of the machine may change the program "${shown(path)}": its mode must be 0700 or 0755`)
      await access(found, constants.X_OK).catch(() => {
        throw new BackendProblem(`the service may not run the program "${shown(path)}"`)
      })
      return found
    },
  }
}

const isInside = (base: string, path: string): boolean => path === base || path.startsWith(base === '/' ? base : `${base}/`)
const missing = (path: string) => new BackendProblem(`there is no "${shown(path)}" in the folder of credential files`)
const shown = (path: string): string => (path.length > 100 ? `${path.slice(0, 100)}…` : path)
