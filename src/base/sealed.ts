// Secrets at rest: AES-256-GCM under keys derived from the service's own, which are kept outside the database (keys.ts).
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { derivedKey } from './derived-key.ts'
import { KEY_ID_BYTES, type Keys, type SealingKey } from './keys.ts'

const ALGORITHM = 'aes-256-gcm'
/** NIST SP 800-38D: 96 random bits are enough for 2^32 messages under one key. */
const NONCE_BYTES = 12
const TAG_BYTES = 16
/** Four bytes that mark a header, and one for its form. Before there were headers, values began with a random nonce. */
const FORM = Buffer.from([0xc0, 0xb5, 0xea, 0x1d, 1])
const HEADER_BYTES = FORM.length + KEY_ID_BYTES

export interface Sealer {
  /** Encrypts a text. It is bound to `owner` (an id): it cannot be decrypted in another owner's row. */
  seal(text: string, owner: string): Buffer
  /** @throws when the bytes were changed, or were sealed for another owner or with a key that the service does not have */
  open(sealed: Buffer, owner: string): string
}

/** The beginning of every value that a key has sealed. */
export const headerOf = (key: SealingKey): Buffer => Buffer.concat([FORM, Buffer.from(key.id, 'hex')])

/** The id of the key in a header; undefined for values from before there were headers. */
export const keyIdOf = (sealed: Buffer): string | undefined =>
  sealed.subarray(0, FORM.length).equals(FORM) && sealed.length >= HEADER_BYTES ? sealed.subarray(FORM.length, HEADER_BYTES).toString('hex') : undefined

/** `purpose` separates uses: a value that is sealed for one cannot be opened for another. */
export function makeSealer(keys: Keys, purpose: string): Sealer {
  const derived = new Map<string, Uint8Array>()
  const keyOf = ({ id, secret }: SealingKey): Uint8Array => {
    let key = derived.get(id)
    if (!key) derived.set(id, (key = derivedKey(secret, `cob-sealed-${purpose}`)))
    return key
  }

  function decrypt(key: SealingKey, header: Buffer, sealed: Buffer, owner: string): string {
    const decipher = createDecipheriv(ALGORITHM, keyOf(key), sealed.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
    decipher.setAAD(Buffer.concat([header, Buffer.from(owner)])).setAuthTag(sealed.subarray(-TAG_BYTES))
    return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString('utf8')
  }

  return {
    seal(text, owner) {
      const [key] = keys.sealing()
      const [header, nonce] = [headerOf(key), randomBytes(NONCE_BYTES)]
      const cipher = createCipheriv(ALGORITHM, keyOf(key), nonce, { authTagLength: TAG_BYTES }).setAAD(Buffer.concat([header, Buffer.from(owner)]))
      return Buffer.concat([header, nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
    },
    open(sealed, owner) {
      const id = keyIdOf(sealed)
      if (id === undefined) return decrypt(keys.root, Buffer.alloc(0), sealed, owner)
      const key = keys.sealing().find((one) => one.id === id)
      if (key) return decrypt(key, sealed.subarray(0, HEADER_BYTES), sealed.subarray(HEADER_BYTES), owner)
      try {
        // One nonce of 2^40 looks like a header.
        return decrypt(keys.root, Buffer.alloc(0), sealed, owner)
      } catch (cause) {
        throw new Error(`this was encrypted with the key ${id}, which this service does not have`, { cause })
      }
    },
  }
}
