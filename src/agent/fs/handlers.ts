// The filesystem contract, answered by the files of the session.
import type { Readable } from 'node:stream'
import type { Bytes, FormPart, Handlers } from '../../http/route.ts'
import type { FileInfo, filesystem, WatchEvent } from './contract.ts'

/** The files that the calls work on: real in an instance; the fake driver has none. Paths are absolute and normalized. */
export interface Files {
  createDirectory(path: string, mode: number): Promise<void>
  deleteDirectory(path: string, signal: AbortSignal): Promise<void>
  deleteFile(path: string): Promise<void>
  info(path: string): Promise<FileInfo>
  list(path: string, signal: AbortSignal): Promise<FileInfo[]>
  move(source: string, destination: string, signal: AbortSignal): Promise<void>
  /** `range` and `unchangedSince` are the Range and If-Range headers of the caller. */
  read(path: string, range: string | undefined, unchangedSince: string | undefined): Promise<Bytes>
  setPermissions(path: string, mode: number, owner: string | undefined, group: string | undefined): Promise<void>
  upload(parts: AsyncIterable<FormPart>, signal: AbortSignal): Promise<void>
  uploadZip(parts: AsyncIterable<FormPart>, signal: AbortSignal): Promise<void>
  watch(path: string, recursive: boolean, signal: AbortSignal): Promise<string>
  watchEvents(id: string, signal: AbortSignal): AsyncIterable<WatchEvent>
  stopWatch(id: string): Promise<void>
  /** Whether a watch is open. */
  readonly isWatching: boolean
  /** Without a mode an existing file keeps its own. */
  write(path: string, mode: number | undefined, body: Readable, signal: AbortSignal): Promise<void>
  zip(path: string): Promise<Readable>
}

export const filesystemHandlers = (files: Files): Handlers<typeof filesystem> => ({
  createDirectory: ({ body }) => files.createDirectory(body.path, body.mode),
  deleteDirectory: ({ body, signal }) => files.deleteDirectory(body.path, signal),
  deleteFile: ({ body }) => files.deleteFile(body.path),
  downloadDirZip: ({ query }) => files.zip(query.path),
  fileInfo: ({ query }) => files.info(query.path),
  listFiles: ({ query, signal }) => files.list(query.path, signal),
  moveFile: ({ body, signal }) => files.move(body.src_path, body.dest_path, signal),
  readFile: ({ query, headers }) => files.read(query.path, headers.range, headers['if-range'] as string | undefined),
  setFilePermissions: ({ body }) => files.setPermissions(body.path, body.mode, body.owner, body.group),
  uploadFiles: ({ body, signal }) => files.upload(body, signal),
  uploadZip: ({ body, signal }) => files.uploadZip(body, signal),
  writeFile: ({ query, body, signal }) => files.write(query.path, query.mode, body, signal),
  startFsWatch: async ({ body, signal }) => ({ watch_id: await files.watch(body.path, body.recursive, signal) }),
  streamFsEvents: ({ params, signal }) => files.watchEvents(params.watch_id, signal),
  stopFsWatch: ({ params }) => files.stopWatch(params.watch_id),
})
