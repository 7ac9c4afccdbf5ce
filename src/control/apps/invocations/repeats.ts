// Recognizes requests that a client retries automatically. The SDK times out after 60 s and retries up to twice, without an id that links the requests. A retry
// must not run the action again.
import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { CreateInvocation } from './contract.ts'

/** For this time after its end, a run is the answer to a retry of its request. */
export const REPEAT_SECONDS = 60
/** A client that got a Retry-After retries within seconds. */
const REFUSED_MS = 60_000
/** Limits on remembered requests of one caller, and on callers. The oldest are forgotten first. */
const REMEMBER_REFUSED = 1_000

/** The key of a request: a hash of all its fields. Requests with the same key are the same. */
export const requestHash = (wanted: CreateInvocation): Buffer =>
  createHash('sha256')
    .update(JSON.stringify([wanted.app_name, wanted.version, wanted.action_name, wanted.payload, wanted.isAsync, wanted.timeoutSeconds]))
    .digest()

/** Whether the client says that this is a retry. */
export const isRepeated = (headers: IncomingHttpHeaders): boolean => Number(headers['x-stainless-retry-count'] ?? 0) >= 1

/**
 * Requests that were refused by the limit of runs. Their retries look like any other retry, but no run exists for them: an equal run of the same caller that
 * has just ended is not their answer.
 */
export class Refusals {
  readonly #callers = new Map<string, Map<string, number>>()

  add(caller: string, hash: Buffer): void {
    const own = this.#callers.get(caller) ?? new Map<string, number>()
    setNewest(own, hash.toString('base64'), performance.now() + REFUSED_MS)
    setNewest(this.#callers, caller, own)
  }

  /** Whether this request was refused before. The record is then removed. */
  take(caller: string, hash: Buffer): boolean {
    const own = this.#callers.get(caller)
    const name = hash.toString('base64')
    const until = own?.get(name)
    own?.delete(name)
    if (own?.size === 0) this.#callers.delete(caller)
    return until !== undefined && until > performance.now()
  }
}

/** Sets an entry as the newest one. When there are too many, the oldest is removed. */
function setNewest<T>(map: Map<string, T>, name: string, value: T): void {
  map.delete(name)
  map.set(name, value)
  if (map.size > REMEMBER_REFUSED) map.delete(map.keys().next().value!)
}
