// The service has one secret. Each use of it gets a key of its own, so that what one use makes means nothing to another.
import { hkdfSync } from 'node:crypto'

/** A key of 32 bytes for one purpose. Changing the words of a purpose makes everything invalid that was signed or sealed for it. */
export const derivedKey = (secretKey: Buffer, purpose: string): Uint8Array => new Uint8Array(hkdfSync('sha256', secretKey, '', purpose, 32))
