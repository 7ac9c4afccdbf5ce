// One line of `cob doctor`.

export interface Check {
  name: string
  /** The problem; undefined when there is none. */
  problem: string | undefined
  /** Whether the problem keeps browsers from starting, or only means that a limit is not enforced. */
  fatal: boolean
}

/** The reason why something fails; undefined when it works. */
export function attempt(work: () => void): string | undefined {
  try {
    work()
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}
