// The files of a session for callers. Paths are the agent's; the control plane offers them below a browser.
import * as z from 'zod'
import { PARTIAL, byteStream, bytes, events, formParts, json, none, route } from '../../http/route.ts'

const group = 'Browser Filesystem'

/** The longest path in bytes: PATH_MAX of Linux without the terminating NUL. */
const MAX_PATH_BYTES = 4095

/** Timeout of calls that walk a whole tree (delete, move to another file system), in milliseconds. */
const TREE_MS = 600_000

/** Timeout for sending a file or a zip, in milliseconds; uploads have the same (http/server.ts). Ends the stream to a client that has stopped reading. */
const SEND_MS = 3_600_000

/** Names of unfinished uploads. No call shows or accepts them. */
export const UNFINISHED = /^\.cob-part-[0-9a-f]{24}$/

/** Why `text` is not a valid path; undefined when it is. */
function problemOf(text: string): string | undefined {
  if (!text.startsWith('/')) return 'must be an absolute path'
  if (text.includes('\0') || !text.isWellFormed()) return 'must not hold U+0000 or half a surrogate pair'
  if (Buffer.byteLength(text) > MAX_PATH_BYTES) return `is longer than ${MAX_PATH_BYTES} bytes`
  // The meaning of ".." depends on links in the path. A caller that wants the parent can name it.
  if (text.split('/').includes('..')) return 'must not hold ".."'
  if (text.split('/').some((name) => UNFINISHED.test(name))) return 'has a name that is reserved for unfinished files'
  return undefined
}

/** `/a//b/./c/` to `/a/b/c`. */
const plain = (path: string): string =>
  `/${path
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .join('/')}`

/** An absolute path without `..`; repeated and trailing slashes are removed. */
export const Path = z
  .string()
  .superRefine((text, context) => {
    const problem = problemOf(text)
    if (problem) context.addIssue({ code: 'custom', message: problem })
  })
  .transform(plain)

/** Permissions in octal digits, parsed to a number. */
const Mode = z
  .string()
  .regex(/^[0-7]{3,4}$/, 'must be 3 or 4 octal digits')
  .transform((text) => Number.parseInt(text, 8))

const Account = z.string().min(1).max(64)

export const FileInfo = z.object({
  name: z.string(),
  path: z.string(),
  is_dir: z.boolean(),
  /** 0 for directories. */
  size_bytes: z.int(),
  /** In the form of `ls -l`: `-rw-r--r--`. */
  mode: z.string(),
  mod_time: z.string(),
})
export type FileInfo = z.input<typeof FileInfo>

/** A change of a file. A rename is RENAME of the old path and CREATE of the new one; each is reported only when that path is watched. */
const Change = z.object({ type: z.enum(['CREATE', 'WRITE', 'DELETE', 'RENAME']), path: z.string(), name: z.string(), is_dir: z.boolean() })
/** Events are missing in this stream. `overflow`: events were lost; `limit`: a new directory could not be watched. The stream continues. */
const Gap = z.object({ event: z.literal('error'), error: z.object({ code: z.enum(['overflow', 'limit']), message: z.string() }), timestamp: z.string() })
export const WatchEvent = z.union([Change, Gap])
export type WatchEvent = z.input<typeof WatchEvent>

/** A call that changes something below `path` and answers after the change. */
const change = <B extends z.ZodType>(path: string, id: string, summary: string, body: B, status = 200) =>
  route({ method: 'PUT', path: `/fs/${path}`, id, group, summary, body, deadlineMs: TREE_MS, reply: none(status), faults: ['not_found', 'unavailable'] })

/** A call that reads information about `path`. */
const look = { method: 'GET', group, query: z.strictObject({ path: Path }), faults: ['not_found', 'unavailable'] } as const

const FILE = { type: 'string', format: 'binary' }
/** The fields of the forms, for the documentation; upload.ts checks them. */
const FILES_FORM = {
  type: 'object',
  required: ['files[0][dest_path]', 'files[0][file]'],
  properties: { 'files[0][dest_path]': { type: 'string' }, 'files[0][file]': FILE },
  additionalProperties: { description: 'files[1][dest_path], files[1][file] and so on' },
}
const ZIP_FORM = { type: 'object', required: ['dest_path', 'zip_file'], properties: { dest_path: { type: 'string' }, zip_file: FILE } }

const watchParams = z.strictObject({ watch_id: z.string() })

