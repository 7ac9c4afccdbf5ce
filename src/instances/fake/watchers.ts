// The fake instances and sandboxes of this process, and which services watch them. All services share one instance; each has its own view of it.
import { readdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Exit } from '../driver.ts'

type Started = { id: string; exited: Promise<Exit> } & AsyncDisposable

/**
 * Registers what runs of one kind, by data directory. The registry outlives a control plane, as real instances do. `folder` has the directories of what runs.
 */
export function registry<T extends Started>() {
  const running = new Map<string, Map<string, T>>()
  /** The services that have started them. */
  const startedBy = new Map<string, string>()
  return (root: string, folder: string, replica: string) => {
    const mine = running.get(root) ?? new Map<string, T>()
    running.set(root, mine)
    return {
      get: (id: string): T | undefined => mine.get(id),
      async start(id: string, make: (onEnd: () => void) => Promise<T>) {
        startedBy.set(id, replica)
        const started = await make(() => {
          mine.delete(id)
          startedBy.delete(id)
        })
        mine.set(id, started)
        return watched(started, replica)
      },
      found: async () => [...new Set([...mine.keys(), ...readdirSync(folder)])].map((id) => ({ id, replica: startedBy.get(id) })),
      async adopt(id: string) {
        if (!mine.has(id)) await rm(join(folder, id), { recursive: true, force: true })
        const started = mine.get(id)
        return started && watched(started, replica)
      },
    }
  }
}

const watchedBy = new Map<string, Set<string>>()

/** The replicas that watch an instance or a sandbox. */
export const watchersOf = (id: string): string[] => [...(watchedBy.get(id) ?? [])]

/** One service's view of something that was started. */
function watched<T extends Started>(started: T, replica: string): T & { unwatch(): void } {
  const { id } = started
  const exit = Promise.withResolvers<Exit>()
  const watchers = watchedBy.get(id) ?? new Set()
  watchedBy.set(id, watchers.add(replica))
  let isWatched = true
  void started.exited.then((reason) => {
    watchedBy.delete(id)
    if (isWatched) exit.resolve(reason)
  })
  const unwatch = () => {
    isWatched = false
    watchers.delete(replica)
  }
  return { ...started, exited: exit.promise, unwatch }
}
