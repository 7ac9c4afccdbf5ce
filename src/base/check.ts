// One line of `cob doctor`.

export interface Check {
  name: string
  /** What is wrong; undefined when all is well. */
  problem: string | undefined
  /** Whether the problem keeps browsers from starting, or only means that a limit is not enforced. */
  fatal: boolean
}

/** Why something fails; undefined when it does not. */
export function attempt(work: () => void): string | undefined {
  try {
    work()
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}
