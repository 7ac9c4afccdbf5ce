// The connections and calls of clients, through any service. They end together before the session gets another caller.
import type { EventEmitter } from 'node:events'
import { Notifier } from '../../base/notifier.ts'

/** A connection or an answer under way. */
interface Open extends EventEmitter {
  destroy(): unknown
}

export class Clients {
  readonly #open = new Set<Open>()
  readonly #left = new Notifier()

  /** Counts a client until it closes. */
  add(client: Open): void {
    this.#open.add(client)
    client.once('close', () => {
      this.#open.delete(client)
      this.#left.notify()
    })
  }

  /** Ends all of them; resolves when the last one has closed, or rejects with the signal's reason. */
  async dismiss(signal: AbortSignal): Promise<void> {
    for (const client of this.#open) client.destroy()
    while (this.#open.size > 0) await this.#left.next(signal)
  }
}
