// Requests that a client repeats by itself. The SDK gives up after 60 s and asks again, up to twice, with nothing that names the
// request; what it repeats must not run again.
import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { CreateInvocation } from './contract.ts'

/** How long after its end a run is still the answer to its own request. */
export const REPEAT_SECONDS = 60
/** A client that was told to come back does so within seconds. */
const REFUSED_MS = 60_000
const REMEMBER_REFUSED = 1_000

/** What makes two requests the same: everything that was asked for. */
export const requestHash = (wanted: CreateInvocation): Buffer =>
  createHash('sha256')
    .update(JSON.stringify([wanted.app_name, wanted.version, wanted.action_name, wanted.payload, wanted.isAsync, wanted.timeoutSeconds]))
    .digest()

/** Whether a client says that it has asked before. */
export const isRepeated = (headers: IncomingHttpHeaders): boolean => Number(headers['x-stainless-retry-count'] ?? 0) >= 1

/**
 * Requests that were refused because too much was running. What comes after such a refusal is repeated, too, and yet nothing has
 * run for it: an equal request of the same caller that has ended a moment ago is not its answer.
 */
export class Refusals {
  readonly #until = new Map<string, number>()

  add(caller: string, hash: Buffer): void {
    if (this.#until.size >= REMEMBER_REFUSED) this.#until.clear()
    this.#until.set(nameOf(caller, hash), performance.now() + REFUSED_MS)
  }

  /** Whether this request was refused before; it is forgotten then. */
  take(caller: string, hash: Buffer): boolean {
    const name = nameOf(caller, hash)
    const until = this.#until.get(name)
    this.#until.delete(name)
    return until !== undefined && until > performance.now()
  }
}

const nameOf = (caller: string, hash: Buffer): string => `${caller} ${hash.toString('base64')}`
