// The lists of items that are remembered, in memory only. They have titles and URLs, and no values.
import type { Item } from './backends/backend.ts'
import type { ProviderRow } from './rows.ts'

interface Remembered {
  version: number
  /** By the clock that only goes forward. */
  until: number
  items: Item[]
}

export interface ItemLists {
  /** A provider's list: the remembered one, unless it is too old, is of an earlier version of the provider, or a fresh one is wanted. */
  get(row: Pick<ProviderRow, 'id' | 'version' | 'cache_ttl_seconds'>, isFresh: boolean, read: () => Promise<Item[]>): Promise<Item[]>
  forget(id: string): void
}

export function makeItemLists(): ItemLists {
  const lists = new Map<string, Remembered>()
  return {
    async get({ id, version, cache_ttl_seconds: ttl }, isFresh, read) {
      const known = lists.get(id)
      if (!isFresh && known?.version === version && known.until > performance.now()) return known.items
      // Deleted by another replica, or too old: what is not asked for is not kept.
      for (const [other, { until }] of lists) if (until <= performance.now()) lists.delete(other)
      const items = await read()
      if (ttl > 0) lists.set(id, { version, until: performance.now() + ttl * 1000, items })
      return items
    },
    forget: (id) => void lists.delete(id),
  }
}
