// Makes valid and invalid CRX3 files: a header with signatures before a zip.
import { createHash, generateKeyPairSync, sign, type KeyObject } from 'node:crypto'

export interface Signer {
  publicKey: KeyObject
  privateKey: KeyObject
}

export const rsaSigner = (modulusLength = 2048): Signer => generateKeyPairSync('rsa', { modulusLength })
export const ecSigner = (namedCurve = 'prime256v1'): Signer => generateKeyPairSync('ec', { namedCurve })

export const derOf = ({ publicKey }: Signer): Buffer => publicKey.export({ type: 'spki', format: 'der' })
export const crxIdOf = (signer: Signer): Buffer => createHash('sha256').update(derOf(signer)).digest().subarray(0, 16)
/** The extension id of a key, in the form that people see. */
export const extensionIdOf = (signer: Signer): string =>
  crxIdOf(signer)
    .toString('hex')
    .replaceAll(/./g, (digit) => 'abcdefghijklmnop'[parseInt(digit, 16)]!)

function varint(value: number): Buffer {
  const bytes: number[] = []
  for (; value >= 0x80; value = Math.floor(value / 0x80)) bytes.push((value % 0x80) | 0x80)
  return Buffer.from([...bytes, value])
}
/** A protobuf field that holds bytes. */
export const field = (number: number, bytes: Buffer): Buffer => Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes])

/** One signer's proof for a zip: RSA in field 2, ECDSA in field 3. */
export function proofOf(signer: Signer, signedData: Buffer, zip: Buffer, number = signer.publicKey.asymmetricKeyType === 'rsa' ? 2 : 3): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32LE(signedData.length)
  const signature = sign('sha256', Buffer.concat([Buffer.from('CRX3 SignedData\0'), length, signedData, zip]), signer.privateKey)
  return field(number, Buffer.concat([field(1, derOf(signer)), field(2, signature)]))
}

export function crxWith(header: Buffer, zip: Buffer): Buffer {
  const prelude = Buffer.alloc(12)
  prelude.write('Cr24')
  prelude.writeUInt32LE(3, 4)
  prelude.writeUInt32LE(header.length, 8)
  return Buffer.concat([prelude, header, zip])
}

/** A CRX3 file of the first signer's extension, signed by all signers. */
export function makeCrx(zip: Buffer, [own, ...others]: [Signer, ...Signer[]]): Buffer {
  const signedData = field(1, crxIdOf(own))
  return crxWith(Buffer.concat([...[own, ...others].map((signer) => proofOf(signer, signedData, zip)), field(10_000, signedData)]), zip)
}
