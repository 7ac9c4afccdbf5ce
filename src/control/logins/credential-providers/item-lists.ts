// The cached lists of items, in memory only. They contain titles and URLs, and no values.
import type { Item } from './backends/backend.ts'
import type { ProviderRow } from './rows.ts'

interface Remembered {
  version: number
  /** By a monotonic clock. */
  until: number
  items: Item[]
}

export interface ItemLists {
  /** A provider's list from the cache, unless it is too old, is of an earlier version of the provider, or `isFresh` is set. */
  get(row: Pick<ProviderRow, 'id' | 'version' | 'cache_ttl_seconds'>, isFresh: boolean, read: () => Promise<Item[]>): Promise<Item[]>
  forget(id: string): void
}

export function makeItemLists(): ItemLists {
  const lists = new Map<string, Remembered>()
  return {
    async get({ id, version, cache_ttl_seconds: ttl }, isFresh, read) {
      const known = lists.get(id)
      if (!isFresh && known?.version === version && known.until > performance.now()) return known.items
      // Remove lists of providers that other replicas have deleted, and old ones: nobody may ask for them again.
      for (const [other, { until }] of lists) if (until <= performance.now()) lists.delete(other)
      const items = await read()
      if (ttl > 0) lists.set(id, { version, until: performance.now() + ttl * 1000, items })
      return items
    },
    forget: (id) => void lists.delete(id),
  }
}
