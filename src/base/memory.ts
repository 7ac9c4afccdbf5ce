// The memory of the machine, or of the container that the service runs in.
import { totalmem } from 'node:os'

export interface Memory {
  totalBytes: number
  /** What programs can still take without swapping: free memory, and caches that the kernel gives back. */
  freeBytes: number
}

export function memoryNow(): Memory {
  // Without a limit of its own, a container reports 0, or the largest number that a limit can have.
  const limit = process.constrainedMemory()
  const totalBytes = limit > 0 ? Math.min(limit, totalmem()) : totalmem()
  return { totalBytes, freeBytes: Math.min(process.availableMemory(), totalBytes) }
}
