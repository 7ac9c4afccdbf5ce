// Control groups as folders: their subgroups, their processes, and their removal.
import { existsSync, readFileSync, readdirSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'

export const ROOT = '/sys/fs/cgroup'

/** The group, or the device behind its open file, does not exist any more. */
export const isGone = (error: unknown): boolean => ['ENOENT', 'ENODEV'].includes((error as NodeJS.ErrnoException).code ?? '')

/** A file of a group; empty when the group is deleted. */
export function readOf(dir: string, file: string): string {
  try {
    return readFileSync(join(dir, file), 'utf8')
  } catch (error) {
    if (!isGone(error)) throw error
    return ''
  }
}

export const processesIn = (dir: string): number[] => readOf(dir, 'cgroup.procs').split('\n').filter(Boolean).map(Number)

export const subgroups = (dir: string): string[] =>
  existsSync(dir) ? readdirSync(dir, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : [])) : []

/** The groups of all services in a parent. */
export const scopesIn = (parent: string): string[] => subgroups(parent).filter((name) => name.startsWith('cob-'))

/** Removes a group. Returns whether it no longer exists; false while it is in use. */
export function removed(dir: string): boolean {
  try {
    rmdirSync(dir)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EBUSY' && code !== 'ENOTEMPTY' && code !== 'ENOENT') throw error
    return code === 'ENOENT'
  }
}
