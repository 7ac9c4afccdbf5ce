// Properties that all sessions of a service share: region, memory, and which browser headless ones have.
import { existsSync } from 'node:fs'
import type { Config } from '../../../base/config.ts'
import { holds } from './options/contract.ts'
import type { Memory, Place } from './options/option/contract.ts'

/** The sizes that every release of the SDKs knows. Some SDKs reject any other size in an answer. */
const KNOWN_TO_ALL: readonly Memory[] = ['1GiB', '2GiB', '6GiB', '8GiB', '16GiB']

/** The place of a service. Its memory is the largest of these sizes that fits into an instance's limit, at least 1GiB. */
export function placeOf({
  region,
  instanceMemoryMb,
  headless,
  headlessShell,
}: Pick<Config, 'region' | 'instanceMemoryMb' | 'headless' | 'headlessShell'>): Place {
  return {
    region,
    memory: KNOWN_TO_ALL.findLast((size) => holds(size, instanceMemoryMb)) ?? '1GiB',
    memoryMb: instanceMemoryMb,
    // Without the program all sessions are full (cob doctor says so).
    headless: existsSync(headlessShell) ? headless : 'full',
  }
}
