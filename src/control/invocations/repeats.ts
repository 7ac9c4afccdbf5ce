// Recognizes requests that a client retries by itself. The SDK times out after 60 s and retries up to twice, without an id that links the
// requests. A retry must not run the action again.
import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { CreateInvocation } from './contract.ts'

/** For this long after its end, a run is the answer to a retry of its request. */
export const REPEAT_SECONDS = 60
/** A client that got a Retry-After retries within seconds. */
const REFUSED_MS = 60_000
const REMEMBER_REFUSED = 1_000

/** The key of a request: everything that was asked for. Requests with the same key are the same. */
export const requestHash = (wanted: CreateInvocation): Buffer =>
  createHash('sha256')
    .update(JSON.stringify([wanted.app_name, wanted.version, wanted.action_name, wanted.payload, wanted.isAsync, wanted.timeoutSeconds]))
    .digest()

/** Whether the client says that this is a retry. */
export const isRepeated = (headers: IncomingHttpHeaders): boolean => Number(headers['x-stainless-retry-count'] ?? 0) >= 1

/**
 * Requests that were refused because of the limit of runs. Their retries look like any other retry, but no run exists for them: an equal request
 * of the same caller that has just ended is not their answer.
 */
export class Refusals {
  readonly #until = new Map<string, number>()

  add(caller: string, hash: Buffer): void {
    if (this.#until.size >= REMEMBER_REFUSED) this.#until.clear()
    this.#until.set(nameOf(caller, hash), performance.now() + REFUSED_MS)
  }

  /** Whether this request was refused before. The record is then removed. */
  take(caller: string, hash: Buffer): boolean {
    const name = nameOf(caller, hash)
    const until = this.#until.get(name)
    this.#until.delete(name)
    return until !== undefined && until > performance.now()
  }
}

const nameOf = (caller: string, hash: Buffer): string => `${caller} ${hash.toString('base64')}`
