// The memory of the machine, or of the container that the service runs in.
import { readFileSync } from 'node:fs'
import { totalmem } from 'node:os'

export interface Memory {
  totalBytes: number
  /** Memory that programs can still use without swapping: free memory, and caches that the kernel can release. */
  freeBytes: number
}

/** This share of memory stays free for sessions: what is kept ready for later may not use it. */
export const FOR_SESSIONS = 1 / 8

export function memoryNow(): Memory {
  // Without a limit of its own, a container reports 0, or the largest number that a limit can have.
  const limit = process.constrainedMemory()
  const isLimited = limit > 0 && limit < totalmem()
  const totalBytes = isLimited ? limit : totalmem()
  // Under a limit, Node counts caches as used.
  const freeBytes = process.availableMemory() + (isLimited ? cachedBytes() : 0)
  return { totalBytes, freeBytes: Math.min(freeBytes, totalBytes) }
}

/** Cached files of this process's group, which the kernel releases when memory is needed; 0 when it does not report them. */
function cachedBytes(): number {
  const groups = read('/proc/self/cgroup')
  const [own, ownOfV1] = [/^0::(.*)$/m.exec(groups)?.[1] ?? '/', /:memory:(.*)$/m.exec(groups)?.[1] ?? '/']
  const files = [
    `/sys/fs/cgroup${own}/memory.stat`,
    '/sys/fs/cgroup/memory.stat',
    `/sys/fs/cgroup/memory${ownOfV1}/memory.stat`,
    '/sys/fs/cgroup/memory/memory.stat',
  ]
  return inactiveFile(files.map(read).find((text) => text !== '') ?? '')
}

/** A field of a memory.stat, of either version: version 1 counts subgroups under a separate name. */
export const inactiveFile = (stat: string): number => Number((/^total_inactive_file (\d+)$/m.exec(stat) ?? /^inactive_file (\d+)$/m.exec(stat))?.[1] ?? 0)

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
