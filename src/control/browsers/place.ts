// What all sessions of a service have in common: their region and their memory. A caller may only ask for what it gets anyway.
import { fault } from '../../http/fault.ts'
import type { CreateBrowser, Memory, Region } from './contract.ts'

export interface Place {
  region: Region
  /** The value in answers unless a caller asked for a size. */
  memory: Memory
  /** The memory limit of an instance, in MiB. */
  memoryMb: number
}

const holds = (size: Memory, mb: number): boolean => parseInt(size, 10) * 1024 <= mb

/** The sizes that every release of the SDKs knows. Some accept no other in an answer. */
const KNOWN_TO_ALL: readonly Memory[] = ['1GiB', '2GiB', '6GiB', '8GiB', '16GiB']

/** The place of a service. Its memory is the largest of those sizes that fits an instance's limit, at least 1GiB. */
export function placeOf(region: Region, instanceMemoryMb: number): Place {
  return { region, memory: KNOWN_TO_ALL.findLast((size) => holds(size, instanceMemoryMb)) ?? '1GiB', memoryMb: instanceMemoryMb }
}

/** @throws 400 when a session is wanted in another region, or with more memory than sessions have. */
export function checkPlace({ region, memory }: Pick<CreateBrowser, 'region' | 'memory'>, place: Place): void {
  if (region !== undefined && region !== place.region) throw fault.field('region', `this service is in ${place.region} (COB_REGION); leave region out`)
  if (memory !== undefined && !holds(memory, place.memoryMb))
    throw fault.field('memory', `sessions of this service have ${place.memoryMb} MiB (COB_INSTANCE_MEMORY_MB); ask for that or less, or leave memory out`)
}
