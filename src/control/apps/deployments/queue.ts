// The queue of builds: the next deployment, and its archive. A build whose archive cannot be read now goes to the end.
import type { Readable } from 'node:stream'
import type { Db } from '../../../store/db.ts'
import type { Objects } from '../../../store/objects.ts'
import { nextToBuild, type DeploymentRow } from './rows.ts'

/** Shortest delay of a build whose archive could not be read. */
export const RETRY_MS = 1_000

/** The object store cannot deliver the archive of a build now. */
export class ArchiveAway extends Error {}

export class BuildQueue {
  readonly #db: Db
  readonly #scope: string
  /** Builds whose archives could not be read: time of the next attempt, and how often an archive broke off. */
  readonly #postponed = new Map<string, { at: number; breaks: number }>()

  constructor(db: Db, scope: string) {
    this.#db = db
    this.#scope = scope
  }

  get hasPostponed(): boolean {
    return this.#postponed.size > 0
  }

  async next(): Promise<DeploymentRow | undefined> {
    const fresh = await nextToBuild(this.#db, this.#scope, [...this.#postponed.keys()])
    if (fresh || !this.hasPostponed) return fresh
    const notDue = [...this.#postponed].filter(([, { at }]) => at > Date.now()).map(([id]) => id)
    return nextToBuild(this.#db, this.#scope, notDue)
  }

  postpone(id: string): void {
    this.#postponed.set(id, { at: Date.now() + RETRY_MS, breaks: this.#postponed.get(id)?.breaks ?? 0 })
  }

  /** Counts a break of a build's archive. Returns the number of breaks. */
  broke(id: string): number {
    const breaks = (this.#postponed.get(id)?.breaks ?? 0) + 1
    this.#postponed.set(id, { at: 0, breaks })
    return breaks
  }

  /** Forgets a build that has ended. */
  forget(id: string): void {
    this.#postponed.delete(id)
  }
}

/** Undefined when there is no such object. @throws ArchiveAway, or the signal's reason */
export async function openArchive(objects: Objects, key: string, signal: AbortSignal): Promise<Readable | undefined> {
  const found = await objects.get(key, undefined, signal).catch((cause: unknown) => {
    signal.throwIfAborted()
    throw new ArchiveAway('the archive of a build cannot be read now; it will be tried again, other builds go on', { cause })
  })
  return found?.content
}
