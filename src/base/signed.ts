// Signed tokens, each of which gives access to one thing without an API key. A token names the thing, and only the service can make it. Each purpose has its
// own key, so a token of one purpose is refused for every other. Tokens have no expiry: callers check that the named thing still exists.
import { SignJWT, jwtVerify, type JWTPayload } from 'jose'
import { createHmac, timingSafeEqual } from 'node:crypto'
import { derivedKey } from './derived-key.ts'

const ALGORITHM = 'HS256'

export interface Signer {
  /** A JWT that names `subject`. The same arguments always give the same token, so addresses with it never change. */
  sign(subject: string, claims?: JWTPayload): Promise<string>
  /** The subject of a token; undefined for a text that {@link sign} of this purpose has not made. */
  subjectOf(token: unknown): Promise<string | undefined>
  /** All claims of a token; undefined as for {@link subjectOf}. */
  read(token: unknown): Promise<JWTPayload | undefined>
}

/** Signs JWTs. `purpose` is their audience as well. */
export function makeSigner(secretKey: Buffer, purpose: string): Signer {
  const key = derivedKey(secretKey, purpose)
  const read = async (token: unknown) => {
    if (typeof token !== 'string') return undefined
    return jwtVerify(token, key, { audience: purpose, algorithms: [ALGORITHM] }).then(
      ({ payload }) => payload,
      () => undefined,
    )
  }
  return {
    sign: (subject, claims = {}) => new SignJWT(claims).setProtectedHeader({ alg: ALGORITHM }).setAudience(purpose).setSubject(subject).sign(key),
    subjectOf: async (token) => (await read(token))?.sub,
    read,
  }
}

/** 192 bits: too many to guess. In base64url they are 32 characters, without padding. */
const PROOF_BYTES = 24
const SHORT_FORM = /^(.+)([\w-]{32})$/

export interface ShortSigner {
  /** `text` with its proof after it: a third of a JWT's length, for addresses that people see and pass on. */
  sign(text: string): string
  /** The text of a token; undefined for a token that {@link sign} of this purpose has not made. */
  textOf(token: string): string | undefined
}

export function makeShortSigner(secretKey: Buffer, purpose: string): ShortSigner {
  const key = derivedKey(secretKey, purpose)
  const proof = (text: string) => createHmac('sha256', key).update(text).digest().subarray(0, PROOF_BYTES)
  return {
    sign: (text) => text + proof(text).toString('base64url'),
    textOf(token) {
      const [, text, given] = SHORT_FORM.exec(token) ?? []
      return text && given && timingSafeEqual(Buffer.from(given, 'base64url'), proof(text)) ? text : undefined
    },
  }
}
