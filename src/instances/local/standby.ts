// Sleeping instances of the local driver: which processes are stopped, the mark by which services that share a scope see each other's uses, and the return of
// memory.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '../../base/log.ts'
import { Mutex } from '../../base/mutex.ts'
import { childrenOf, isAlive, readProcessFile } from '../../base/processes.ts'
import { resultWithin } from '../../base/wait.ts'
import type { Standby } from '../driver.ts'
import type { Limits } from './limits.ts'
import { recall } from './remembered.ts'

/** The file in the instance's directory whose time shows when a service has last woken it. */
const MARK = 'used'
/** Levels of processes from the outermost to the agent: pasta, two of bwrap, and the agent. */
const MAX_DEPTH = 16
/** Limit on the return of memory. The kernel may have to write all of it to swap. */
const RECLAIM_MS = 60_000

interface LocalStandby {
  /** The folder of all instances' directories. */
  root: string
  limits: Limits
  log: Log
}

/** Undefined where processes cannot be stopped. */
export function localStandby({ root, limits: { freezer, members, reclaiming }, log }: LocalStandby): Standby | undefined {
  if (!freezer) return undefined
  const turns = new Mutex()
  const markOf = (id: string) => join(root, id, MARK)
  const usedAt = (id: string) => statSync(markOf(id), { throwIfNoEntry: false })?.mtimeMs ?? 0

  return {
    async sleep(id, unusedMs, signal) {
      const before = usedAt(id)
      const awake = awakeOf(join(root, id))
      if (!awake || Date.now() - before < unusedMs) return false
      if (!(await freezer.freeze(id, () => members(id).filter((pid) => !awake.has(pid)), signal))) return false
      // A caller that has marked it since then has continued it before it was stopped.
      if (usedAt(id) === before) return true
      freezer.thaw(id)
      return false
    },
    wake(id) {
      // In this order: see `sleep`.
      mark(markOf(id))
      freezer.thaw(id)
    },
    isAsleep: (id) => freezer.isFrozen(id),
    async reclaim(id, signal) {
      // Without swap the kernel only drops cached files, which other sessions also use.
      if (!reclaiming || !hasSwap()) return
      // One after the other, so that the disk has capacity for others.
      await turns
        .run(() => reclaim(reclaiming(id), signal), signal)
        .catch((err: unknown) => {
          if (!signal.aborted) log.warn({ err, instance: id }, 'memory of a session that sleeps could not be given back')
        })
    },
  }
}

/** Whether this machine has swap. */
export const hasSwap = (): boolean => readFileSync('/proc/swaps', 'utf8').trim().includes('\n')

/** Runs a shell line until it ends, or the signal aborts. */
async function reclaim(line: string, signal: AbortSignal): Promise<void> {
  const child = spawn('/bin/sh', ['-c', line], { cwd: '/', stdio: 'ignore' })
  child.on('error', () => {}) // the wait rejects with it
  await resultWithin(RECLAIM_MS, once(child, 'exit'), signal)
  child.kill('SIGTERM')
}

function mark(file: string): void {
  const now = new Date()
  try {
    utimesSync(file, now, now)
  } catch {
    try {
      writeFileSync(file, '', { mode: 0o600 })
    } catch {} // the instance has ended
  }
}

/**
 * The processes that stay awake: the outermost one (pasta), those of bwrap, and the agent, which is the first child of the last bwrap. All others are stopped.
 * Undefined when the instance has ended.
 */
function awakeOf(dir: string): ReadonlySet<number> | undefined {
  const [outermost] = recall(dir)?.processes ?? []
  if (!outermost || !isAlive(outermost)) return undefined
  const chain = [outermost.pid]
  while (chain.length < MAX_DEPTH) {
    const last = chain.at(-1)!
    const [child] = childrenOf(last)
    if (child === undefined) return undefined
    chain.push(child)
    if (isBwrap(last) && !isBwrap(child)) return new Set(chain)
  }
  return undefined
}

const isBwrap = (pid: number): boolean => readProcessFile(pid, 'comm')?.trim() === 'bwrap'
