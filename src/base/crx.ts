// Reads a CRX3, the format in which signed extensions are distributed: a zip behind a header with signatures. All of it is checked and bounded; nothing of the
// zip is read. (components/crx_file/crx3.proto and crx_verifier.cc of Chromium)
import { createHash, createPublicKey, verify, type KeyObject } from 'node:crypto'
import { promisify } from 'node:util'

/** A file that is no CRX3, or whose signatures are invalid. The message continues a sentence that begins with the file. */
export class BadCrx extends Error {
  override name = 'BadCrx'
}

/** Before the header: `Cr24`, the version and the header's length. */
const PRELUDE = 12
/** The signatures, and hashes of the files that the store has checked itself. Headers of the store have some 1,500 bytes; this is Chromium's limit. */
const MAX_HEADER = 256 * 1024
/** The store signs two or three times. Each check reads the whole file. */
const MAX_PROOFS = 8
/** Bytes of a key and of a signature: RSA with 4096 bits takes 550 and 512. */
const MAX_KEY = 2048

const CONTEXT = Buffer.from('CRX3 SignedData\0')
const RSA = 2
const ECDSA = 3
const SIGNED_DATA = 10_000

const check = promisify(verify) as (algorithm: string, data: Buffer, key: KeyObject, signature: Buffer) => Promise<boolean>

export interface Crx {
  /** The id of the extension. */
  id: string
  /** A part of the file. */
  zip: Buffer
}

/** Reads a CRX3. All its signatures are valid, and one is made with the key of the extension's id; the id equals `wanted` if given. @throws BadCrx */
export async function readCrx(file: Buffer, wanted?: string): Promise<Crx> {
  if (file.length < PRELUDE || file.toString('latin1', 0, 4) !== 'Cr24') throw new BadCrx('is not a CRX file')
  if (file.readUInt32LE(4) !== 3) throw new BadCrx('is not of version 3 of CRX')
  const headerBytes = file.readUInt32LE(8)
  if (headerBytes > MAX_HEADER || headerBytes > file.length - PRELUDE) throw new BadCrx('has a header that is too long')
  const header = fieldsOf(file.subarray(PRELUDE, PRELUDE + headerBytes))
  const zip = file.subarray(PRELUDE + headerBytes)
  const signedData = only(header, SIGNED_DATA, 'its signed data')
  const id = idOf(only(fieldsOf(signedData), 1, 'its id'))
  if (wanted !== undefined && id !== wanted) throw new BadCrx(`is not the extension ${wanted}`)
  const proofs = header.filter(({ number }) => number === RSA || number === ECDSA)
  if (proofs.length === 0) throw new BadCrx('has no signature')
  if (proofs.length > MAX_PROOFS) throw new BadCrx(`has more than ${MAX_PROOFS} signatures`)
  const length = Buffer.alloc(4)
  length.writeUInt32LE(signedData.length)
  const signed = Buffer.concat([CONTEXT, length, signedData, zip])
  let isOwn = false
  for (const { number, bytes } of proofs) {
    const proof = fieldsOf(bytes)
    const der = only(proof, 1, 'the key of a signature')
    const signature = only(proof, 2, 'a signature')
    if (der.length > MAX_KEY || signature.length > MAX_KEY) throw new BadCrx('has a key or a signature that is too long')
    const key = keyOf(der, number === RSA ? 'rsa' : 'ec')
    // In a separate thread: a file of 50 MiB takes a tenth of a second.
    if (!(await check('sha256', signed, key, signature))) throw new BadCrx('has a signature that does not hold')
    isOwn ||= idOf(createHash('sha256').update(der).digest().subarray(0, ID_BYTES)) === id
  }
  if (!isOwn) throw new BadCrx(`is not signed by the key of the extension ${id}`)
  if (zip.toString('latin1', 0, 4) !== 'PK\x03\x04') throw new BadCrx('holds no zip')
  return { id, zip }
}

const ID_BYTES = 16

/** The id of an extension as people see it: hex digits, written with the letters a to p. */
function idOf(bytes: Buffer): string {
  if (bytes.length !== ID_BYTES) throw new BadCrx('has an id of the wrong length')
  return bytes.toString('hex').replaceAll(/./g, (digit) => String.fromCharCode('a'.charCodeAt(0) + parseInt(digit, 16)))
}

function keyOf(der: Buffer, type: 'rsa' | 'ec'): KeyObject {
  let key: KeyObject
  try {
    key = createPublicKey({ key: der, format: 'der', type: 'spki' })
  } catch {
    throw new BadCrx('has a key that cannot be read')
  }
  const isUsual = type === 'rsa' ? key.asymmetricKeyType === 'rsa' : key.asymmetricKeyDetails?.namedCurve === 'prime256v1'
  if (!isUsual) throw new BadCrx('has a key of another kind than its signature')
  return key
}

/** A field of a protobuf message that holds bytes. */
interface Field {
  number: number
  bytes: Buffer
}

const VARINT = 0
const FIXED64 = 1
const BYTES = 2
const FIXED32 = 5
/** A number of 32 bits has at most five bytes. */
const MAX_VARINT = 5

/** The fields of a protobuf message that hold bytes, in their order; others are skipped. @throws BadCrx */
function fieldsOf(message: Buffer): Field[] {
  let at = 0
  const skip = (bytes: number): Buffer => {
    if (bytes > message.length - at) throw new BadCrx('has a header that is cut off')
    at += bytes
    return message.subarray(at - bytes, at)
  }
  const varint = (): number => {
    let value = 0
    for (let read = 0; read < MAX_VARINT; read++) {
      const byte = skip(1)[0]!
      value += (byte & 0x7f) * 2 ** (7 * read)
      if (byte < 0x80) return value
    }
    throw new BadCrx('has a header with a number that is too large')
  }
  const fields: Field[] = []
  while (at < message.length) {
    const tag = varint()
    const [number, type] = [Math.floor(tag / 8), tag % 8]
    if (type === BYTES) fields.push({ number, bytes: skip(varint()) })
    else if (type === FIXED32 || type === FIXED64) skip(type === FIXED32 ? 4 : 8)
    else if (type === VARINT) varint()
    else throw new BadCrx('has a header with a field of an unknown kind')
  }
  return fields
}

/** The only field with this number. Another reader would use a second one instead of the first. @throws BadCrx */
function only(fields: readonly Field[], number: number, what: string): Buffer {
  const found = fields.filter((field) => field.number === number)
  if (found.length !== 1) throw new BadCrx(`has ${what} ${found.length === 0 ? 'missing' : 'twice'}`)
  return found[0]!.bytes
}
