// Keys derived from the service's one secret. Each purpose has its own key, so that a result of one purpose is invalid for another.
import { hkdfSync } from 'node:crypto'

/** A key of 32 bytes for one purpose. A change of a purpose's text makes everything invalid that was signed or sealed for it. */
export const derivedKey = (secretKey: Buffer, purpose: string): Uint8Array => new Uint8Array(hkdfSync('sha256', secretKey, '', purpose, 32))
