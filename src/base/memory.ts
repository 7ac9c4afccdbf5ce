// The memory of the machine, or of the container that the service runs in.
import { readFileSync } from 'node:fs'
import { totalmem } from 'node:os'

export interface Memory {
  totalBytes: number
  /** What programs can still take without swapping: free memory, and caches that the kernel gives back. */
  freeBytes: number
}

export function memoryNow(): Memory {
  // Without a limit of its own, a container reports 0, or the largest number that a limit can have.
  const limit = process.constrainedMemory()
  const isLimited = limit > 0 && limit < totalmem()
  const totalBytes = isLimited ? limit : totalmem()
  // Under a limit, Node counts caches as taken.
  const freeBytes = process.availableMemory() + (isLimited ? cachedBytes() : 0)
  return { totalBytes, freeBytes: Math.min(freeBytes, totalBytes) }
}

/** Files that the kernel keeps in memory for this process's group and gives back when memory is wanted; 0 when it does not say. */
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

/** Of a memory.stat, of either version: that of the first one counts subgroups under a name of its own. */
export const inactiveFile = (stat: string): number => Number((/^total_inactive_file (\d+)$/m.exec(stat) ?? /^inactive_file (\d+)$/m.exec(stat))?.[1] ?? 0)

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
