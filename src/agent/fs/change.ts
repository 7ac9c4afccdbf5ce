// Changes to the file system other than contents: create, delete, move, permissions.
import { constants } from 'node:fs'
import { access, chmod, chown, lstat, mkdir, readFile, rename, rm, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fault } from '../../http/fault.ts'
import { fileFault, onPath } from './faults.ts'
import { run } from './coreutils.ts'
import { makeDirectories, temporaryName } from './stage.ts'
import { Undo } from './undo.ts'

/** Creates a directory and its missing parents. An existing one is left as it is. */
export function createDirectory(path: string, mode: number): Promise<void> {
  return onPath('path', path, async () => {
    await using undo = new Undo()
    await makeDirectories(dirname(path), undo)
    try {
      await mkdir(path)
      await chmod(path, mode)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      // Keep it even if an upload that also needs it is cancelled.
      await makeDirectories(path, undo)
    }
    undo.keep()
  })
}

/** Deletes a file, or a link (not its target). */
export function deleteFile(path: string): Promise<void> {
  return onPath('path', path, async () => {
    if ((await lstat(path)).isDirectory()) throw fault.field('path', 'is a directory; delete_directory deletes those')
    await unlink(path)
  })
}

/** Deletes a directory with all its contents at any depth. Follows no links. */
export async function deleteDirectory(path: string, signal: AbortSignal): Promise<void> {
  await onPath('path', path, async () => {
    const stats = await lstat(path)
    if (stats.isSymbolicLink()) throw fault.field('path', 'is a symbolic link; delete_file deletes those')
    if (!stats.isDirectory()) throw fault.field('path', 'is not a directory')
    await refuseMounts(path, 'path')
  })
  // Coreutils' rm walks by open directories, so no path gets too long, and it is several times as fast as our own code.
  await run('rm', ['-rf', '--one-file-system', '--', path], 'path', path, signal)
}

/** Moves or renames. Replaces a file at the destination; the destination's directory must exist. */
export async function move(source: string, destination: string, signal: AbortSignal): Promise<void> {
  await onPath('src_path', source, () => lstat(source))
  await refuseMounts(source, 'src_path')
  try {
    await rename(source, destination)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EXDEV') return moveAcross(source, destination, signal)
    if ((error as NodeJS.ErrnoException).code === 'EINVAL') throw fault.field('dest_path', 'lies in src_path itself')
    // The source existed a moment ago, so the error is about the destination.
    throw fileFault(error, 'dest_path', (error as NodeJS.ErrnoException).code === 'ENOENT' ? dirname(destination) : destination)
  }
}

/** Moves to another file system: copies beside the destination, renames the copy into place, then deletes the source. */
async function moveAcross(source: string, destination: string, signal: AbortSignal): Promise<void> {
  await using undo = new Undo()
  // Refuse to copy a source that cannot be deleted: half of /proc, all of /usr.
  await onPath('src_path', source, () => access(dirname(source), constants.W_OK))
  const staged = join(dirname(destination), temporaryName())
  undo.defer(async (kept) => (kept ? undefined : rm(staged, { recursive: true, force: true })))
  await onPath('dest_path', dirname(destination), () => stat(dirname(destination)))
  await run('cp', ['-a', '-T', '--', source, staged], 'dest_path', destination, signal)
  await onPath('dest_path', destination, () => rename(staged, destination))
  undo.keep()
  await run('rm', ['-rf', '--one-file-system', '--', source], 'src_path', source, signal)
}

/** @throws 400 when something is mounted at or below `path`: the move would stop halfway */
async function refuseMounts(path: string, field: string): Promise<void> {
  const below = path === '/' ? '/' : `${path}/`
  // Field 5 is the mount point; spaces and similar characters are octal escapes (proc_pid_mountinfo(5)).
  const mounts = (await readFile('/proc/self/mountinfo', 'utf8'))
    .split('\n')
    .map((line) => (line.split(' ')[4] ?? '').replaceAll(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8))))
  const found = mounts.find((point) => point === path || point.startsWith(below))
  if (found !== undefined) throw fault.field(field, found === path ? 'is part of the session itself' : `holds ${found}, which is part of the session itself`)
}

/** Sets permissions; follows links. `owner` and `group` are names or numbers. */
export async function setPermissions(path: string, mode: number, owner: string | undefined, group: string | undefined): Promise<void> {
  const [uid, gid] = await Promise.all([account('owner', owner, '/etc/passwd', process.getuid!()), account('group', group, '/etc/group', process.getgid!())])
  await onPath('path', path, async () => {
    // In this order: chown clears the set-uid bit.
    if (owner !== undefined || group !== undefined) await chown(path, uid, gid)
    await chmod(path, mode)
  })
}

/** The number of an account. @throws 400 for any account except the session's own: no other can own files here */
async function account(field: string, wanted: string | undefined, file: string, own: number): Promise<number> {
  if (wanted === undefined) return own
  const lines = (await readFile(file, 'utf8')).split('\n').map((line) => line.split(':'))
  const id = /^\d+$/.test(wanted) ? Number(wanted) : Number(lines.find(([name]) => name === wanted)?.[2] ?? Number.NaN)
  if (id === own) return own
  const mine = lines.find(([, , number]) => number === String(own))?.[0] ?? String(own)
  if (Number.isNaN(id)) throw fault.field(field, `there is no ${field === 'owner' ? 'user' : 'group'} of this name in the session`)
  throw fault.field(field, `can only be ${mine} (${own}): all files of a session belong to its one user`)
}
