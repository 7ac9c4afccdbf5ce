// Headers of requests and answers in events: without secrets, and bounded.
import { secretKind } from './names.ts'
import { REDACTED } from './ranges.ts'
import type { Secrets } from './redact.ts'

const MAX_HEADERS = 64
const MAX_NAME = 256
const MAX_VALUE_BYTES = 2048
/** All headers of a message, in characters. Browsers and servers seldom send more than 4,000. */
const MAX_ALL = 16 * 1024
/** The characters of one value that are scrubbed, and of all: a long value may have only secrets, and is short without them. */
const MAX_LOOKED = 2 * MAX_VALUE_BYTES
const MAX_ALL_LOOKED = 2 * MAX_ALL

/** Headers whose values are names of headers. */
const NAMES = new Set(['access-control-allow-headers', 'access-control-expose-headers', 'access-control-request-headers', 'accept-ch', 'vary', 'trailer'])

export interface TellableHeaders {
  headers: Record<string, string>
  /** Whether some headers are left out, or shortened. */
  isCut: boolean
  /** Their length, in characters. */
  length: number
}

/** Values of secret headers are replaced, and secrets in other ones. */
export function scrubHeaders(given: Record<string, unknown>, secrets: Secrets): TellableHeaders {
  const headers: [string, string][] = []
  let [isCut, length, looked] = [false, 0, 0]
  for (const [name, value] of Object.entries(given)) {
    if (headers.length === MAX_HEADERS || length >= MAX_ALL || looked >= MAX_ALL_LOOKED || name.length > MAX_NAME) {
      isCut = true
      continue
    }
    const { text, isCut: isShort, looked: more } = valueOf(name.toLowerCase(), String(value), secrets)
    isCut ||= isShort
    looked += more
    length += name.length + text.length
    headers.push([secrets.scrub(name), text])
  }
  return { headers: Object.fromEntries(headers), isCut, length }
}

/** Ends of names that are secrets less often in other texts than in headers. */
const SECRET = /(?:^|-)(?:key|session|sid|otp|pin)$/
const NO_SECRETS = new Set(['surrogate-key', 'cache-key', 'x-cache-key', 'idempotency-key', 'x-idempotency-key'])
/** The remaining tokens of a language model, and the time of their renewal. */
const AMOUNT = /^\d[\d.]{0,11}(?:ms|s|m|h)?$/
/** Pages that cannot send a token with a socket in another way send it as a protocol's name. */
const PROTOCOLS =
  /^(?:graphql-(?:transport-)?ws|mqtt(?:v3\.1)?|soap|wamp\.2\.(?:json|msgpack)|(?:v1[0-2]\.)?stomp|ocpp\d\.\d|actioncable-v1-json|vite-(?:hmr|ping)|chat|binary|sip|xmpp)$/i

function valueOf(name: string, value: string, secrets: Secrets): { text: string; isCut: boolean; looked: number } {
  const looked = Math.min(value.length, MAX_LOOKED)
  if (name === 'sec-websocket-protocol')
    return {
      text: value
        .slice(0, MAX_VALUE_BYTES)
        .split(/, */)
        .map((one) => (PROTOCOLS.test(one) ? one : REDACTED))
        .join(', '),
      isCut: false,
      looked,
    }
  return !NAMES.has(name) && isSecret(name, value) ? { text: REDACTED, isCut: false, looked: 0 } : { ...secrets.scrubCut(value, MAX_VALUE_BYTES), looked }
}

function isSecret(name: string, value: string): boolean {
  const kind = secretKind(name)
  return kind === 'tokens' ? !AMOUNT.test(value) : kind !== undefined || (SECRET.test(name) && !NO_SECRETS.has(name))
}

/** Headers without values that were learned since they were scrubbed. */
export function scrubHeadersAgain(headers: Record<string, string>, isCut: boolean, secrets: Secrets): Record<string, string> {
  const mayBeCut = (value: string) => isCut && value.length * 3 >= MAX_VALUE_BYTES - 3
  return Object.fromEntries(Object.entries(headers).map(([name, text]) => [secrets.scrub(name), secrets.scrubAgain({ text, isCut: mayBeCut(text) }).text]))
}
