// The watches of a session: start, read, stop. tree.ts produces the events, backlog.ts queues them.
import { newId } from '../../base/ids.ts'
import type { Log } from '../../base/log.ts'
import { fault } from '../../http/fault.ts'
import { Backlog } from './backlog.ts'
import type { WatchEvent } from './contract.ts'
import { watchTree, type Tree } from './tree.ts'

/** Each watch costs a small process (5 MB, most of it shared) and its queue. */
export const MAX_WATCHES = 32

interface Watch {
  backlog: Backlog
  tree: Tree | undefined
}

export class Watches implements AsyncDisposable {
  readonly #watches = new Map<string, Watch>()
  readonly #log: Log

  constructor(log: Log) {
    this.#log = log
  }

  /** Whether a watch is open. */
  get any(): boolean {
    return this.#watches.size > 0
  }

  /** Starts a watch; events from the moment it resolves are kept for readers. */
  async start(path: string, recursive: boolean, signal: AbortSignal): Promise<string> {
    if (this.#watches.size >= MAX_WATCHES) throw fault.conflict(`there are ${MAX_WATCHES} watches already, as many as a session may have; end one first`)
    const id = newId()
    const watch: Watch = { backlog: new Backlog(), tree: undefined }
    this.#watches.set(id, watch)
    try {
      watch.tree = await watchTree(path, recursive, (event) => watch.backlog.push(event), signal)
    } catch (error) {
      this.#watches.delete(id)
      throw error
    }
    if (!this.#watches.has(id)) {
      // The session has ended meanwhile.
      await watch.tree[Symbol.asyncDispose]()
      throw fault.unavailable('the session ends')
    }
    void watch.tree.ended
      .then(
        () => watch.backlog.end(),
        (err: unknown) => {
          if (this.#watches.has(id)) this.#log.error({ err, watch: id }, 'a watch has failed')
          watch.backlog.end(err)
        },
      )
      .then(() => this.#endTree(watch))
      .catch((err: unknown) => this.#log.warn({ err, watch: id }, 'a watch did not end'))
    return id
  }

  /** The events of a watch; see {@link Backlog.read}. They end with the watch, or with the directory that it watches. */
  events(id: string, signal: AbortSignal): AsyncIterable<WatchEvent> {
    const { backlog } = this.#get(id)
    const watches = this.#watches
    return (async function* () {
      try {
        yield* backlog.read(signal)
      } finally {
        // A watch that failed, or whose directory was deleted, is kept until a reader has got the error.
        if (backlog.finished) watches.delete(id)
      }
    })()
  }

  async stop(id: string): Promise<void> {
    const watch = this.#get(id)
    this.#watches.delete(id)
    watch.backlog.end()
    await this.#endTree(watch)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#watches.keys()].map((id) => this.stop(id)))
  }

  async #endTree(watch: Watch): Promise<void> {
    const { tree } = watch
    watch.tree = undefined
    await tree?.[Symbol.asyncDispose]()
  }

  #get(id: string): Watch {
    const watch = this.#watches.get(id)
    if (!watch) throw fault.notFound('watch', id)
    return watch
  }
}
