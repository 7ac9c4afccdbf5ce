// Cache for large forwarded answers. An entry is used only while the target server says that it is still valid (ETag, RFC 9110 13.1.2).
import type { OutgoingHttpHeaders } from 'node:http'

/** How long an answer is kept after its last use, in milliseconds. An agent that requests it again does so within seconds. */
const KEPT_MS = 30_000
/** Limit on all kept answers together, in bytes. The least recently used are dropped first. */
const KEPT_BYTES = 64 * 1024 * 1024
/** Limit on the answers of one address: the whole screen and a few regions. */
const KEPT_PER_ADDRESS = 8

export interface KeptAnswer {
  etag: string
  headers: OutgoingHttpHeaders
  body: Buffer
}

/** A limited cache of answers by address. Entries that are unused for {@link KEPT_MS} are dropped. */
export class KeptAnswers {
  /** By address and tag, least recently used first. */
  readonly #answers = new Map<string, KeptAnswer & { address: string; usedAt: number }>()
  #bytes = 0
  #sweeping = false

  /** The known answers for an address, by tag, to offer to the server. A snapshot, so that none is dropped before the server has chosen. */
  of(address: string): Map<string, KeptAnswer> {
    return new Map([...this.#answers.values()].filter((answer) => answer.address === address).map((answer) => [answer.etag, answer]))
  }

  /** Records that an answer was sent, for the first time or again. */
  keep(address: string, answer: KeptAnswer): void {
    const key = `${address} ${answer.etag}`
    this.#drop(key)
    this.#answers.set(key, { ...answer, address, usedAt: performance.now() })
    this.#bytes += answer.body.length
    const others = [...this.#answers].filter(([, held]) => held.address === address)
    for (const [old] of others.slice(0, -KEPT_PER_ADDRESS)) this.#drop(old)
    for (const old of this.#answers.keys()) if (this.#bytes > KEPT_BYTES) this.#drop(old)
    this.#forgetLater()
  }

  #forgetLater(): void {
    if (this.#sweeping) return
    this.#sweeping = true
    setTimeout(() => this.#forget(), KEPT_MS).unref()
  }

  #forget(): void {
    this.#sweeping = false
    const before = performance.now() - KEPT_MS
    for (const [key, { usedAt }] of this.#answers) if (usedAt <= before) this.#drop(key)
    if (this.#answers.size > 0) this.#forgetLater()
  }

  #drop(key: string): void {
    this.#bytes -= this.#answers.get(key)?.body.length ?? 0
    this.#answers.delete(key)
  }
}
