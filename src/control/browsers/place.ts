// What all sessions of a service have alike: the region it is in, and their memory. Callers may ask for what they get anyway.
import { fault } from '../../http/fault.ts'
import type { CreateBrowser, Memory, Region } from './contract.ts'

export interface Place {
  region: Region
  /** What answers say unless a caller asked for a size. */
  memory: Memory
  /** The limit of an instance, in MiB. */
  memoryMb: number
}

const holds = (size: Memory, mb: number): boolean => parseInt(size, 10) * 1024 <= mb

/** The sizes that every release of the SDKs knows; some take no other in an answer. */
const KNOWN_TO_ALL: readonly Memory[] = ['1GiB', '2GiB', '6GiB', '8GiB', '16GiB']

/** The place of a service. Memory is told as the largest of those sizes that an instance's limit holds, 1GiB at least. */
export function placeOf(region: Region, instanceMemoryMb: number): Place {
  return { region, memory: KNOWN_TO_ALL.findLast((size) => holds(size, instanceMemoryMb)) ?? '1GiB', memoryMb: instanceMemoryMb }
}

/** @throws 400 when a session is wanted elsewhere, or with more memory than sessions have. */
export function checkPlace({ region, memory }: Pick<CreateBrowser, 'region' | 'memory'>, place: Place): void {
  if (region !== undefined && region !== place.region) throw fault.field('region', `this service is in ${place.region} (COB_REGION); leave region out`)
  if (memory !== undefined && !holds(memory, place.memoryMb))
    throw fault.field('memory', `sessions of this service have ${place.memoryMb} MiB (COB_INSTANCE_MEMORY_MB); ask for that or less, or leave memory out`)
}
