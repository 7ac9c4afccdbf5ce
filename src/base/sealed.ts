// Secrets at rest: AES-256-GCM under a key derived from the service's own, which is kept outside the database.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { derivedKey } from './derived-key.ts'

const ALGORITHM = 'aes-256-gcm'
/** NIST SP 800-38D: 96 random bits are enough for 2^32 messages under one key. */
const NONCE_BYTES = 12
const TAG_BYTES = 16

export interface Sealer {
  /** Encrypts a text. It is bound to `owner` (an id): it cannot be decrypted in another owner's row. */
  seal(text: string, owner: string): Buffer
  /** @throws when the bytes were changed, or were sealed for another owner or with another key. */
  open(sealed: Buffer, owner: string): string
}

/** `purpose` separates uses: what is sealed for one cannot be opened for another. */
export function makeSealer(secretKey: Buffer, purpose: string): Sealer {
  const key = derivedKey(secretKey, `cob-sealed-${purpose}`)
  return {
    seal(text, owner) {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv(ALGORITHM, key, nonce).setAAD(Buffer.from(owner))
      return Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
    },
    open(sealed, owner) {
      const decipher = createDecipheriv(ALGORITHM, key, sealed.subarray(0, NONCE_BYTES)).setAAD(Buffer.from(owner))
      decipher.setAuthTag(sealed.subarray(-TAG_BYTES))
      return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString('utf8')
    },
  }
}
