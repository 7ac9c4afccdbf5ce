// The container of a KDBX 4 file: its key derived, its signature checked, its content decrypted and unpacked. What is inside of it is read by keepass-xml.ts.
//
// Node's own crypto and zlib do the work, because each of their steps has a limit: a password database is what somebody else has made.
import { createDecipheriv, createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { BackendProblem } from './backend.ts'
import { deriveKey, type KDF } from './kdbx-key.ts'

/** What a database may have once it is unpacked, attachments included. */
const MAX_CONTENT = 64 * 1024 * 1024

const SIGNATURE_1 = 0x9aa2d903
const SIGNATURE_2 = 0xb54bfb67
const AES_256 = '31c1f2e6bf714350be5805216afc5aff'
const CHACHA20 = 'd6038a2b8b6f4cb5a524339a31dbb59a'
const SHA256_BYTES = 32
/** The number of the "block" that is the header. */
const HEADER_BLOCK = 0xffff_ffff_ffff_ffffn

const FIELD = { end: 0, cipher: 2, compression: 3, seed: 4, iv: 7, kdf: 11 } as const
const INNER = { end: 0, stream: 1, key: 2 } as const
const INNER_CHACHA20 = 3

export interface KdbxContent {
  /** UTF-8. */
  xml: Buffer
  /** Decrypts protected values; they have to come in the order of the document. */
  unprotect: (bytes: Buffer) => Buffer
}

const damaged = () => new BackendProblem('the KeePass file is damaged, or is no KeePass file')
const notTaken = (what: string) => new BackendProblem(`this is not supported in a KeePass file: ${what}`)

/** Reads within the bytes that there are. */
class Bytes {
  #at = 0
  readonly #bytes: Buffer
  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }
  get position(): number {
    return this.#at
  }
  /** @throws BackendProblem at the end */
  take(count: number): Buffer {
    if (count < 0 || this.#at + count > this.#bytes.length) throw damaged()
    this.#at += count
    return this.#bytes.subarray(this.#at - count, this.#at)
  }
  u8 = (): number => this.take(1).readUInt8()
  u32 = (): number => this.take(4).readUInt32LE()
  rest = (): Buffer => this.take(this.#bytes.length - this.#at)
}

const sha256 = (...parts: Buffer[]): Buffer => createHash('sha256').update(Buffer.concat(parts)).digest()
const sha512 = (...parts: Buffer[]): Buffer => createHash('sha512').update(Buffer.concat(parts)).digest()
const isSame = (a: Buffer, b: Buffer): boolean => a.length === b.length && timingSafeEqual(a, b)

function u64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(value)
  return bytes
}

/** Opens a database with the hash of its password and key file. @throws BackendProblem; the signal's reason */
export async function openKdbx(file: Buffer, composite: Buffer, signal: AbortSignal): Promise<KdbxContent> {
  const bytes = new Bytes(file)
  const fields = readHeader(bytes)
  const header = file.subarray(0, bytes.position)
  if (!isSame(bytes.take(SHA256_BYTES), sha256(header))) throw damaged()
  const seed = needed(fields, FIELD.seed, 32)
  const transformed = await deriveKey(readVariants(needed(fields, FIELD.kdf)), composite, signal)
  const macKey = sha512(seed, transformed, Buffer.from([1]))
  const macOf = (block: bigint, ...content: Buffer[]) =>
    createHmac('sha256', sha512(u64(block), macKey))
      .update(Buffer.concat(content))
      .digest()
  if (!isSame(bytes.take(SHA256_BYTES), macOf(HEADER_BLOCK, header))) throw new BackendProblem('the password or the key file of the KeePass file is wrong')
  const encrypted = readBlocks(bytes, macOf)
  const packed = decrypt(encrypted, needed(fields, FIELD.cipher, 16).toString('hex'), sha256(seed, transformed), needed(fields, FIELD.iv))
  return readInner(await unpack(packed, needed(fields, FIELD.compression, 4).readUInt32LE()))
}

function readHeader(bytes: Bytes): Map<number, Buffer> {
  if (bytes.u32() !== SIGNATURE_1 || bytes.u32() !== SIGNATURE_2) throw damaged()
  const version = bytes.u32() >>> 16
  if (version !== 4) throw notTaken(`version ${version} of its format; save it as KDBX 4`)
  const fields = new Map<number, Buffer>()
  for (;;) {
    const id = bytes.u8()
    const value = bytes.take(bytes.u32())
    if (id === FIELD.end) return fields
    fields.set(id, value)
  }
}

function needed(fields: ReadonlyMap<number, Buffer>, id: number, length?: number): Buffer {
  const value = fields.get(id)
  if (!value || (length !== undefined && value.length !== length)) throw damaged()
  return value
}

/** A dictionary of typed values. Texts and byte strings stay bytes. */
function readVariants(value: Buffer): KDF {
  const bytes = new Bytes(value)
  if (bytes.take(2).readUInt16LE() >>> 8 !== 1) throw damaged()
  const found: KDF = new Map()
  for (;;) {
    const type = bytes.u8()
    if (type === 0) return found
    const name = bytes.take(bytes.u32()).toString('utf8')
    const content = bytes.take(bytes.u32())
    const isNumber = [0x04, 0x05, 0x0c, 0x0d].includes(type)
    if (isNumber && content.length !== 4 && content.length !== 8) throw damaged()
    found.set(name, isNumber ? (content.length === 8 ? content.readBigUInt64LE() : BigInt(content.readUInt32LE())) : content)
  }
}

/** Each block is signed with its number, so none can be left out or moved. */
function readBlocks(bytes: Bytes, macOf: (block: bigint, ...content: Buffer[]) => Buffer): Buffer {
  const blocks: Buffer[] = []
  for (let number = 0n; ; number++) {
    const mac = bytes.take(SHA256_BYTES)
    const size = bytes.take(4)
    const content = bytes.take(size.readUInt32LE())
    if (!isSame(mac, macOf(number, u64(number), size, content))) throw damaged()
    if (content.length === 0) return Buffer.concat(blocks)
    blocks.push(content)
  }
}

/** Node's ChaCha20 takes the block counter in front of the nonce. */
const chacha20 = (key: Buffer, nonce: Buffer) => createDecipheriv('chacha20', key, Buffer.concat([Buffer.alloc(4), nonce]))

function decrypt(encrypted: Buffer, cipher: string, key: Buffer, iv: Buffer): Buffer {
  if (cipher !== AES_256 && cipher !== CHACHA20) throw notTaken('a cipher other than AES-256 and ChaCha20')
  if (iv.length !== (cipher === AES_256 ? 16 : 12)) throw damaged()
  const decipher = cipher === AES_256 ? createDecipheriv('aes-256-cbc', key, iv) : chacha20(key, iv)
  try {
    return Buffer.concat([decipher.update(encrypted), decipher.final()])
  } catch {
    throw damaged()
  }
}

const unzip = promisify(gunzip)

async function unpack(packed: Buffer, compression: number): Promise<Buffer> {
  if (compression > 1) throw notTaken('a compression other than GZip')
  if (compression === 0) return packed
  return unzip(packed, { maxOutputLength: MAX_CONTENT }).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ERR_BUFFER_TOO_LARGE'
      ? new BackendProblem(`the KeePass file is larger than ${MAX_CONTENT} bytes when it is unpacked, the limit`)
      : damaged()
  })
}

function readInner(content: Buffer): KdbxContent {
  const bytes = new Bytes(content)
  const fields = new Map<number, Buffer>()
  for (;;) {
    const id = bytes.u8()
    const value = bytes.take(bytes.u32())
    if (id === INNER.end) break
    // The others are attachments.
    if (id === INNER.stream || id === INNER.key) fields.set(id, value)
  }
  if (needed(fields, INNER.stream, 4).readUInt32LE() !== INNER_CHACHA20) throw notTaken('an inner cipher other than ChaCha20')
  const hash = sha512(needed(fields, INNER.key))
  const stream = chacha20(hash.subarray(0, 32), hash.subarray(32, 44))
  return { xml: bytes.rest(), unprotect: (value) => stream.update(value) }
}
