// Which services watch a fake instance or sandbox. All of them share the one in this process; each has it as its own.
import type { Exit } from '../driver.ts'

const watchedBy = new Map<string, Set<string>>()

/** The replicas that watch an instance or a sandbox. */
export const watchersOf = (id: string): string[] => [...(watchedBy.get(id) ?? [])]

/** What was started, as one service has it. */
export function watched<T extends { id: string; exited: Promise<Exit> } & AsyncDisposable>(started: T, replica: string): T & { unwatch(): void } {
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
