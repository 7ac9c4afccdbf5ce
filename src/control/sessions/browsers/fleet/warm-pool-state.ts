// What the warm pool says of itself: figures for people, and notices for other replicas (types only).

/** Gets what the warm pool does, for metrics. */
export interface WarmPoolMeter {
  /** A caller got an instance: one that was ready when it asked, or one that it waited for. */
  served(wasReady: boolean, seconds: number): void
  booting(isAwaited: boolean): void
  bootFailed(isAwaited: boolean): void
}

/** The warm pool as it is now. */
export interface WarmPoolState {
  /** Callers who wait for a boot, or for their turn to look. */
  waiting: number
  /** Boots under way. */
  booting: number
  /** How many of each kind should be ready; those of all pools together. */
  wanted: Record<string, number>
}

/** What other replicas are told, if there are any. */
export interface OtherReplicas {
  /** A caller wants an instance of a kind. */
  asked(kind: string): void
  /** There is one more in the warm pool. */
  isReady(): void
  /** A row says that a replica has to end its instance. */
  end(replica: string): void
}