export const filesystem = {
  createDirectory: change(
    'create_directory',
    'createDirectory',
    'Create a directory and the missing ones above it',
    // The mode is for a new directory; an existing one keeps its own.
    z.strictObject({ path: Path, mode: Mode.default(0o755) }),
    201,
  ),
  deleteDirectory: change('delete_directory', 'deleteDirectory', 'Delete a directory and everything in it', z.strictObject({ path: Path })),
  deleteFile: change('delete_file', 'deleteFile', 'Delete a file or a link', z.strictObject({ path: Path })),
  downloadDirZip: route({
    ...look,
    path: '/fs/download_dir_zip',
    id: 'downloadDirZip',
    right: 'use',
    summary: 'Download a directory as a zip archive',
    deadlineMs: SEND_MS,
    reply: bytes('application/zip'),
  }),
  fileInfo: route({ ...look, path: '/fs/file_info', id: 'fileInfo', summary: 'Get the metadata of a file or directory', reply: json(FileInfo) }),
  listFiles: route({
    ...look,
    path: '/fs/list_files',
    id: 'listFiles',
    summary: 'List the entries of a directory, sorted by name',
    reply: json(z.array(FileInfo)),
  }),
  moveFile: change(
    'move',
    'moveFile',
    'Move or rename a file or directory; a file at the destination is replaced',
    z.strictObject({ src_path: Path, dest_path: Path }),
  ),
  readFile: route({
    ...look,
    path: '/fs/read_file',
    id: 'readFile',
    right: 'use',
    summary: 'Read a file, or a range of its bytes',
    deadlineMs: SEND_MS,
    reply: bytes('application/octet-stream', { others: PARTIAL }),
  }),
  setFilePermissions: change(
    'set_file_permissions',
    'setFilePermissions',
    'Set the permissions of a file or directory',
    z.strictObject({ path: Path, mode: Mode, owner: Account.optional(), group: Account.optional() }),
  ),
  uploadFiles: route({
    method: 'POST',
    path: '/fs/upload',
    id: 'uploadFiles',
    group,
    needsRoom: true,
    summary: 'Write several files; either all are written or none',
    body: formParts.meta(FILES_FORM),
    bodyKind: 'form',
    maxBodyBytes: Infinity,
    deadlineMs: Infinity,
    reply: none(201),
    faults: ['not_found', 'unavailable'],
  }),
  uploadZip: route({
    method: 'POST',
    path: '/fs/upload_zip',
    id: 'uploadZip',
    group,
    needsRoom: true,
    summary: 'Unpack a zip archive into a directory; either all files are written or none',
    body: formParts.meta(ZIP_FORM),
    bodyKind: 'form',
    maxBodyBytes: Infinity,
    deadlineMs: Infinity,
    reply: none(201),
    faults: ['not_found', 'unavailable'],
  }),
  writeFile: route({
    method: 'PUT',
    path: '/fs/write_file',
    id: 'writeFile',
    group,
    needsRoom: true,
    summary: 'Write a file atomically; missing parent directories are created',
    // Without a mode an existing file keeps its own, and a new one gets 644.
    query: z.strictObject({ path: Path, mode: Mode.optional() }),
    body: byteStream,
    bodyKind: 'bytes',
    maxBodyBytes: Infinity,
    deadlineMs: Infinity,
    reply: none(201),
    faults: ['not_found', 'unavailable'],
  }),
  startFsWatch: route({
    method: 'POST',
    path: '/fs/watch',
    id: 'startFsWatch',
    group,
    summary: 'Watch a directory for changes',
    body: z.strictObject({ path: Path, recursive: z.boolean().default(false) }),
    reply: json(z.object({ watch_id: z.string() }), 201),
    faults: ['not_found', 'conflict', 'unavailable'],
  }),
  streamFsEvents: route({
    method: 'GET',
    path: '/fs/watch/{watch_id}/events',
    id: 'streamFsEvents',
    group,
    summary: 'Stream the changes that a watch reports',
    params: watchParams,
    deadlineMs: Infinity,
    reply: events(WatchEvent),
    faults: ['not_found'],
  }),
  stopFsWatch: route({
    method: 'DELETE',
    path: '/fs/watch/{watch_id}',
    id: 'stopFsWatch',
    group,
    summary: 'Stop a watch',
    params: watchParams,
    reply: none(),
    faults: ['not_found'],
  }),
}
