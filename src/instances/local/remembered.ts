// The record of a sandbox in its directory, by which the next service finds it again.
import { readFileSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { descendantsOf, isAlive, nameProcess, type ProcessName } from '../../base/processes.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import type { Counted } from './usage.ts'

/** What is recorded. */
export interface Remembered {
  /** The outermost processes: pasta, and bwrap below it. */
  processes: ProcessName[]
  /** Whether its browser has been ready. An instance that a killed service was still starting is not adopted. */
  isReady: boolean
  /** Whether it was prepared, and has no ready browser yet. */
  isPrepared?: boolean | undefined
  /** Its limits, for the module that counts its use (usage.ts). */
  counted?: Counted | undefined
  /** The address of its program, when it is not the Unix socket in the directory. */
  agent?: Endpoint | undefined
}

/** The file, in the sandbox's directory. */
export const RECORD = 'instance.json'

/** Records a sandbox in its directory, atomically. */
export async function remember(dir: string, { agent, ...rest }: Remembered): Promise<void> {
  const file = join(dir, RECORD)
  await writeFile(`${file}.new`, JSON.stringify({ ...rest, agent: agent && remembersAgent(agent) }), { mode: 0o600 })
  await rename(`${file}.new`, file)
}

/** A Unix socket is always in the directory, which may have moved. */
function remembersAgent({ older: _, ...endpoint }: Endpoint): Endpoint | undefined {
  return 'socketPath' in endpoint ? undefined : endpoint
}

/** The record in a directory; undefined when there is none. */
export function recall(dir: string): Remembered | undefined {
  try {
    return JSON.parse(readFileSync(join(dir, RECORD), 'utf8')) as Remembered
  } catch {
    return undefined
  }
}

/** The present processes of a sandbox: the known ones, all their descendants, and all in its CPU group. */
export function presentProcesses(known: readonly ProcessName[], members: readonly number[]): ProcessName[] {
  const alive = known.filter(isAlive)
  const below = [...alive.flatMap(({ pid }) => descendantsOf(pid)), ...members]
  return [...new Map([...alive, ...below.map(nameProcess).filter((name) => name !== undefined)].map((name) => [name.pid, name])).values()]
}

/** The text of a file; undefined when there is none. */
export function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}
