// The places that a sandbox may write: its disk, its folders in memory, and its log. Each is limited in bytes and in files. The disk is an image with its own
// file system where root can mount one, else a folder that usage.ts counts.
import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync } from 'node:fs'
import { mkdir, rm, truncate, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { nameProcess, type ProcessName } from '../../base/processes.ts'
import { quote } from '../../base/shell.ts'
import { isRoot, type User } from '../../base/user.ts'
import type { Trash } from './trash.ts'

/** Limits on what is written. */
export interface Quota {
  bytes: number
  /** Files, folders and links. */
  inodes: number
}

/** How disks are limited on this machine. */
export interface Storage {
  /** Whether a disk is an image whose size the kernel enforces. Otherwise it is counted, and the sandbox is ended when it exceeds the limit. */
  images: boolean
  /** Why disks are not images, for `cob doctor`; undefined when they are. */
  finding: string | undefined
}

/** ext4's own ratio: a disk of 10 GiB has 655,360 inodes. */
const BYTES_PER_INODE = 16 * 1024
/** A browser's profile has some hundred files, an app with its packages some ten thousand. */
const MIN_INODES = 16 * 1024

export const diskQuota = (megabytes: number): Quota => {
  const bytes = megabytes * 1024 * 1024
  return { bytes, inodes: Math.max(MIN_INODES, Math.ceil(bytes / BYTES_PER_INODE)) }
}

/** Limit on the log of a sandbox (the standard output and error of its programs), in bytes. */
export const MAX_LOG_BYTES = 1024 * 1024

/** Making an empty file system takes 10 ms; mounting it takes the same. */
const PROBE_MS = 20_000

const KEEPER = fileURLToPath(new URL('keeper.pl', import.meta.url))
const KEEPER_NAME = 'cob-keeper'

/** Finds out whether images can be mounted, by mounting one below `root`. */
export async function findStorage(root: string): Promise<Storage> {
  const counted = (why: string): Storage => ({ images: false, finding: `disk quotas of sessions and apps are counted, not enforced by the kernel: ${why}` })
  if (!isRoot()) return counted('only root can mount disk images')
  const dir = mkdtempSync(join(root, 'probe-'))
  try {
    await makeDisk(dir, diskQuota(16), true)
    await promisify(execFile)('unshare', ['--mount', '--propagation', 'private', '/bin/sh', '-c', `set -e\n${mountImage(dir, diskQuota(16))}`], {
      timeout: PROBE_MS,
    })
    return { images: true, finding: undefined }
  } catch (error) {
    return counted(((error as { stderr?: string }).stderr || (error as Error).message).trim().slice(-300))
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

/** The folder of a sandbox that holds everything it may write on disk. Files that the driver puts there before the start are visible inside. */
export const diskOf = (dir: string): string => join(dir, 'disk')
export const imageOf = (dir: string): string => join(dir, 'disk.img')
const mountOf = (dir: string): string => join(dir, 'mount')

/** Makes the disk of a sandbox. */
export async function makeDisk(dir: string, quota: Quota, image: boolean): Promise<void> {
  await mkdir(diskOf(dir), { mode: 0o711 })
  if (!image) return
  await mkdir(mountOf(dir), { mode: 0o700 })
  // A sparse file as large as the quota: it takes only the space that is written, and returns what is deleted (`discard`).
  await writeFile(imageOf(dir), '', { mode: 0o600 })
  await truncate(imageOf(dir), quota.bytes)
}

/** Removes the disk of a sandbox whose processes have ended. Resolves when its space is free. */
export async function emptyDisk(dir: string, trash: Trash): Promise<void> {
  // Not `truncateSync`: a gigabyte takes the file system a second on a busy disk, and every caller of the service would wait for it.
  if (existsSync(imageOf(dir))) await truncate(imageOf(dir), 0)
  else await trash.remove(diskOf(dir))
}

// No journal, because an image is never used again after its session. It is mounted only in the sandbox's own mount namespace, so the kernel
// unmounts it with the last of the sandbox's processes, however they end.
const mountImage = (dir: string, { inodes }: Quota, more: readonly string[] = []): string =>
  [
    `PATH=$PATH:/usr/sbin:/sbin`,
    `mke2fs -q -F -t ext4 -O ^has_journal,^resize_inode -m 0 -N ${inodes} -E lazy_itable_init=1,nodiscard ${quote(imageOf(dir))}`,
    `mount -t ext4 -o loop,nosuid,nodev,noatime,discard,noinit_itable ${quote(imageOf(dir))} ${quote(mountOf(dir))}`,
    `chmod 711 ${quote(mountOf(dir))}`,
    `cp -a ${[`${diskOf(dir)}/.`, ...more, `${mountOf(dir)}/`].map(quote).join(' ')}`,
    `mount --bind ${quote(mountOf(dir))} ${quote(diskOf(dir))}`,
  ].join('\n')

/** A folder that is copied to the disk of a sandbox when it starts. */
export interface Content {
  folder: string
  /** The owner of the copy; the service's user unless given. */
  user: User | undefined
}

/**
 * Shell lines at the beginning of a sandbox's start. They run as the service's user, before any foreign code. They mount its disk if that is an
 * image, and from then on pipe its output through its keeper (keeper.pl).
 */
export const storageLines = (dir: string, quota: Quota, content?: Content): string =>
  [
    'set -e',
    ...(existsSync(imageOf(dir))
      ? [mountImage(dir, quota, content && [content.folder])]
      : content
        ? [`cp -a ${quote(content.folder)} ${quote(`${diskOf(dir)}/`)}`]
        : []),
    ...(content?.user ? [`chown -hR ${content.user.uid}:${content.user.gid} ${quote(join(diskOf(dir), basename(content.folder)))}`] : []),
    `mkfifo -m 600 ${quote(join(dir, 'said'))}`,
    // Both ends are open here, so no open of the pipe blocks. When this shell is killed at any line, the keeper reads the end of the pipe and exits.
    `exec 9<>${quote(join(dir, 'said'))}`,
    // In a session (setsid) of its own: a kill of the sandbox's process group does not reach it. No limit of the sandbox applies to it either, so it runs at
    // the lowest CPU priority.
    `setsid --fork nice -n 19 perl ${quote(KEEPER)} ${quote(dir)} ${MAX_LOG_BYTES}${existsSync(imageOf(dir)) ? ` ${quote(mountOf(dir))}` : ''} <${quote(join(dir, 'said'))} 9>&-`,
    `exec >${quote(join(dir, 'said'))} 2>&1 9>&-`,
    `rm ${quote(join(dir, 'said'))}`,
  ].join('\n')

/** The keeper of a sandbox, if it still runs. */
export function keeperOf(dir: string): ProcessName | undefined {
  try {
    const name = nameProcess(Number(readFileSync(join(dir, 'keeper'), 'utf8')))
    // The pid may belong to another process by now.
    return name && readFileSync(`/proc/${name.pid}/cmdline`, 'utf8').startsWith(`${KEEPER_NAME} ${dir}`) ? name : undefined
  } catch {
    return undefined
  }
}

/** Folders in memory of a sandbox: their paths inside, sizes and numbers of files. */
interface MemoryFolder {
  name: string
  mode: string
  bytes: number
  inodes: number
}

/** Where the folders in memory are made, below a sandbox's folder. */
export const memoryOf = (dir: string): string => join(dir, 'memory')

/** Each file in memory takes a kilobyte of kernel memory, even when it is empty. */
const memoryFolders = (memoryBytes: number): MemoryFolder[] => [
  { name: 'tmp', mode: '1777', bytes: Math.ceil(memoryBytes / 2), inodes: 200_000 },
  { name: 'shm', mode: '1777', bytes: Math.ceil(memoryBytes / 2), inodes: 20_000 },
  { name: 'run', mode: '0755', bytes: 256 * 1024 * 1024, inodes: 20_000 },
  // One request creates at most 6 MiB; our own policies are small.
  { name: 'policies', mode: '0755', bytes: 8 * 1024 * 1024, inodes: 100 },
]

/** The mount points. They stay empty on the host. */
export async function makeMemoryFolders(dir: string): Promise<void> {
  for (const folder of [memoryOf(dir), ...memoryFolders(0).map(({ name }) => join(memoryOf(dir), name))]) await mkdir(folder, { mode: 0o755 })
}

/** Shell lines that mount the folders in a mount namespace of the sandbox's own. bwrap can limit the size of a tmpfs, but not its number of files. */
export const memoryLines = (seen: string, memoryBytes: number): string =>
  memoryFolders(memoryBytes)
    .map(({ name, mode, bytes, inodes }) => `mount -t tmpfs -o nosuid,nodev,mode=${mode},size=${bytes},nr_inodes=${inodes} cob ${quote(join(seen, name))}`)
    .join('\n')
