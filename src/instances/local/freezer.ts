// Stops and continues processes by cgroups: `cgroup.freeze` of version 2 where it is delegated, else the freezer of version 1. The groups are made when a
// sandbox first sleeps. Then its processes are moved into them, except those that stay awake.
import { spawn, type ChildProcess } from 'node:child_process'
import { accessSync, constants, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { resultWithin, sleep, until } from '../../base/wait.ts'
import { isGone, processesIn, readOf, removed, ROOT, scopesIn, subgroups } from './cgroups.ts'

export interface Freezer extends AsyncDisposable {
  /** Stops all processes that `others` lists, and those that they start meanwhile. Resolves with whether they are stopped; otherwise they continue. */
  freeze(id: string, others: () => readonly number[], signal: AbortSignal): Promise<boolean>
  /** Continues them. */
  thaw(id: string): void
  isFrozen(id: string): boolean
  /** Removes the group. Its processes have ended. */
  remove(id: string): Promise<void>
  /** Ids of sandboxes that have a group of their own here. */
  list(): string[]
}

/** It takes 20 to 80 ms, and 5 when the processes are in their group already. A process that is reading from a slow disk stops after the read. */
const FREEZE_MS = 10_000
const LOOK_MS = 2
const FREE_MS = 5_000
/** Time for the thawing program to end after the service has closed its input. */
const THAW_MS = 2_000

/** Where a version of cgroups has its files, and what is written to them. */
interface Files {
  /** The group of a sandbox's stopped processes. */
  dir: (id: string) => string
  /** The file that stops them and continues them. */
  switch: string
  stop: string
  go: string
  /** Whether all processes are stopped, of a group's directory. */
  isStill: (dir: string) => boolean
  /** Whether the processes were not continued since they were stopped. */
  isStopped: (dir: string) => boolean
}

/** The group of version 2, in a sandbox's own: without controllers, so its processes are counted and limited as before. */
const V2_GROUP = 'standby'

/** `base` holds the sandboxes' groups (limits.ts). */
export const v2Freezer = (base: string): Freezer => {
  const files = v2Files((id) => join(base, id, V2_GROUP))
  return {
    ...freezer(files),
    // The group is in the sandbox's own group, and ends with it. A killed process leaves a stopped group.
    remove: async () => {},
    list: () => [],
    [Symbol.asyncDispose]: async () => {},
  }
}

const v2Files = (dir: (id: string) => string): Files => ({
  dir,
  switch: 'cgroup.freeze',
  stop: '1',
  go: '0',
  isStill: (group) => /^frozen 1$/m.test(readOf(group, 'cgroup.events')),
  isStopped: (group) => readOf(group, 'cgroup.freeze').trim() === '1',
})

const V1_ROOT = join(ROOT, 'freezer')

const v1Files = (base: string): Files => ({
  dir: (id) => join(base, id),
  switch: 'freezer.state',
  stop: 'FROZEN',
  go: 'THAWED',
  isStill: (group) => readOf(group, 'freezer.state').trim() === 'FROZEN',
  // The state is FREEZING until all of them are stopped.
  isStopped: (group) => readOf(group, 'freezer.state').startsWith('FR'),
})

/** @throws when it cannot be used */
export function v1Freezer(scope: string): Freezer {
  accessSync(V1_ROOT, constants.W_OK)
  const base = join(V1_ROOT, `cob-${scope}`)
  const files = v1Files(base)
  const { freeze, ...rest } = freezer(files)
  let guard: ChildProcess | undefined
  return {
    ...rest,
    freeze(id, others, signal) {
      mkdirSync(base, { recursive: true })
      if (!guard) {
        guard = thawAtEnd(base)
        guard.once('exit', () => (guard = undefined))
      }
      return freeze(id, others, signal)
    },
    async remove(id) {
      const dir = files.dir(id)
      if (!existsSync(dir)) return
      rest.thaw(id)
      await until('a freezer to be empty', FREE_MS, () => removed(dir), { everyMs: 5 })
      removed(base)
    },
    list: () => subgroups(base),
    async [Symbol.asyncDispose]() {
      if (guard) {
        const left = once(guard, 'exit')
        guard.stdin!.end()
        await resultWithin(THAW_MS, left)
      }
      // A killed service may have left it empty; then no sandbox's removal removes it.
      removed(base)
    },
  }
}

/**
 * Starts a program that continues all sandboxes when this service has ended for any reason. In version 1 a stopped process cannot be killed, so a sandbox could
 * not end itself when no service comes back.
 */
function thawAtEnd(base: string): ChildProcess {
  const script = 'read -r _; for file in "$1"/*/freezer.state; do echo THAWED >"$file"; done 2>/dev/null'
  const guard = spawn('/bin/sh', ['-c', script, 'sh', base], { detached: true, cwd: '/', stdio: ['pipe', 'ignore', 'ignore'] })
  // Without the program, sandboxes that sleep when the service is killed wait for the next service.
  guard.on('error', () => {})
  guard.stdin!.on('error', () => {})
  guard.unref()
  return guard
}

function freezer(files: Files): Pick<Freezer, 'freeze' | 'thaw' | 'isFrozen'> {
  const thaw = (id: string) => thawIn(files, files.dir(id))

  /** False when another caller has continued them meanwhile. */
  async function stop(dir: string, others: () => readonly number[], signal: AbortSignal): Promise<boolean> {
    make(dir)
    for (;;) {
      const inside = new Set(processesIn(dir))
      const missing = others().filter((pid) => !inside.has(pid))
      if (missing.length === 0 && files.isStill(dir)) return true
      // One by one: each move waits for the kernel, on one of a few threads that others need, too.
      for (const pid of missing) {
        await enter(dir, pid)
        signal.throwIfAborted()
      }
      // There is no await between the check of the signal and this line. So a `thaw` comes before it, and the signal has aborted, or after it.
      writeFileSync(join(dir, files.switch), files.stop)
      while (!files.isStill(dir)) {
        if (!files.isStopped(dir)) return false
        await sleep(LOOK_MS, signal)
      }
    }
  }

  return {
    thaw,
    isFrozen: (id) => files.isStill(files.dir(id)),
    async freeze(id, others, signal) {
      try {
        signal.throwIfAborted()
        return await stop(files.dir(id), others, AbortSignal.any([signal, AbortSignal.timeout(FREEZE_MS)]))
      } catch (error) {
        thaw(id)
        if (signal.aborted || isGone(error)) return false
        throw error
      }
    },
  }
}

function make(dir: string): void {
  try {
    mkdirSync(dir)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

function thawIn(files: Files, dir: string): void {
  try {
    writeFileSync(join(dir, files.switch), files.go)
  } catch (error) {
    if (!isGone(error)) throw error
  }
}

/** Continues the processes of a sandbox whose service is unknown, so that they can be killed. In version 2 they can be killed while stopped. */
export function thawAnywhere(id: string): void {
  for (const name of scopesIn(V1_ROOT)) thawIn(v1Files(join(V1_ROOT, name)), join(V1_ROOT, name, id))
}

/** Removes the groups in which a sandbox of an unknown service slept. */
export async function removeFreezersOf(id: string): Promise<void> {
  for (const name of scopesIn(V1_ROOT)) await v1Freezer(name.slice('cob-'.length)).remove(id)
}

async function enter(dir: string, pid: number): Promise<void> {
  try {
    await writeFile(join(dir, 'cgroup.procs'), String(pid))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error // the process has ended
  }
}
